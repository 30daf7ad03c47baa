"use strict";
// Starts the page: reads what it holds, puts the parts together, and keeps the state in the address.

class App {
  constructor() {
    this.facts = JSON.parse(document.getElementById("facts").textContent);
    const { samples, input, networks } = this.facts;
    this.turn = 0;
    this.pin = null;
    this.source = null;
    const bytes = App.decoded("samples"), size = networks[0].inputs;
    const inputs = Float32Array.from(samples.bytes === 1 ? bytes : new Float32Array(bytes.buffer));
    this.samples = { inputs, targets: samples.targets, of: (place) => inputs.subarray(place * size, (place + 1) * size) };
    this.ready = false;
    this.texts();
    if (input.kind === "images" && input.shape.length === 3) this.pad = new Pad(input, () => this.drawn());
    else if (input.columns) this.fields = new Fields(input, size, () => this.take(this.fields.raw, { type: "fields" }));
    this.inputCard();
    this.views = networks.map((network, place) => new View(this, place, network, new Float32Array(App.decoded(`network-${place}`).buffer)));
    const gated = this.views.find((view) => view.gated);
    if (gated) { this.gateCard = new GateCard(); this.gateCard.view = gated; }
    document.getElementById("answers").append(...this.views.map((view) => view.answerCard.element), ...(gated ? [this.gateCard.element] : []));
    document.getElementById("insides").append(...this.views.map((view) => view.element));
    document.body.classList.toggle("two", networks.length > 1);
    this.tools();
    this.tour = new Tour(this);
    this.ready = true;
    this.recall();
    window.addEventListener("hashchange", () => { if (location.hash.slice(1) !== this.written) this.recall(); });
  }

  static decoded(id) {
    const element = document.getElementById(`bytes-${id}`), text = atob(element.textContent), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    element.remove();
    return bytes;
  }

  texts() {
    const { networks, input, data } = this.facts, [network] = networks, layers = network.rows.length;
    const words = networks.length > 1 ? networks.map((one) => one.title).join(" and ") : network.title;
    document.getElementById("title").textContent = `${words}, trained on ${data}`;
    const gated = networks.some((one) => one.rows.some((row) => row.kind === "highway"));
    document.getElementById("lead").textContent = networks.length > 1
      ? "Two trained networks run inside this page. Give both the same input and watch what each of them does with it, layer by layer."
      : `A trained network with ${layers} layers runs inside this page. Give it an input and watch what happens in every layer${gated ? ": which gates open, and where it makes up its mind" : ""}. Then take layers away.`;
    document.getElementById("input-words").textContent = input.kind !== "images" ? "Choose an input" : input.ink ? `Draw ${this.example()}` : "Choose an image";
    document.getElementById("about").textContent = `The data: ${input.found}. ${networks.map((one) => `${one.title}: ${one.parameters.toLocaleString("en")} weights (${one.run})`).join("; ")}. This page works offline and sends nothing.`;
  }

  // ----- Inputs

  inputCard() {
    const body = document.getElementById("input-body"), tools = document.getElementById("input-tools");
    const button = (text, act) => { const one = make("button", { type: "button", textContent: text }); one.addEventListener("click", act); return one; };
    if (this.pad) {
      const { pad } = this, hint = pad.drawable ? (this.facts.input.ink ? `Draw ${this.example()} here` : "Draw over the picture, or drop another") : "";
      this.hint = make("span", { className: "hint", textContent: hint });
      body.append(make("div", { className: "canvas" }, pad.canvas, this.hint), make("figure", { className: "sees" }, pad.seen, make("figcaption", { textContent: `what the network sees: ${pad.width} × ${pad.height} pixels` })));
      tools.append(button("Clear", () => { pad.clear(); this.drawn(); }));
      if (pad.drawable) {
        const file = make("input", { type: "file", accept: "image/*", hidden: true, id: "file" });
        file.addEventListener("change", () => { if (file.files[0]) this.open(file.files[0]); file.value = ""; });
        tools.append(file, button("Open an image", () => file.click()));
        this.dropping(document.getElementById("input"));
      }
      if (pad.channels === 3) {
        const colour = make("input", { type: "color", value: pad.colour });
        colour.addEventListener("input", () => { pad.colour = colour.value; });
        tools.append(make("label", { className: "soft" }, "pen ", colour));
      }
    } else if (this.fields) body.append(this.fields.element);
    this.note = make("p", { className: "soft note" });
    tools.after(this.note);
    this.sampleChooser();
  }

