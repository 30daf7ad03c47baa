"use strict";
// What can be done to the layers of a network: by pointing at its maps, by buttons, and in a table.

// Pointer and keys on the maps: a click closes a layer or, in swap mode, chooses it; a drag closes a span.
class Pointing {
  constructor(view) {
    this.view = view;
    const { plates } = view;
    plates.addEventListener("pointermove", (event) => this.move(event));
    plates.addEventListener("pointerleave", (event) => {
      if (this.first === undefined && event.pointerType === "mouse") view.point(null, null); // a finger always leaves
    });
    plates.addEventListener("pointerdown", (event) => this.down(event));
    plates.addEventListener("pointerup", (event) => this.up(event));
    plates.addEventListener("pointercancel", () => this.end());
    plates.addEventListener("keydown", (event) => this.key(event));
    plates.addEventListener("focus", () => {
      if (view.cursor.row === null && plates.matches(":focus-visible")) view.point(0, 0);
    });
  }

  // The cell at a point: row, and column in the maps of blocks; null outside
  at(event) {
    const { view } = this,
      canvases = [view.gutter.canvas, ...Object.values(view.panels).map((panel) => panel.canvas)];
    const canvas = canvases.find((one) => one === event.target) || (this.first !== undefined ? this.canvas : null);
    if (!canvas) return null;
    const box = canvas.getBoundingClientRect(),
      panel = Object.values(view.panels).find((one) => one.canvas === canvas);
    const pointed = Math.floor(((event.clientY - box.top) / box.height) * view.rows.length);
    if (this.first === undefined && (pointed < 0 || pointed >= view.rows.length)) return null;
    const row = Math.max(0, Math.min(view.rows.length - 1, pointed));
    const inBlocks = panel && panel.name !== "guess";
    const column = inBlocks ? Math.floor(((event.clientX - box.left) / box.width) * panel.widths[row]) : null;
    return { row, column, canvas };
  }

  move(event) {
    const cell = this.at(event);
    if (!cell) {
      if (this.first === undefined) this.view.point(null, null);
      return;
    }
    const span =
      this.first !== undefined && cell.row !== this.first && !this.view.controls.swapping
        ? [Math.min(this.first, cell.row), Math.max(this.first, cell.row)]
        : null;
    this.view.point(cell.row, cell.column, span);
  }

  down(event) {
    const cell = this.at(event);
    if (!cell || event.button > 0) return;
    this.first = cell.row;
    this.canvas = cell.canvas;
    if (event.pointerType === "mouse") this.canvas.setPointerCapture(event.pointerId);
    this.view.point(cell.row, cell.column);
  }

  up(event) {
    if (this.first === undefined) return;
    const cell = this.at(event) || { row: this.first, column: null },
      first = this.first;
    this.end();
    this.view.point(cell.row, cell.column);
    if (this.view.controls.swapping) this.view.controls.chosen(cell.row);
    else this.view.toggle(first, cell.row);
  }

  end() {
    this.first = undefined;
    this.view.cursor.span = null;
  }

  key(event) {
    const { view } = this,
      last = view.rows.length - 1,
      { row, column } = view.cursor;
    const here = row ?? 0,
      moves = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10, Home: -last, End: last };
    if (event.key in moves) {
      const next = Math.max(0, Math.min(last, here + moves[event.key]));
      this.start = event.shiftKey ? (this.start ?? here) : undefined;
      view.point(next, column ?? 0, this.start === undefined ? null : [Math.min(this.start, next), Math.max(this.start, next)]);
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight")
      view.point(here, (column ?? 0) + (event.key === "ArrowLeft" ? -1 : 1));
    else if (event.key === "Enter" || event.key === " ") {
      if (view.controls.swapping) view.controls.chosen(here);
      else view.toggle(this.start ?? here, here);
      this.start = undefined;
      view.point(here, column);
    } else return;
    event.preventDefault();
    view.app.tell(view.reading.info.textContent);
  }
}

// Buttons above the maps, and how many samples are right
class LayerControls {
  constructor(view) {
    this.view = view;
    const button = (text, act, title) => {
      const one = make("button", { type: "button", textContent: text, title });
      one.addEventListener("click", act);
      return one;
    };
    const idle = view.network.idle;
    this.idle = button(
      `Close the ${idle.length} idle layers`,
      () => view.setClosed(idle, true),
      "Layers that can be closed together at almost no loss",
    );
    this.mode = button("Swap two layers", () => this.setMode(!this.swapping), "Then click two layers: they change places");
    this.mode.setAttribute("aria-pressed", "false");
    this.random = button("Swap two at random", () => this.swapRandom(), "Two layers change places");
    this.undo = button("Open all again", () => view.reset(), "All layers open and in their order");
    this.meter = make("div", { className: "meter" }, make("span", { className: "fill" }), make("span", { className: "intact" }));
    this.score = make("p", { className: "score" });
    this.state = make("p", { className: "soft state" });
    const tools = view.numbers.length
      ? [
          idle.length ? this.idle : null,
          view.network.groups.length ? this.mode : null,
          view.network.groups.length ? this.random : null,
          this.undo,
        ]
      : [];
    this.element = make(
      "div",
      { className: "controls-row" },
      make("div", { className: "row" }, ...tools),
      make("div", { className: "counted" }, this.score, this.meter, this.state),
    );
    this.swapping = false;
    this.undo.disabled = true;
  }

  setMode(swapping) {
    this.swapping = swapping;
    this.first = null;
    this.mode.setAttribute("aria-pressed", String(swapping));
    this.view.reading.hint = swapping ? "Click the first of two layers that should change places." : "";
    this.view.reading.say("");
  }

