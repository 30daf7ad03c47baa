"use strict";
// One network in the page: its answer, its maps, and what is asked of its engine.

class View extends LayerState {
  constructor(app, network, floats) {
    super(network);
    Object.assign(this, { app, input: app.facts.input });
    this.cursor = { row: null, column: null, span: null };
    const size = this.rows.length * network.columns;
    const part = (start) => floats.slice(start, start + size);
    this.means = { gates: part(network.meanGates), values: part(network.meanOutputs) };
    this.limit = View.spread(this.means.values);
    this.answerCard = new AnswerCard(this.input, network, app.facts.networks.length > 1);
    this.reading = new Reading(this);
    this.build();
    const { inputs, targets } = app.samples;
    this.link = new Link({ type: "start", description: network, floats, inputs, targets }, (message) => this.got(message));
  }

  // Almost the largest size of some values, for the ends of a colour scale
  static spread(values) {
    const sizes = Float32Array.from(
      values.filter((value) => !Number.isNaN(value)),
      Math.abs,
    ).sort();
    return sizes[Math.floor(sizes.length * 0.995)] || 1;
  }

  get meanGates() {
    return this.inOrder(this.means.gates);
  }

  get meanValues() {
    return this.inOrder(this.means.values);
  }

  // ----- What is done to the layers

  setClosed(numbers, shut) {
    for (const number of numbers) {
      if (shut) this.closed.add(number);
      else this.closed.delete(number);
    }
    this.altered(`${shut ? "Closed" : "Opened"} layer ${Format.spans(numbers)}.`);
  }

  // Closes the layers of some rows, or opens them if the first is closed
  toggle(first, last = first) {
    const rows = [];
    for (let row = Math.min(first, last); row <= Math.max(first, last); row++) if (this.closable(row)) rows.push(row);
    const shut = !this.isClosed(first);
    if (rows.length)
      this.setClosed(
        rows.map((row) => this.numberAt(row)),
        shut,
      );
    else if (this.numbers.length) this.reading.refuse(first, "This layer cannot be closed: it changes the form of the data.");
    else this.reading.refuse(first, "Layers of this network cannot be closed: without shortcuts, nothing would pass.");
  }

  // The layers at two places, given by the numbers of the layers that belong there
  swap(one, two) {
    if (!this.canSwap(one, two)) {
      this.reading.refuse(this.cursor.row, "These two layers cannot change places: they have different forms.");
      return;
    }
    this.swaps.push([one, two]);
    this.altered(`Swapped the layers at places ${one} and ${two}.`);
  }

  reset() {
    this.closed.clear();
    this.swaps = [];
    this.altered("All layers are open and in their order again.");
  }

  altered(words) {
    this.arrange();
    this.app.tell(words);
    this.askAll();
    this.app.remember();
  }

  // ----- Questions to the engine

  askAll() {
    this.askPin();
    this.ask();
    this.link.post({ type: "count", closed: [...this.closed], route: this.route, task: this.input.task });
  }

  ask() {
    this.question("now", this.app.turn, this.app.raw);
  }

  askPin() {
    if (this.app.pin) this.question("pin", 0, this.app.pin.raw);
  }

  question(kind, id, raw) {
    if (raw) this.link.ask(kind, { type: "answer", id, raw, closed: [...this.closed], route: this.route });
  }

  got(message) {
    if (message.type === "answer") {
      this[message.kind === "pin" ? "pinned" : "now"] = message;
      this.show();
      if (message.kind === "now") this.app.answered(message);
    } else if (message.type === "maps") this.reading.showMaps(message);
    else if (message.type === "count") {
      this.controls.count(message);
      if (message.wrong) this.app.judged(this, message.wrong);
    }
  }

  // ----- What is shown

  build() {
    const { network, gated } = this;
    const several = this.app.facts.networks.length > 1;
    this.panels = this.makePanels(several);
    this.gutter = new Gutter(this.rows.length);
    this.height = this.rows.length * Math.max(this.rows.length > 300 ? 1 : 3, Math.min(26, Math.floor(430 / this.rows.length)));
    const panels = Object.values(this.panels);
    this.plates = make("div", { className: "plates", tabIndex: 0, role: "application" });
    this.plates.append(this.gutter.element, ...panels.map((panel) => panel.element));
    const keys = "Arrow keys move between layers and blocks, Enter closes or opens a layer, Shift with arrows marks a span.";
    this.plates.setAttribute("aria-label", `Map of the layers of the ${network.title} network. ${keys}`);
    this.tabs = make("div", { className: "tabs", role: "group", "aria-label": "Which map to show" });
    for (const [key, panel] of Object.entries(this.panels)) {
      panel.tab = make("button", { type: "button", textContent: panel.brief });
      panel.tab.addEventListener("click", () => this.choose(key));
      this.tabs.append(panel.tab);
    }
    this.controls = new LayerControls(this);
    this.details = new LayerTable(this);
    const heading = several ? `Inside the ${network.title} network` : "What happens inside";
    const step = make("span", { className: "step", textContent: "3", "aria-hidden": "true" });
    const words = make("p", { className: "words", textContent: View.words(this.rows, gated, this.numbers.length) });
    this.element = make("section", { className: "card inside", "aria-label": heading }, make("h2", {}, step, " ", heading), words);
    this.element.append(this.controls.element, this.tabs, this.plates, this.reading.below, this.reading.findings, this.details.element);
    this.choose("now");
    this.pointing = new Pointing(this);
    new ResizeObserver(() => this.draw()).observe(this.plates);
  }

