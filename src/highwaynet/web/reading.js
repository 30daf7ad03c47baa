"use strict";
// What the maps of a network say in words: the cell under the cursor, the guesses, and the gates that differ most.

class Reading {
  constructor(view) {
    this.view = view;
    this.info = make("p", { className: "info" });
    this.maps = make("div", { className: "blockmaps", hidden: true });
    this.mind = make("p", { className: "mind" });
    this.most = make("div", { className: "most" });
    const roomy = view.rows.some((row) => row.places > 1); // for the maps of a block
    this.below = make("div", { className: roomy ? "below roomy" : "below" }, this.info, this.maps);
    this.findings = make("div", { className: "findings" }, this.mind, this.most);
  }

  say(words) {
    const usual = this.view.gated ? "Point at a cell to read its gate." : "Point at a cell to read its value.";
    this.info.textContent = words || this.hint || usual;
  }

  // Says why something is not done, until the pointer goes on to another row
  refuse(row, words) {
    this.refused = { row, words };
    this.view.app.tell(words);
    this.describe();
  }

  // ----- The cell under the cursor

  describe() {
    const { view } = this;
    const { row, column } = view.cursor;
    this.askMaps();
    if (row === null || !view.now) {
      this.showGate(null, null);
      this.say("");
      return;
    }
    this.showGate(row, column);
    if (this.refused && this.refused.row === row) {
      this.say(this.refused.words);
      return;
    }
    this.refused = null;
    this.say(this.words(row, column));
  }

  words(row, column) {
    const { view } = this;
    const { now, rows, network } = view;
    const layer = rows[row];
    const head = layer.number === null ? `The ${layer.kind} layer in row ${row + 1}` : `Layer ${view.label(row)}`;
    if (column === null || column >= layer.width) {
      const guess = this.guesses && this.guesses[row];
      return guess ? `${head}: would answer ${Format.shortened(guess.name, 30)} (${Format.percent(guess.share)}).` : `${head}.`;
    }
    const at = row * network.columns + column;
    const place = `${head}, ${view.unit(row)} ${column + 1}`;
    const mean = layer.places > 1 ? " (means over the pixels)" : "";
    const y = Format.number(now.values[at]);
    if (view.isClosed(row)) return `${place}: this layer is closed, its input passes unchanged. Output y = ${y}${mean}.`;
    if (!layer.gated) return `${place}: output y = ${y}, on average ${Format.number(view.meanValues[at])}${mean}.`;
    const t = now.gates[at];
    const open =
      t > 0.5 ? "open: it takes mostly the new value" : t > 0.1 ? "partly open: it mixes old and new" : "closed: the old value passes";
    const h = Format.number(now.states[at]);
    const numbers = `On average T = ${view.meanGates[at].toFixed(2)}. New value H = ${h}, output y = ${y}${mean}.`;
    return `${place}: ${layer.kind === "lstm" ? "input gate" : "gate"} T = ${t.toFixed(2)}, ${open}. ${numbers}`;
  }

  // The gate that changes its value most; of convolutional layers, the one that differs most from the reference
  telling() {
    const { rows, now, network } = this.view;
    let [best, most] = [this.foremost, 0];
    rows.forEach((layer, row) => {
      if (!this.follows(row)) return;
      for (let at = row * network.columns; at < row * network.columns + layer.width; at++) {
        const change = now.gates[at] * Math.abs(now.states[at] - now.values[at - network.columns]);
        if (change > most) [best, most] = [at, change];
      }
    });
    return best;
  }

  // Whether a row of gates gets the values of the row before it, one for each
  follows(row) {
    const [before, layer] = [this.view.rows[row - 1], this.view.rows[row]];
    return before && layer.kind === "highway" && layer.places === 1 && before.places === 1 && before.width === layer.width;
  }

  // The gate under the cursor, or a telling one
  showGate(row, column) {
    const { view } = this;
    const card = view.app.gateCard;
    if (!card || card.view !== view || !view.now) return;
    const { columns } = view.network;
    const { gates, states, values } = view.now;
    let at = row === null || column === null ? undefined : row * columns + column;
    if (at === undefined || Number.isNaN(gates[at])) at = this.telling();
    if (at === undefined || Number.isNaN(gates[at])) return;
    const place = Math.floor(at / columns);
    const layer = view.rows[place];
    const pixels = layer.places > 1 ? ", mean over its pixels" : "";
    const where = `layer ${view.label(place)}, ${view.unit(place)} ${(at % columns) + 1}${pixels}`;
    card.show(where, gates[at], this.follows(place) ? values[at - columns] : null, states[at], values[at], view.isClosed(place));
  }