  example() {
    const { classes } = this.facts.input;
    return classes.length === 10 && classes.every((name, place) => name === String(place)) ? "a digit" : "something";
  }

  sampleChooser() {
    const { samples, input } = this.facts, holder = document.getElementById("samples");
    const names = samples.targets.map((target, place) => `${samples.names[place]}${input.task === "classification" ? `: ${input.classes[target]}` : `: ${Format.number(target * input.target.std + input.target.mean)}`}`);
    this.sampleNames = names;
    holder.append(make("h3", { textContent: `Or take one of ${samples.count} ${samples.part} samples` }));
    if (!this.pad) {
      this.choice = make("select", {}, make("option", { value: "", textContent: "choose …" }), ...names.map((name, place) => make("option", { value: place, textContent: Format.shortened(name, 60) })));
      this.choice.setAttribute("aria-label", "Sample");
      this.choice.addEventListener("change", () => { if (this.choice.value !== "") this.sample(Number(this.choice.value)); });
      const random = make("button", { type: "button", textContent: "At random" });
      random.addEventListener("click", () => this.sample(Math.floor(Math.random() * samples.count)));
      holder.append(make("div", { className: "row" }, this.choice, random));
      return;
    }
    this.strip = make("div", { className: "strip", role: "group" }, ...names.map((name, place) => {
      const canvas = Pad.picture(make("canvas", { width: input.shape[2], height: input.shape[1] }), this.samples.of(place), input);
      const one = make("button", { type: "button", className: "sample", title: name }, canvas);
      one.setAttribute("aria-label", `Sample ${name}`);
      one.addEventListener("click", () => this.sample(place));
      return one;
    }));
    this.strip.setAttribute("aria-label", "Samples");
    holder.append(this.strip, make("p", { className: "soft small", textContent: "An orange frame marks samples that the network gets wrong." }));
  }

  dropping(card) {
    const over = (on) => card.classList.toggle("over", on);
    card.addEventListener("dragover", (event) => { event.preventDefault(); over(true); });
    card.addEventListener("dragleave", () => over(false));
    card.addEventListener("drop", (event) => {
      event.preventDefault();
      over(false);
      const file = [...event.dataTransfer.files].find((one) => one.type.startsWith("image/"));
      if (file) this.open(file);
      else this.say("This is not an image file.");
    });
  }

  async open(file) {
    try {
      const inverted = await this.pad.open(file);
      this.say(inverted ? "Light and dark were swapped, because the training images are the other way round." : "");
      this.take(this.pad.raw(), { type: "image", name: file.name });
    } catch (error) {
      this.say("This file cannot be read as an image.");
    }
  }

  drawn() {
    this.say("");
    this.take(this.pad.raw(), this.pad.empty ? { type: "nothing" } : { type: "drawing" });
  }

  sample(place) {
    const raw = this.samples.of(place);
    if (this.pad) { this.pad.load(raw); this.pad.fresh = Boolean(this.facts.input.ink); }
    if (this.fields) this.fields.load(raw);
    this.say("");
    this.take(raw, { type: "sample", place });
  }

