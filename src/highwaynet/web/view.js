"use strict";
// One network: its answer, its maps, and what can be done to its layers.

class View {
  constructor(app, place, network, floats) {
    Object.assign(this, { app, place, network, input: app.facts.input, floats });
    this.closed = new Set();
    this.swaps = [];
    this.reference = "mean";
    this.cursor = { row: null, column: null };
    this.rows = network.rows;
    this.gated = this.rows.some((row) => row.kind === "highway");
    this.numbers = network.steps.filter((step) => step.number !== undefined).map((step) => step.number);
    this.stepOf = new Map(network.steps.map((step, at) => [step.number, at]));
    const size = this.rows.length * network.columns, part = (start) => floats.slice(start, start + size);
    this.mean = { gates: part(network.meanGates), values: part(network.meanOutputs) };
    this.limit = View.spread(this.mean.values);
    this.answerCard = new AnswerCard(this.input, network, app.facts.networks.length > 1);
    this.build();
    const { inputs, targets } = app.samples;
    this.link = new Link({ type: "start", description: network, floats, inputs, targets }, (message) => this.got(message));
    this.count();
  }

  static spread(values) {
    const sizes = Array.from(values).filter((value) => !Number.isNaN(value)).map(Math.abs).sort((a, b) => a - b);
    return sizes[Math.floor(sizes.length * 0.995)] || 1;
  }

  // ----- Layers

  get order() { // which layer stands at the place of each layer
    const order = new Map(this.numbers.map((number) => [number, number]));
    for (const [one, two] of this.swaps) { const kept = order.get(one); order.set(one, order.get(two)); order.set(two, kept); }
    return order;
  }

  get route() {
    const { order } = this;
    return this.network.steps.map((step, at) => (step.number === undefined ? at : this.stepOf.get(order.get(step.number))));
  }

  closable(row) { return row !== null && this.network.steps[this.rows[row].step].number !== undefined; }

  numberAt(row) { return this.closable(row) ? this.order.get(this.rows[row].number) : this.rows[row].number; }

  label(row) { return this.rows[row].number === null ? this.rows[row].kind : String(this.numberAt(row)); }

  isClosed(row) { return this.closable(row) && this.closed.has(this.numberAt(row)); }

  setClosed(numbers, shut) {
    for (const number of numbers) if (shut) this.closed.add(number); else this.closed.delete(number);
    this.altered(`${shut ? "Closed" : "Opened"} layer ${Format.spans(numbers)}.`);
  }

  toggle(first, last = first) {
    const rows = [];
    for (let row = Math.min(first, last); row <= Math.max(first, last); row++) if (this.closable(row)) rows.push(row);
    if (!rows.length) { this.say(this.numbers.length ? "This layer cannot be closed: it changes the form of the data." : "Layers of this network cannot be closed: without shortcuts, nothing would pass."); return; }
    this.setClosed(rows.map((row) => this.numberAt(row)), !this.isClosed(first));
  }

  swap(one, two) { // places of layers, by number
    const group = this.network.groups.find((numbers) => numbers.includes(one));
    if (one === two || !group || !group.includes(two)) { this.say("These two layers cannot change places: they have different forms."); return; }
    this.swaps.push([one, two]);
    this.altered(`Swapped the layers at places ${one} and ${two}.`);
  }

  reset() {
    this.closed.clear();
    this.swaps = [];
    this.altered("All layers are open and in their order again.");
  }

  altered(words) {
    this.app.tell(words);
    this.ask();
    this.count();
    this.app.remember();
  }

  // ----- Questions to the engine

  ask() {
    const state = { closed: [...this.closed], route: this.route };
    if (this.app.raw) this.link.ask("now", { type: "answer", id: this.app.turn, raw: this.app.raw, ...state });
    if (this.app.pin) this.link.ask("pin", { type: "answer", id: 0, raw: this.app.pin.raw, ...state });
  }

  count() { this.link.post({ type: "count", id: 0, closed: [...this.closed], route: this.route, task: this.input.task }); }

  got(message) {
    if (message.type === "answer") {
      this[message.kind === "pin" ? "pinned" : "now"] = message;
      this.show();
      if (message.kind === "now") this.app.answered(this, message);
    } else if (message.type === "count") this.counted(message);
    else if (message.type === "maps") this.showMaps(message);
  }

  // ----- What is shown