  // Maps of the block under the cursor, for convolutional layers
  askMaps() {
    const { view } = this;
    const { row, column } = view.cursor;
    if (row === null || column === null || view.rows[row].places < 2 || column >= view.rows[row].width) {
      this.maps.hidden = true;
      return;
    }
    view.link.ask("maps", { type: "maps", id: 0, step: view.route[view.rows[row].step], block: column });
  }

  showMaps({ size, gates, states, values }) {
    const [height, width] = size;
    const figure = (name, pixels, low, high, scale) => {
      const canvas = make("canvas", { width, height });
      const context = canvas.getContext("2d");
      const image = context.createImageData(width, height);
      Colours.paint(image.data, pixels, low, high, scale);
      context.putImageData(image, 0, 0);
      return make("figure", {}, canvas, make("figcaption", { textContent: name }));
    };
    const signed = (name, pixels) => {
      const limit = pixels.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-6);
      return figure(name, pixels, -limit, limit, "signed");
    };
    const gated = gates ? [figure("gate T", gates, 0, 1, "gates"), signed("new value H", states)] : [];
    this.maps.replaceChildren(...gated, signed("output y", values));
    this.maps.hidden = this.view.cursor.row === null;
  }

  // ----- The guess after each layer

  showGuess() {
    const { view } = this;
    const { guess } = view.panels;
    const { classes, target } = view.input;
    if (!classes.length) {
      const values = view.now.estimates.map((one) => one[0] * target.std + target.mean);
      guess.show(values, target.mean - 2.5 * target.std, target.mean + 2.5 * target.std);
      guess.foot.textContent = `${Format.number(guess.low)} … ${Format.number(guess.high)}`;
      this.mind.textContent = `The line shows the ${Format.shortened(target.name, 30)} that it would answer if it ended after each layer.`;
      return;
    }
    const shares = view.now.estimates.map(softmax);
    const best = shares.map((one) => one.indexOf(Math.max(...one)));
    this.guesses = best.map((number, row) => ({ name: classes[number], share: shares[row][number] }));
    guess.show(Float32Array.from(shares.flat()), 0, 1);
    this.axis(guess, classes);
    this.mind.textContent = this.settling(best);
  }

  // Names of the classes below the map, if there is room
  axis(guess, classes) {
    if (this.named !== undefined) return;
    this.named = classes.length * Math.max(...classes.map((name) => name.length)) <= 24;
    guess.foot.textContent = this.named ? "" : "one column for each class";
    const names = classes.map((name) => make("span", { textContent: name }));
    if (this.named) guess.foot.before(make("div", { className: "axis", "aria-hidden": "true" }, ...names));
  }

  settling(best) {
    const { view } = this;
    const outputs = softmax(view.now.outputs);
    const last = outputs.indexOf(Math.max(...outputs));
    const name = Format.shortened(view.input.classes[last], 30);
    let row = best.length;
    while (row > 0 && best[row - 1] === last) row--;
    if (row === best.length) return "It makes up its mind only at the very end: no layer alone would have given this answer.";
    if (row === 0) return `It would answer ${name} from the first layer on.`;
    const number = view.rows[row].number;
    const where = number === null ? `the ${view.rows[row].kind} layer in row ${row + 1}` : `layer ${view.label(row)}`;
    return `It makes up its mind at ${where}: from there on it would answer ${name}.`;
  }

  // ----- The gates that differ most from the reference

  showMost(than) {
    const { view } = this;
    if (!view.gated) return;
    const { difference, now } = view;
    const { columns } = view.network;
    const places = Array.from(difference.keys()).filter((at) => Math.abs(difference[at]) > 0.02);
    places.sort((a, b) => Math.abs(difference[b]) - Math.abs(difference[a]));
    [this.foremost] = places;
    const chips = places.slice(0, 5).map((at) => {
      const row = Math.floor(at / columns);
      const name = make("b", { textContent: `layer ${view.label(row)}, ${view.unit(row)} ${(at % columns) + 1}` });
      const words = ` ${now.gates[at].toFixed(2)} instead of ${(now.gates[at] - difference[at]).toFixed(2)}`;
      const chip = make("button", { type: "button", className: "chip" }, name, words);
      chip.addEventListener("click", () => view.point(row, at % columns));
      return chip;
    });
    const heading = chips.length ? `Gates that differ most from their opening ${than}:` : `No gate differs much from its opening ${than}.`;
    this.most.replaceChildren(make("p", { textContent: heading }), ...chips);
  }
}