  chosen(row) {
    const { view } = this;
    if (!view.closable(row)) {
      view.reading.refuse(row, "This layer cannot change its place.");
      return;
    }
    const place = view.rows[row].number;
    if (this.first === null) {
      this.first = place;
      view.reading.hint = `Place ${place} is chosen. Click the layer to swap with it.`;
      view.app.tell(view.reading.hint);
      view.reading.say("");
      return;
    }
    const first = this.first;
    this.setMode(false);
    view.swap(first, place);
  }

  swapRandom() {
    const groups = this.view.network.groups,
      group = groups[Math.floor(Math.random() * groups.length)];
    const one = Math.floor(Math.random() * group.length),
      two = (one + 1 + Math.floor(Math.random() * (group.length - 1))) % group.length;
    this.view.swap(group[one], group[two]);
  }

  count({ done, total, right, loss }) {
    const { view } = this,
      { task, target } = view.input,
      part = view.app.facts.samples.part,
      intact = !view.closed.size && !view.swaps.length;
    if (task === "classification") {
      const share = right / Math.max(done, 1);
      this.score.replaceChildren(
        "Right on ",
        make("b", { textContent: Format.percent(share) }),
        ` of ${done < total ? `${done} of ` : ""}${total} ${part} samples`,
      );
      this.meter.firstChild.style.width = `${100 * share}%`;
      this.meter.lastChild.style.left = `${100 * view.network.intact}%`;
    } else {
      const targets = view.app.samples.targets,
        mean = targets.reduce((sum, one) => sum + one, 0) / total;
      const spread = targets.reduce((sum, one) => sum + (one - mean) ** 2, 0),
        error = Math.sqrt(loss / Math.max(done, 1)) * target.std;
      const explained = done === total && spread ? `, R² ${(1 - loss / spread).toFixed(3).replace("-", "−")}` : "";
      this.score.replaceChildren(
        "Typical error ",
        make("b", { textContent: Format.number(error) }),
        ` on ${total} ${part} samples${explained}`,
      );
      this.meter.hidden = true;
    }
    const words = [];
    if (view.closed.size)
      words.push(`${view.closed.size} of ${view.numbers.length} layers closed: ${Format.shortened(Format.spans(view.closed), 60)}.`);
    if (view.swaps.length)
      words.push(`Swapped places: ${Format.shortened(view.swaps.map(([one, two]) => `${one} and ${two}`).join("; "), 60)}.`);
    if (!intact && task === "classification") words.push(`With all layers open and in order: ${Format.percent(view.network.intact)}.`);
    this.state.textContent = words.join(" ") || (view.numbers.length ? `All ${view.numbers.length} layers are open.` : "");
    this.undo.disabled = intact;
    if (done === total) this.element.dataset.counted = `${right}/${total}`;
    else delete this.element.dataset.counted;
  }
}

// The same as a table, for screen readers and for exact numbers
class LayerTable {
  constructor(view) {
    this.view = view;
    this.body = make("tbody");
    const heads = [
      "Layer",
      "Kind",
      ...(view.gated ? ["Open gates", "Mean gate", "Usual mean"] : []),
      ...(view.input.task === "classification" ? ["Guess after it"] : []),
      ...(view.numbers.length ? ["Closed"] : []),
    ];
    this.element = make(
      "details",
      {},
      make("summary", { textContent: "The layers as a table" }),
      make(
        "div",
        { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Layers" },
        make(
          "table",
          {},
          make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col", textContent: text })))),
          this.body,
        ),
      ),
    );
    this.element.addEventListener("toggle", () => this.refresh());
  }

  refresh() {
    const { view } = this,
      { now, network } = view;
    if (!this.element.open || !now) return;
    const kept = document.activeElement && this.body.contains(document.activeElement) ? document.activeElement.dataset.row : null;
    this.body.replaceChildren(
      ...view.rows.map((row, place) => {
        const cells = [view.label(place), row.places > 1 ? `${row.kind}, ${row.width} maps` : `${row.kind}, ${row.width} units`];
        if (view.gated) {
          const start = place * network.columns,
            own = now.gates.subarray(start, start + row.width),
            usual = view.meanGates.subarray(start, start + row.width);
          const mean = (values) => values.reduce((sum, value) => sum + value, 0) / row.width,
            gated = row.gated;
          cells.push(
            gated ? `${own.filter((value) => value > 0.5).length} of ${row.width}` : "–",
            gated ? mean(own).toFixed(3) : "–",
            gated ? mean(usual).toFixed(3) : "–",
          );
        }
        if (view.input.task === "classification")
          cells.push(`${Format.shortened(view.reading.guesses[place].name, 30)} (${Format.percent(view.reading.guesses[place].share)})`);
        const line = make(
          "tr",
          {},
          ...cells.map((text, at) => make(at ? "td" : "th", at ? { textContent: text } : { textContent: text, scope: "row" })),
        );
        if (view.numbers.length) {
          const box = make("input", { type: "checkbox", checked: view.isClosed(place), disabled: !view.closable(place) });
          box.setAttribute("aria-label", `Close layer ${view.label(place)}`);
          box.dataset.row = place;
          box.addEventListener("change", () => view.setClosed([view.numberAt(place)], box.checked));
          line.append(make("td", {}, box));
        }
        return line;
      }),
    );
    if (kept !== null) this.body.querySelector(`input[data-row="${Number(kept)}"]`)?.focus();
  }
}
