"use strict";
// Starts the page: reads what it holds and puts its parts together.

class App {
  constructor() {
    this.facts = JSON.parse(document.getElementById("facts").textContent);
    const { samples, networks } = this.facts;
    const bytes = App.decoded("samples");
    const size = networks[0].inputs;
    const inputs = Float32Array.from(samples.bytes === 1 ? bytes : new Float32Array(bytes.buffer));
    this.samples = { inputs, targets: samples.targets, of: (place) => inputs.subarray(place * size, (place + 1) * size) };
    this.turn = 0; // counts inputs
    this.pin = null;
    this.texts();
    this.inputs = new InputCard(this);
    this.pad = this.inputs.pad;
    this.fields = this.inputs.fields;
    this.views = networks.map((network, place) => new View(this, network, new Float32Array(App.decoded(`network-${place}`).buffer)));
    this.cards();
    this.tools();
    this.tour = new Tour(this);
    this.address = new Address(this);
    this.address.read();
  }

  static decoded(id) {
    const element = document.getElementById(`bytes-${id}`);
    const text = atob(element.textContent);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    element.remove();
    return bytes;
  }

  texts() {
    const { networks, input, data } = this.facts;
    const write = (id, words) => {
      document.getElementById(id).textContent = words;
    };
    write("title", `${networks.map((one) => one.title).join(" and ")}, trained on ${data}`);
    const gated = networks.some((one) => one.rows.some((row) => row.gated));
    const watch = `watch what happens in every layer${gated ? ": which gates open, and where it makes up its mind" : ""}`;
    const layers = `A trained network with ${networks[0].rows.length} layers runs inside this page.`;
    const one = `${layers} Give it an input and ${watch}. Then take layers away.`;
    const two = "Two trained networks run inside this page. Give both the same input and watch what each does with it, layer by layer.";
    write("lead", networks.length > 1 ? two : one);
    const sizes = networks.map((network) => `${network.title}: ${network.parameters.toLocaleString("en")} weights (${network.run})`);
    write("about", `The data: ${input.found}. ${sizes.join("; ")}. This page works offline and sends nothing.`);
  }

  cards() {
    const gated = this.views.find((view) => view.rows.some((row) => row.kind === "highway")); // an LSTM cell mixes in another way
    const answers = this.views.map((view) => view.answerCard.element);
    if (gated) {
      this.gateCard = new GateCard();
      this.gateCard.view = gated;
      answers.push(this.gateCard.element);
    }
    document.getElementById("answers").append(...answers);
    document.getElementById("insides").append(...this.views.map((view) => view.element));
    document.body.classList.toggle("two", this.views.length > 1);
  }

  // ----- Inputs

  load(raw, source) {
    this.inputs.load(raw, source);
    this.take(raw, source);
  }

  // A new input for all networks; source: where it comes from
  take(raw, source) {
    this.raw = Float32Array.from(raw);
    this.source = source;
    this.turn++;
    this.truth = source.type === "sample" ? this.samples.targets[source.place] : null;
    this.inputs.mark(source);
    this.views?.forEach((view) => view.ask());
    this.remember();
  }

  sourceWords(source = this.source) {
    if (!source || source.type === "nothing") return "nothing yet";
    if (source.type === "sample") return `${this.facts.samples.part} ${this.inputs.names[source.place]}`;
    return source.type === "image" ? `image ${source.name}` : source.type === "fields" ? "own values" : "a drawing";
  }

  // Keeps an input, with which later ones are compared; null forgets it
  keep(pin) {
    this.pin = pin && { ...pin, words: Format.shortened(this.sourceWords(pin.source), 40) };
    document.getElementById("pinned").textContent = this.pin ? `Kept: ${this.pin.words}. The maps compare with it.` : "";
    document.getElementById("unpin").hidden = !this.pin;
    for (const view of this.views) {
      view.pinned = null;
      view.askPin();
      view.ask();
    }
    this.remember();
  }

  // ----- Answers

  answered(message) {
    if (message.id !== this.turn) return;
    document.body.dataset.answered = this.turn;
    this.firstAnswer ??= performance.now(); // milliseconds since the page was opened
    clearTimeout(this.telling);
    this.telling = setTimeout(() => this.tell(document.getElementById("brief").textContent), 700);
  }

  judged(view, wrong) {
    view.wrong = new Map(wrong);
    this.inputs.judge(this.views);
  }

  // The answers in a line below the input, for narrow screens and screen readers
  brief() {
    const name = (view) => (this.views.length > 1 ? view.network.title : "Its answer");
    const answers = this.views.filter((view) => view.answerText).map((view) => `${name(view)}: ${view.answerText}`);
    document.getElementById("brief").textContent = answers.join(" · ");
  }

  tell(words) {
    document.getElementById("told").textContent = words;
  }

  // ----- Tools of the page

  tools() {
    const on = (id, act) => document.getElementById(id).addEventListener("click", act);
    on("start-tour", () => this.tour.start());
    on("save-picture", () => Picture.save(this));
    on("copy-link", () => this.copyLink());
    on("theme", () => this.setTheme(this.dark() ? "light" : "dark"));
    on("pin", () => this.keep({ raw: this.raw, source: this.source }));
    on("unpin", () => this.keep(null));
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.views.forEach((view) => view.draw()));
  }

  dark() {
    const { theme } = document.documentElement.dataset;
    return theme ? theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  }

  setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    this.views.forEach((view) => view.draw());
    this.remember();
  }

  async copyLink() {
    this.address.write();
    try {
      await navigator.clipboard.writeText(location.href);
      this.inputs.say("The address of this view is copied.");
    } catch (error) {
      this.inputs.say("Copy the address of this page from your browser: it holds this view.");
    }
  }

  // Writes the address a little later, so that it is not written with every stroke
  remember() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.address.write(), 250);
  }
}

const app = new App();
