"use strict";
// The first card: how an input is given. A pad or fields, image files, and the samples of the page.

class InputCard {
  constructor(app) {
    this.app = app;
    const { input, networks } = app.facts;
    const isImage = input.kind === "images" && input.shape.length === 3;
    if (isImage) this.pad = new Pad(input, () => this.drawn());
    else if (input.columns) this.fields = new Fields(input, networks[0].inputs, () => app.take(this.fields.raw, { type: "fields" }));
    const title = !isImage ? "Choose an input" : input.ink ? `Draw ${this.example()}` : "Choose an image";
    document.getElementById("input-words").textContent = title;
    this.note = make("p", { className: "soft note" });
    document.getElementById("input-tools").after(this.note);
    if (this.pad) this.padTools();
    else if (this.fields) document.getElementById("input-body").append(this.fields.element);
    this.chooser();
  }

  example() {
    const { classes } = this.app.facts.input;
    return classes.length === 10 && classes.every((name, place) => name === String(place)) ? "a digit" : "something";
  }

  static button(text, act) {
    const button = make("button", { type: "button", textContent: text });
    button.addEventListener("click", act);
    return button;
  }

  padTools() {
    const { pad } = this;
    const words = this.app.facts.input.ink ? `Draw ${this.example()} here` : pad.drawable ? "Draw here, or drop an image" : "";
    this.hint = make("span", { className: "hint", textContent: words });
    const caption = make("figcaption", { textContent: `what the network sees: ${pad.width} × ${pad.height} pixels` });
    const seen = make("figure", { className: "sees" }, pad.seen, caption);
    document.getElementById("input-body").append(make("div", { className: "canvas" }, pad.canvas, this.hint), seen);
    const tools = document.getElementById("input-tools");
    const clear = () => {
      pad.clear();
      this.drawn();
    };
    tools.append(InputCard.button("Clear", clear));
    if (!pad.drawable) return;
    const file = make("input", { type: "file", accept: "image/*", hidden: true, id: "file" });
    file.addEventListener("change", () => {
      if (file.files[0]) this.open(file.files[0]);
      file.value = "";
    });
    tools.append(
      file,
      InputCard.button("Open an image", () => file.click()),
    );
    this.dropping(document.getElementById("input"));
    if (pad.channels !== 3) return;
    const colour = make("input", { type: "color", value: pad.colour });
    colour.addEventListener("input", () => {
      pad.colour = colour.value;
    });
    tools.append(make("label", { className: "soft" }, "pen ", colour));
  }

  dropping(card) {
    const over = (on) => card.classList.toggle("over", on);
    card.addEventListener("dragover", (event) => {
      event.preventDefault();
      over(true);
    });
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
      this.app.take(this.pad.raw(), { type: "image", name: file.name });
    } catch (error) {
      this.say("This file cannot be read as an image.");
    }
  }

  drawn() {
    this.say("");
    this.app.take(this.pad.raw(), this.pad.empty ? { type: "nothing" } : { type: "drawing" });
  }

  say(words) {
    this.note.textContent = words;
    if (words) this.app.tell(words);
  }

  // ----- Samples

  chooser() {
    const { app } = this;
    const { samples, input } = app.facts;
    const truth = (target) =>
      input.task === "classification" ? input.classes[target] : Format.number(target * input.target.std + input.target.mean);
    this.names = samples.targets.map((target, place) => `${samples.names[place]}: ${truth(target)}`);
    const holder = document.getElementById("samples");
    holder.append(make("h3", { textContent: `Or take one of ${samples.count} ${samples.part} samples` }));
    if (this.pad) {
      this.strip = make("div", { className: "strip", role: "group", "aria-label": "Samples" });
      this.strip.append(...this.names.map((name, place) => this.thumbnail(name, place)));
      holder.append(this.strip, make("p", { className: "soft small", textContent: "A dashed frame marks samples that it gets wrong." }));
      return;
    }
    const options = this.names.map((name, place) => make("option", { value: place, textContent: Format.shortened(name, 60) }));
    this.choice = make("select", { "aria-label": "Sample" }, make("option", { value: "", textContent: "choose …" }), ...options);
    this.choice.addEventListener("change", () => {
      if (this.choice.value !== "") this.sample(Number(this.choice.value));
    });
    const random = InputCard.button("At random", () => this.sample(Math.floor(Math.random() * samples.count)));
    holder.append(make("div", { className: "row" }, this.choice, random));
  }

  thumbnail(name, place) {
    const { input } = this.app.facts;
    const canvas = make("canvas", { width: input.shape[2], height: input.shape[1] });
    Pad.picture(canvas, this.app.samples.of(place), input);
    const button = make("button", { type: "button", className: "sample", title: name, "aria-label": `Sample ${name}` }, canvas);
    button.addEventListener("click", () => this.sample(place));
    return button;
  }

  sample(place) {
    this.say("");
    this.app.load(this.app.samples.of(place), { type: "sample", place });
  }

  // Shows an input that does not come from the pad or the fields
  load(raw, source) {
    if (this.pad) this.pad.load(raw);
    if (this.fields) this.fields.load(raw);
    // The first stroke on a sample begins a new drawing, if strokes are what the network knows.
    if (this.pad) this.pad.fresh = source.type === "sample" && this.app.facts.input.ink !== undefined;
  }

  // Marks what the page shows now
  mark(source) {
    if (this.pad && source.type !== "sample") this.pad.fresh = false;
    if (this.hint) this.hint.hidden = source.type !== "nothing";
    if (this.choice) this.choice.value = source.type === "sample" ? source.place : "";
    if (!this.strip) return;
    this.strip.querySelector('[aria-pressed="true"]')?.setAttribute("aria-pressed", "false");
    if (source.type === "sample") this.strip.children[source.place].setAttribute("aria-pressed", "true");
  }

  // Marks the samples that a network gets wrong
  judge(views) {
    if (!this.strip) return;
    const { classes } = this.app.facts.input;
    [...this.strip.children].forEach((button, place) => {
      const answers = views.filter((view) => view.wrong && view.wrong.has(place)).map((view) => classes[view.wrong.get(place)]);
      button.classList.toggle("wrong", answers.length > 0);
      button.title = this.names[place] + (answers.length ? `, answered ${answers.join(", ")}` : "");
    });
  }
}