  makePanels(several) {
    const { network, gated } = this;
    const name = gated ? "Gates" : "Outputs";
    const signs = "blue: negative · orange: positive";
    const classes = this.input.classes.length;
    const form = { rows: this.rows.length, columns: network.columns, widths: this.rows.map((row) => row.width) };
    const panel = (key, title, short, brief, options) =>
      new Panel({ name: key, title: several ? short : title, brief, ...form, ...options });
    const own = { scale: gated ? "gates" : "signed", help: gated ? "dark: closed · bright: open" : signs };
    return {
      now: panel("now", `${name}, this input`, name, "This input", own),
      reference: panel("reference", `${name}, on average`, "Average", "Average", own),
      difference: panel("difference", "Difference", "Difference", "Difference", { scale: "signed" }),
      ...(gated && { values: panel("values", "Outputs of the layers", "Outputs", "Outputs", { scale: "signed", help: signs }) }),
      guess: panel("guess", "Guess after each layer", "Guess", "Guess", { columns: classes || 1, widths: null, plot: !classes }),
    };
  }

  static words(rows, gated, closable) {
    const kind = rows.some((row) => row.places > 1) ? "map" : "unit";
    const start = `Your input enters at the top and passes ${rows.length} layers, one row each. Every cell is`;
    const close = "Click a row to close a layer, drag over several to close a span.";
    if (gated) {
      const gates = `a dark gate is closed and lets the ${kind} pass unchanged, a bright one is open and replaces it by something new`;
      return `${start} a gate of one ${kind}: ${gates}. ${close}`;
    }
    const without = `${start} the output of one ${kind}. This network has no gates:`;
    if (closable) return `${without} each layer adds something to what it receives. ${close} A closed layer adds nothing.`;
    return `${without} every layer replaces everything, so none can be closed.`;
  }

  // The map that narrow screens show
  choose(key) {
    for (const [name, panel] of Object.entries(this.panels)) {
      panel.element.classList.toggle("chosen", name === key);
      panel.tab.setAttribute("aria-pressed", String(name === key));
    }
    this.draw();
  }

  show() {
    if (!this.now) return;
    const { panels, now, gated, limit } = this;
    const { columns, meanSamples } = this.network;
    const pinned = this.app.pin && this.pinned;
    const shown = (message) => (gated ? message.gates : message.values);
    const reference = pinned ? shown(pinned) : gated ? this.meanGates : this.meanValues;
    const [low, high] = gated ? [0, 1] : [-limit, limit];
    this.difference = shown(now).map((value, at) => value - reference[at]);
    this.rows.forEach((_, row) => {
      if (this.isClosed(row)) this.difference.fill(0, row * columns, (row + 1) * columns);
    });
    const most = gated ? Math.max(0.12, Math.min(0.6, View.spread(this.difference))) : limit;
    panels.now.show(shown(now), low, high);
    panels.reference.show(reference, low, high);
    panels.difference.show(this.difference, -most, most);
    if (panels.values) panels.values.show(now.values, -limit, limit);
    panels.reference.title.textContent = `${gated ? "Gates" : "Outputs"}, ${pinned ? "kept input" : "on average"}`;
    panels.reference.foot.textContent = pinned ? this.app.pin.words : `over ${meanSamples} training samples`;
    panels.difference.foot.textContent = `orange: ${gated ? "more open" : "higher"} than ${pinned ? "for the kept input" : "usual"}`;
    this.reading.showGuess();
    this.reading.showMost(pinned ? "for the kept input" : "on average");
    this.answerText = this.answerCard.show(now.outputs, this.app.truth);
    this.app.brief();
    this.details.refresh();
    this.draw();
    this.reading.describe();
  }

  unit(row) {
    return this.rows[row].places > 1 ? "map" : "block";
  }

  point(row, column, span = null) {
    const last = row === null ? 0 : this.rows[row].width - 1;
    this.cursor = { row, column: column === null ? null : Math.max(0, Math.min(last, column)), span };
    this.draw();
    this.reading.describe();
  }

  draw() {
    const marks = { closed: (row) => this.isClosed(row), ...this.cursor };
    const style = getComputedStyle(document.documentElement);
    const colour = { soft: style.getPropertyValue("--soft").trim(), strong: style.getPropertyValue("--ink").trim() };
    for (const panel of Object.values(this.panels)) panel.draw(this.height, marks);
    const labels = this.rows.map((_, row) => this.label(row));
    this.gutter.draw(this.height, labels, colour, marks);
  }
}