  // A new input for all networks
  take(raw, source) {
    this.raw = Float32Array.from(raw);
    this.source = source;
    this.turn++;
    if (this.pad && source.type !== "sample") this.pad.fresh = false;
    if (this.hint) this.hint.hidden = source.type !== "nothing";
    this.truth = source.type === "sample" ? this.samples.targets[source.place] : null;
    if (this.strip) [...this.strip.children].forEach((one, place) => one.setAttribute("aria-pressed", String(source.type === "sample" && source.place === place)));
    if (this.choice) this.choice.value = source.type === "sample" ? source.place : "";
    if (!this.ready) return;
    this.views.forEach((view) => view.ask());
    this.remember();
  }

  sourceWords(source = this.source) {
    if (!source || source.type === "nothing") return "nothing yet";
    if (source.type === "sample") return `sample ${this.sampleNames[source.place]}`;
    return source.type === "image" ? `image ${source.name}` : source.type === "fields" ? "own values" : "a drawing";
  }

  // The answers in a line below the input, for narrow screens
  brief() {
    const answers = this.views.filter((view) => view.answerText).map((view) => `${this.views.length > 1 ? `${view.network.title}: ` : "Its answer: "}${view.answerText}`);
    document.getElementById("brief").textContent = answers.join(" · ");
  }

  // ----- Tools of the page

