"use strict";
// Rows of a table, or plain features, as inputs: a slider for each number or date, a choice for each category.

const MOST_FIELDS = 120; // more columns than that are not shown; samples set them

class Fields {
  constructor(input, size, changed) {
    Object.assign(this, { columns: input.columns, changed });
    this.raw = new Float32Array(size);
    this.element = make("div", { className: "fields" });
    this.controls = this.columns.slice(0, MOST_FIELDS).map((column, place) => this.control(column, place));
    if (this.columns.length > MOST_FIELDS) {
      this.element.append(
        make("p", {
          className: "soft",
          textContent: `${this.columns.length - MOST_FIELDS} more columns are not shown; a sample sets them.`,
        }),
      );
    }
    this.columns.forEach((column) => this.write(column, column.kind === "category" ? column.common : column.middle));
    this.refresh();
  }

  // Sets the features of a column: value is a number, the place of a category (−1: another one), or null if it is missing.
  write(column, value) {
    if (column.kind === "feature") {
      this.raw[column.start] = value;
      return;
    }
    const count = column.kind === "category" ? column.categories.length : 1;
    for (let i = 0; i < count; i++) this.raw[column.start + i] = 0;
    if (value !== null && column.kind === "category" && value >= 0) this.raw[column.start + value] = 1;
    else if (value !== null && column.kind !== "category") this.raw[column.start] = (value - column.mean) / column.std;
    if (column.gaps) this.raw[column.start + count] = value === null ? 1 : 0;
  }

  read(column) {
    if (column.kind === "feature") return this.raw[column.start];
    const count = column.kind === "category" ? column.categories.length : 1;
    if (column.gaps && this.raw[column.start + count]) return null;
    if (column.kind !== "category") return this.raw[column.start] * column.std + column.mean;
    return this.raw.subarray(column.start, column.start + count).indexOf(1);
  }

  load(raw) {
    this.raw.set(raw);
    this.refresh();
  }

  refresh() {
    this.controls.forEach((control) => control.refresh());
  }

  control(column, place) {
    const id = `field-${place}`,
      label = make("label", { htmlFor: id, textContent: column.name });
    const tell = () => {
      this.changed();
    };
    let refresh, inputs;
    if (column.kind === "category") {
      const select = make("select", { id }, ...column.categories.map((name, at) => make("option", { value: at, textContent: name })));
      select.append(make("option", { value: -1, textContent: "(another)" }));
      if (column.gaps) select.append(make("option", { value: "", textContent: "(missing)" }));
      select.addEventListener("change", () => {
        this.write(column, select.value === "" ? null : Number(select.value));
        tell();
      });
      refresh = () => {
        const value = this.read(column);
        select.value = value === null ? "" : value;
      };
      inputs = [select];
    } else {
      const range = column.high - column.low || 1,
        slider = make("input", { type: "range", id, min: 0, max: 1000, step: 1 });
      const box = column.kind === "date" ? make("output") : make("input", { type: "number", step: "any" });
      box.setAttribute("aria-label", `${column.name}, value`);
      const set = (value) => {
        this.write(column, value);
        refresh();
        tell();
      };
      slider.addEventListener("input", () => set(column.low + (slider.value / 1000) * range));
      box.addEventListener("change", () => {
        if (box.value !== "" && Number.isFinite(Number(box.value))) set(Number(box.value));
        else refresh();
      });
      refresh = () => {
        const value = this.read(column);
        slider.disabled = value === null;
        if (value !== null) slider.value = Math.round(((value - column.low) / range) * 1000);
        box.value = value === null ? "" : column.kind === "date" ? Fields.date(value, column.form) : Fields.rounded(value, range);
      };
      inputs = [slider, box];
      if (column.gaps) {
        const missing = make("input", { type: "checkbox", id: `${id}-missing` });
        missing.addEventListener("change", () => set(missing.checked ? null : column.middle));
        const inner = refresh;
        refresh = () => {
          inner();
          missing.checked = this.read(column) === null;
        };
        inputs.push(make("label", { className: "missing" }, missing, "missing"));
      }
    }
    this.element.append(make("div", { className: "field" }, label, make("div", { className: "controls" }, ...inputs)));
    return { refresh };
  }

  // Without the digits that float32 numbers do not have
  static rounded(value, range) {
    const step = 10 ** (Math.floor(Math.log10(range)) - 5);
    return Number((Math.round(value / step) * step).toPrecision(6)) || 0;
  }

  // Days since 1970 as a date; of times, the share of a day as hours and minutes
  static date(days, form) {
    const minutes = Math.round((days - Math.floor(days)) * 1440);
    const clock = `${String(Math.floor(minutes / 60)).padStart(2, "0")}:${String(minutes % 60).padStart(2, "0")}`;
    if (form === "time") return clock;
    const date = new Date(Math.round(days * 86400000));
    return Number.isNaN(date.getTime()) ? "–" : date.toISOString().slice(0, 10);
  }
}