  build() {
    const { network } = this, columns = network.columns, rows = this.rows.length, name = this.gated ? "Gates" : "Outputs";
    const several = this.app.facts.networks.length > 1;
    const panel = (options) => new Panel({ rows, columns, ...options, title: several ? options.short : options.title });
    this.panels = {};
    const scale = this.gated ? "gates" : "signed";
    this.panels.now = panel({ name: "now", title: `${name}, this input`, short: name, help: this.gated ? "dark: closed · bright: open" : "blue: negative · orange: positive", scale });
    this.panels.reference = panel({ name: "reference", title: `${name}, on average`, short: "Average", help: `over ${network.meanSamples} training samples`, scale });
    this.panels.difference = panel({ name: "difference", title: "Difference", short: "Difference", help: this.gated ? "orange: more open than usual" : "orange: higher than usual", scale: "signed" });
    if (this.gated) this.panels.values = panel({ name: "values", title: "Outputs of the layers", short: "Outputs", help: "blue: negative · orange: positive", scale: "signed" });
    const classes = this.input.classes.length;
    this.panels.guess = panel({ name: "guess", title: "Guess after each layer", short: "Guess", columns: classes || 1, plot: !classes });
    this.gutter = new Gutter(rows);
    this.rowHeight = Math.max(rows > 300 ? 1 : 3, Math.min(26, Math.floor(430 / rows)));
    this.height = rows * this.rowHeight;
    this.plates = make("div", { className: "plates", tabIndex: 0, role: "application" }, this.gutter.element, ...Object.values(this.panels).map((one) => one.element));
    this.plates.setAttribute("aria-label", `Map of the layers of the ${network.title} network. Arrow keys move between layers and blocks, Enter closes or opens a layer, Shift with arrows marks a span.`);
    this.tabs = make("div", { className: "tabs", role: "group" }, ...Object.entries(this.panels).map(([key, one]) => {
      const tab = make("button", { type: "button", textContent: key === "guess" ? "Guess" : key === "values" ? "Outputs" : key === "now" ? "This input" : key === "reference" ? "Average" : "Difference" });
      tab.addEventListener("click", () => this.choose(key));
      one.tab = tab;
      return tab;
    }));
    this.tabs.setAttribute("aria-label", "Which map to show");
    this.info = make("p", { className: "info" });
    this.maps = make("div", { className: "blockmaps", hidden: true });
    this.mind = make("p", { className: "mind" });
    this.most = make("div", { className: "most" });
    this.controls = new LayerControls(this);
    this.details = new LayerTable(this);
    const heading = this.app.facts.networks.length > 1 ? `Inside the ${network.title} network` : "What happens inside";
    this.element = make(
      "section", { className: "card inside" },
      make("h2", {}, make("span", { className: "step", textContent: "3", "aria-hidden": "true" }), " ", heading),
      make("p", { className: "words", textContent: this.words() }),
      this.controls.element, this.tabs, this.plates, make("div", { className: "below" }, this.info, this.maps),
      make("div", { className: "findings" }, this.mind, this.most), this.details.element,
    );
    this.element.setAttribute("aria-label", heading);
    this.choose("now");
    new Pointing(this);
    new ResizeObserver(() => this.draw()).observe(this.plates);
  }

  words() {
    const rows = this.rows.length, kind = this.rows.some((row) => row.places > 1) ? "map" : "unit";
    const start = `Your input enters at the top and passes ${rows} layers, one row each. `;
    if (this.gated) return `${start}Every cell is a gate of one ${kind}: a dark gate is closed and lets the ${kind} pass unchanged, a bright one is open and replaces it by something new. Click a row to close a layer, drag over several to close a span.`;
    if (this.numbers.length) return `${start}Every cell is the output of one ${kind}. This network has no gates: each layer adds something to what it receives. Click a row to close a layer, so that it adds nothing.`;
    return `${start}Every cell is the output of one ${kind}. This network has no gates: every layer replaces everything, so none can be closed.`;
  }

  choose(key) {
    for (const [name, one] of Object.entries(this.panels)) {
      one.element.classList.toggle("chosen", name === key);
      one.tab.setAttribute("aria-pressed", String(name === key));
    }
    this.draw();
  }

  shown(message) { return this.gated ? message.gates : message.values; }

