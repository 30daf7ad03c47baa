"use strict";
// A panel: one canvas with a row for each layer and a column for each block (or class), drawn sharply at any size. Every row fills the
// width, also that of a layer with fewer blocks.

class Panel {
  // options: title, help, columns, rows, widths (cells of each row), scale ("gates" or "signed"), plot (a line, no cells)
  constructor(options) {
    Object.assign(this, { low: 0, high: 1, scale: "gates" }, options);
    this.canvas = make("canvas", { className: "plate" });
    this.cells = make("canvas", { width: Math.max(this.columns, 1), height: Math.max(this.rows, 1) });
    this.title = make("h3", { className: "name", textContent: options.title });
    this.foot = make("p", { className: "foot", textContent: options.help || "" });
    this.element = make("div", { className: `panel ${options.name}` }, this.title, this.canvas, this.foot);
    this.values = null;
    this.widths = options.widths || Array(this.rows).fill(this.columns);
  }

  show(values, low = this.low, high = this.high) {
    Object.assign(this, { values, low, high });
    if (!this.plot && values) {
      const context = this.cells.getContext("2d"),
        image = context.createImageData(this.columns, this.rows);
      Colours.paint(image.data, values, low, high, this.scale);
      context.putImageData(image, 0, 0);
    }
  }

  // marks: { closed: row -> boolean, row, column } in the order of the places
  draw(height, marks) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2),
      width = this.canvas.clientWidth;
    if (!width) return;
    const wide = Math.round(width * ratio),
      high = Math.round(height * ratio);
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
    }
    this.canvas.style.height = `${height}px`;
    this.paint(this.canvas.getContext("2d"), 0, 0, wide, high, marks, ratio);
  }

  paint(context, left, top, wide, high, marks, ratio) {
    context.save();
    context.fillStyle = "#0d1520";
    context.fillRect(left, top, wide, high);
    const row = high / this.rows;
    if (this.values && this.plot) this.line(context, left, top, wide, high, ratio);
    else if (this.values) {
      context.imageSmoothingEnabled = false;
      const uniform = this.widths.every((width) => width === this.columns);
      if (uniform) context.drawImage(this.cells, left, top, wide, high);
      else this.widths.forEach((width, place) => context.drawImage(this.cells, 0, place, width, 1, left, top + place * row, wide, row));
      if (row >= 6 * ratio) {
        // fine lines between rows
        context.fillStyle = "rgba(13, 21, 32, .55)";
        for (let place = 1; place < this.rows; place++) context.fillRect(left, Math.round(top + place * row), wide, 1);
      }
    }
    for (let place = 0; place < this.rows; place++) {
      if (!marks.closed(place)) continue;
      context.fillStyle = "rgba(120, 132, 148, .62)";
      context.fillRect(left, top + place * row, wide, Math.max(row - 1, 1));
      if (row >= 5 * ratio) {
        context.fillStyle = "rgba(255, 255, 255, .7)";
        context.fillRect(left, top + (place + 0.5) * row - ratio / 2, wide, ratio);
      }
    }
    if (marks.span) {
      context.strokeStyle = "#fff";
      context.lineWidth = 1.5 * ratio;
      context.strokeRect(left + 1, top + marks.span[0] * row, wide - 2, (marks.span[1] - marks.span[0] + 1) * row);
    }
    if (marks.row !== null) {
      context.strokeStyle = "rgba(255, 255, 255, .85)";
      context.lineWidth = ratio;
      context.strokeRect(left + 0.5, top + marks.row * row + 0.5, wide - 1, Math.max(row - 1, 1));
      if (marks.column !== null && !this.plot && this.name !== "guess") {
        const column = wide / this.widths[marks.row];
        context.lineWidth = 2 * ratio;
        context.strokeRect(left + marks.column * column - ratio, top + marks.row * row - ratio, column + 2 * ratio, row + 2 * ratio);
      }
    }
    context.restore();
  }

  // One number for each row, from `low` at the left to `high` at the right
  line(context, left, top, wide, high, ratio) {
    const row = high / this.rows;
    const across = (value) => left + wide * (0.06 + 0.88 * Math.max(0, Math.min(1, (value - this.low) / (this.high - this.low || 1))));
    context.strokeStyle = Colours.css(0.85, "gates");
    context.lineWidth = 1.5 * ratio;
    context.beginPath();
    for (let place = 0; place < this.rows; place++) context.lineTo(across(this.values[place]), top + (place + 0.5) * row);
    context.stroke();
  }
}

// Row numbers at the left of the panels
class Gutter {
  constructor(rows) {
    this.rows = rows;
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.element = make("div", { className: "gutter" }, make("p", { className: "name", textContent: "layer" }), this.canvas);
  }

  draw(height, labels, colour, marks) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2),
      width = this.canvas.clientWidth || 34;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d"),
      row = (height * ratio) / this.rows;
    context.font = `${Math.min(11 * ratio, Math.max(row * 1.2, 9 * ratio))}px system-ui, sans-serif`;
    context.textAlign = "right";
    context.textBaseline = "middle";
    const every = [1, 2, 5, 10, 20, 50, 100, 500].find((step) => step * row >= 13 * ratio) || 1000;
    let last = -Infinity; // where the last label stands; swapped layers may bring labels close together
    labels.forEach((label, place) => {
      const number = Number(label);
      const near = marks.row !== null && Math.abs(marks.row - place) * row < 12 * ratio;
      const regular = Number.isNaN(number) ? row >= 7 * ratio || place === 0 : number % every === 0;
      const at = (place + 0.5) * row;
      if (marks.row !== place && (!regular || near || at - last < 10.5 * ratio)) return;
      context.fillStyle = marks.row === place ? colour.strong : colour.soft;
      context.fillText(label, (width - 5) * ratio, at);
      last = at;
    });
  }
}