  tools() {
    const on = (id, act) => document.getElementById(id).addEventListener("click", act);
    on("start-tour", () => this.tour.start());
    on("save-picture", () => Picture.save(this));
    on("copy-link", () => this.copyLink());
    on("theme", () => this.setTheme(this.dark() ? "light" : "dark"));
    on("pin", () => this.keep({ raw: Float32Array.from(this.raw), source: this.source }));
    on("unpin", () => this.keep(null));
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.views.forEach((view) => view.draw()));
  }

  dark() {
    const { theme } = document.documentElement.dataset;
    return theme ? theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  }

  setTheme(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    this.views.forEach((view) => view.draw());
    this.remember();
  }

  // Keeps an input, with which later ones are compared
  keep(pin) {
    this.pin = pin && { ...pin, words: Format.shortened(this.sourceWords(pin.source), 40) };
    document.getElementById("pinned").textContent = this.pin ? `Kept: ${this.pin.words}. The maps compare with it.` : "";
    document.getElementById("unpin").hidden = !this.pin;
    for (const view of this.views) { view.pinned = null; view.ask(); view.show(); }
    this.remember();
  }

  async copyLink() {
    this.remember(true);
    try {
      await navigator.clipboard.writeText(location.href);
      this.say("The address of this view is copied.");
    } catch (error) {
      this.say("Copy the address of this page from your browser: it holds this view.");
    }
  }

  say(words) { this.note.textContent = words; if (words) this.tell(words); }

  tell(words) { document.getElementById("told").textContent = words; }

  answered(view, message) {
    if (message.id === this.turn) {
      document.body.dataset.answered = this.turn;
      clearTimeout(this.telling);
      this.telling = setTimeout(() => this.tell(this.views.map((one) => `${this.views.length > 1 ? `${one.network.title}: ` : ""}${one.answerText}`).join(". ")), 700);
    }
  }

  // Marks the samples that a network gets wrong
  judged(view, wrong) {
    view.wrong = new Map(wrong);
    if (!this.strip) return;
    [...this.strip.children].forEach((one, place) => {
      const answers = this.views.filter((other) => other.wrong && other.wrong.has(place)).map((other) => this.facts.input.classes[other.wrong.get(place)]);
      one.classList.toggle("wrong", answers.length > 0);
      one.title = this.sampleNames[place] + (answers.length ? `, answered ${answers.join(", ")}` : "");
    });
  }

  // ----- The state in the address

  remember(now = false) {
    clearTimeout(this.writing);
    if (!this.ready) return;
    const write = () => {
      const parts = new URLSearchParams(), own = App.coded(this.source, this.raw, this.facts.input);
      if (own) parts.set("in", own);
      const pin = this.pin && App.coded(this.pin.source, this.pin.raw, this.facts.input);
      if (pin) parts.set("kept", pin);
      this.views.forEach((view, place) => {
        if (view.closed.size) parts.set(`closed${place || ""}`, Format.spans(view.closed).replaceAll("–", "-").replaceAll(" ", ""));
        if (view.swaps.length) parts.set(`swaps${place || ""}`, view.swaps.map((pair) => pair.join(".")).join(","));
      });
      if (document.documentElement.dataset.theme) parts.set("theme", document.documentElement.dataset.theme);
      this.written = parts.toString();
      history.replaceState(null, "", `#${this.written}`);
    };
    if (now) write();
    else this.writing = setTimeout(write, 250);
  }

  // s12: a sample; d…: a drawing or image, one of 16 levels for each pixel; f…: numbers
  static coded(source, raw, input) {
    if (!source || source.type === "nothing") return null;
    if (source.type === "sample") return `s${source.place}`;
    if (source.type === "fields") return raw.length <= 400 ? `f${Array.from(raw, (value) => Number(value.toPrecision(6))).join("_")}` : null;
    if (raw.length > 4096) return null;
    const levels = Array.from(raw, (value) => Math.max(0, Math.min(15, Math.round((value / input.fullScale) * 15)))), text = [];
    for (let i = 0; i < levels.length; i += 2) text.push(String.fromCharCode(levels[i] * 16 + (levels[i + 1] || 0)));
    return `d${btoa(text.join("")).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
  }

  // The input that a code stands for; null if it is none
  decodedInput(code) {
    const size = this.facts.networks[0].inputs, kind = code ? code[0] : "";
    if (kind === "s" && /^s\d{1,6}$/.test(code) && Number(code.slice(1)) < this.facts.samples.count) {
      const place = Number(code.slice(1));
      return { raw: this.samples.of(place), source: { type: "sample", place } };
    }
    if (kind === "f" && this.fields) {
      const values = code.slice(1).split("_").map(Number);
      return values.length === size && values.every(Number.isFinite) ? { raw: Float32Array.from(values), source: { type: "fields" } } : null;
    }
    if (kind !== "d" || !this.pad) return null;
    try {
      const text = atob(code.slice(1).replaceAll("-", "+").replaceAll("_", "/")), raw = new Float32Array(size);
      for (let i = 0; i < size; i++) raw[i] = (((i % 2 ? text.charCodeAt(i >> 1) & 15 : text.charCodeAt(i >> 1) >> 4) || 0) / 15) * this.facts.input.fullScale;
      return { raw, source: { type: "drawing" } };
    } catch (error) {
      return null;
    }
  }

  recall() {
    const parts = new URLSearchParams(location.hash.slice(1)), numbers = (text) => (text || "").split(",").filter(Boolean);
    this.views.forEach((view, place) => {
      const known = new Set(view.numbers);
      view.closed.clear();
      for (const span of numbers(parts.get(`closed${place || ""}`))) {
        const [first, last = first] = span.split("-").map(Number);
        if (known.has(first) && known.has(last)) for (let number = first; number <= last; number++) view.closed.add(number);
      }
      const pairs = numbers(parts.get(`swaps${place || ""}`)).map((pair) => pair.split(".").map(Number)).slice(0, 1000);
      view.swaps = pairs.filter(([one, two]) => one !== two && view.network.groups.some((group) => group.includes(one) && group.includes(two)));
      view.count();
    });
    const theme = parts.get("theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    const kept = this.decodedInput(parts.get("kept"));
    if (kept) this.keep(kept);
    const given = this.decodedInput(parts.get("in"));
    if (given && given.source.type === "sample") this.sample(given.source.place);
    else if (given) {
      if (this.pad) this.pad.load(given.raw);
      if (this.fields) this.fields.load(given.raw);
      this.take(given.raw, given.source);
    } else this.sample(0);
  }
}

const app = new App();