  show() {
    if (!this.now) return;
    const { panels, now } = this, pinned = this.app.pin && this.pinned;
    const reference = pinned ? this.shown(this.pinned) : this.gated ? this.mean.gates : this.mean.values, values = this.shown(now);
    const limit = this.limit, [low, high] = this.gated ? [0, 1] : [-limit, limit];
    this.difference = values.map((value, at) => (this.isClosed(Math.floor(at / this.network.columns)) ? 0 : value - reference[at]));
    panels.now.show(values, low, high);
    panels.reference.show(reference, low, high);
    panels.reference.title.textContent = `${this.gated ? "Gates" : "Outputs"}, ${pinned ? "kept input" : "on average"}`;
    panels.difference.title.textContent = pinned ? "Difference from it" : "Difference";
    panels.reference.foot.textContent = pinned ? this.app.pin.words : `over ${this.network.meanSamples} training samples`;
    panels.difference.foot.textContent = `orange: ${this.gated ? "more open" : "higher"} than ${pinned ? "for the kept input" : "usual"}`;
    const most = this.gated ? Math.max(0.12, Math.min(0.6, View.spread(this.difference))) : limit;
    panels.difference.show(this.difference, -most, most);
    if (panels.values) panels.values.show(now.values, -limit, limit);
    this.showGuess();
    this.showMost(pinned ? "for the kept input" : "on average");
    this.answerText = this.answerCard.show(now.outputs, this.app.truth);
    this.app.brief();
    this.details.refresh();
    this.draw();
    this.describe();
  }

  showGuess() {
    const { guess } = this.panels, { estimates } = this.now, { classes, target } = this.input;
    if (!classes.length) {
      const values = estimates.map((one) => one[0] * target.std + target.mean);
      guess.show(values, target.mean - 2.5 * target.std, target.mean + 2.5 * target.std);
      guess.foot.textContent = `${Format.number(guess.low)} … ${Format.number(guess.high)}`;
      this.mind.textContent = `Each point is the ${Format.shortened(target.name, 30)} that the network would answer if it ended after that layer.`;
      return;
    }
    const shares = estimates.map(softmax), best = shares.map((one) => one.indexOf(Math.max(...one)));
    this.guesses = best.map((number, row) => ({ name: classes[number], share: shares[row][number] }));
    guess.show(Float32Array.from(shares.flat()), 0, 1);
    const named = classes.length * Math.max(...classes.map((name) => name.length)) <= 24;
    guess.foot.textContent = named ? "" : "one column for each class";
    guess.element.querySelector(".axis")?.remove();
    if (named) {
      guess.foot.before(make("div", { className: "axis", "aria-hidden": "true" }, ...classes.map((name) => make("span", { textContent: name }))));
    }
    const outputs = softmax(this.now.outputs), last = outputs.indexOf(Math.max(...outputs));
    let settled = best.length;
    while (settled > 0 && best[settled - 1] === last) settled--;
    const name = Format.shortened(classes[last], 30), where = settled < best.length ? this.label(settled) : null;
    const number = where !== null && !Number.isNaN(Number(where));
    this.mind.textContent = where === null
      ? "It makes up its mind only at the very end: no layer alone would have given this answer."
      : settled === 0 ? `It would answer ${name} from the first layer on.`
      : `It makes up its mind at ${number ? `layer ${where}` : `the ${where} layer in row ${settled + 1}`}: from there on it would answer ${name}.`;
  }

  // The gates that differ most from the reference
  showMost(than) {
    if (!this.gated) return;
    const places = Array.from(this.difference.keys()).filter((at) => Math.abs(this.difference[at]) > 0.02);
    places.sort((a, b) => Math.abs(this.difference[b]) - Math.abs(this.difference[a]));
    [this.foremost] = places;
    const columns = this.network.columns, buttons = places.slice(0, 5).map((at) => {
      const row = Math.floor(at / columns), column = at % columns, value = this.shown(this.now)[at], usual = value - this.difference[at];
      const button = make("button", { type: "button", className: "chip" }, make("b", { textContent: `layer ${this.label(row)}, ${this.unit(row)} ${column + 1}` }), ` ${value.toFixed(2)} instead of ${usual.toFixed(2)}`);
      button.addEventListener("click", () => this.point(row, column));
      return button;
    });
    this.most.replaceChildren(make("p", { textContent: buttons.length ? `Gates that differ most from their opening ${than}:` : `No gate differs much from its opening ${than}.` }), ...buttons);
  }

  unit(row) { return this.rows[row].places > 1 ? "map" : "block"; }

  point(row, column, span = null) {
    this.cursor = { row, column: column === null ? null : Math.max(0, Math.min(this.network.columns - 1, column)), span };
    this.draw();
    this.describe();
  }

  describe() {
    const { row, column } = this.cursor;
    this.askMaps();
    if (row === null || !this.now) { this.showGate(null, null); this.say(""); return; }
    const at = row * this.network.columns + column, layer = this.rows[row], { now } = this;
    this.showGate(row, column);
    const head = layer.number === null ? `The ${layer.kind} layer in row ${row + 1}` : `Layer ${this.label(row)}`;
    if (column === null || column >= layer.width || Number.isNaN(now.values[at])) {
      const guess = this.guesses && this.guesses[row];
      this.say(`${head}${guess ? `: would answer ${Format.shortened(guess.name, 30)} (${Format.percent(guess.share)})` : ""}.`);
      return;
    }
    const place = `${head}, ${this.unit(row)} ${column + 1}`, mean = layer.places > 1 ? " (means over the pixels)" : "", y = Format.number(now.values[at]);
    if (this.isClosed(row)) this.say(`${place}: this layer is closed, its input passes unchanged. Output y = ${y}.`);
    else if (layer.kind === "highway") {
      const t = now.gates[at], open = t > 0.5 ? "open: it takes mostly the new value" : t > 0.1 ? "partly open: it mixes old and new" : "closed: the old value passes";
      this.say(`${place}: gate T = ${t.toFixed(2)}, ${open}. On average T = ${this.mean.gates[at].toFixed(2)}. New value H = ${Format.number(now.states[at])}, output y = ${y}${mean}.`);
    } else this.say(`${place}: output y = ${y}, on average ${Format.number(this.mean.values[at])}${mean}.`);
  }

  // The gate under the cursor, or the one that differs most from the reference
  showGate(row, column) {
    if (!this.app.gateCard || this.app.gateCard.view !== this || !this.now) return;
    const { columns } = this.network, isGate = (at) => !Number.isNaN(this.now.gates[at]);
    let at = row === null || column === null ? -1 : row * columns + column;
    if (at < 0 || !isGate(at)) at = this.foremost;
    if (at === undefined || !isGate(at)) return;
    const place = Math.floor(at / columns), layer = this.rows[place], before = place ? this.rows[place - 1] : null;
    const known = before && layer.places === 1 && before.places === 1 && before.width === layer.width;
    const where = `layer ${this.label(place)}, ${this.unit(place)} ${(at % columns) + 1}${layer.places > 1 ? ", mean over its pixels" : ""}`;
    this.app.gateCard.show(where, this.now.gates[at], known ? this.now.values[at - columns] : null, this.now.states[at], this.now.values[at], this.isClosed(place));
  }

  say(words) { this.info.textContent = words || this.hint || (this.gated ? "Point at a cell to read its gate." : "Point at a cell to read its value."); }

  // Maps of the block under the cursor, for convolutional layers
  askMaps() {
    const { row, column } = this.cursor;
    if (row === null || column === null || this.rows[row].places < 2 || column >= this.rows[row].width) { this.maps.hidden = true; return; }
    this.link.ask("maps", { type: "maps", id: 0, step: this.route[this.rows[row].step], block: column });
  }

  showMaps(message) {
    const [height, width] = message.size, shown = [["gate T", message.gates, 0, 1, "gates"], ["new value H", message.states, null, null, "signed"], ["output y", message.values, null, null, "signed"]];
    this.maps.replaceChildren(...shown.filter(([, values]) => values).map(([name, values, low, high, scale]) => {
      const canvas = make("canvas", { width, height }), context = canvas.getContext("2d"), image = context.createImageData(width, height);
      const limit = low === null ? Math.max(1e-6, ...values.map(Math.abs)) : 1;
      Colours.paint(image.data, values, low ?? -limit, high ?? limit, scale);
      context.putImageData(image, 0, 0);
      return make("figure", {}, canvas, make("figcaption", { textContent: name }));
    }));
    this.maps.hidden = this.cursor.row === null;
  }

  counted(message) {
    this.controls.count(message);
    if (message.done === message.total) this.app.judged(this, message.wrong);
  }

  marks() { return { closed: (row) => this.isClosed(row), ...this.cursor, span: this.cursor.span || null }; }

  draw() {
    const marks = this.marks(), style = getComputedStyle(document.documentElement);
    for (const one of Object.values(this.panels)) one.draw(this.height, marks);
    const colour = { soft: style.getPropertyValue("--soft").trim(), strong: style.getPropertyValue("--ink").trim() };
    this.gutter.draw(this.height, this.rows.map((_, row) => this.label(row)), colour, marks);
  }
}
