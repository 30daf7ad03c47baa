"use strict";
// The layers of one network as the visitor has arranged them: which are closed, and which stand at which place.

class LayerState {
  constructor(network) {
    this.network = network;
    this.rows = network.rows;
    this.closed = new Set();
    this.swaps = [];
    this.gated = this.rows.some((row) => row.gated);
    this.numbers = network.steps.filter((step) => step.number !== undefined).map((step) => step.number);
    this.stepOf = new Map(network.steps.map((step, at) => [step.number, at]));
    this.rowOf = new Map(this.rows.map((row, at) => [row.number, at]));
    this.arrange();
  }

  // Finds out which layer stands at the place of each layer, after all swaps
  arrange() {
    this.order = new Map(this.numbers.map((number) => [number, number]));
    for (const [one, two] of this.swaps) {
      const kept = this.order.get(one);
      this.order.set(one, this.order.get(two));
      this.order.set(two, kept);
    }
    this.route = this.network.steps.map((step, at) => (step.number === undefined ? at : this.stepOf.get(this.order.get(step.number))));
  }

  closable(row) {
    return row !== null && this.network.steps[this.rows[row].step].number !== undefined;
  }

  numberAt(row) {
    return this.closable(row) ? this.order.get(this.rows[row].number) : this.rows[row].number;
  }

  label(row) {
    return this.rows[row].number === null ? this.rows[row].kind : String(this.numberAt(row));
  }

  isClosed(row) {
    return this.closable(row) && this.closed.has(this.numberAt(row));
  }

  // Values of the rows in the order in which the layers stand now
  inOrder(values) {
    if (!this.swaps.length) return values;
    const { columns } = this.network;
    const ordered = Float32Array.from(values);
    this.rows.forEach((_, row) => {
      const from = this.closable(row) ? this.rowOf.get(this.numberAt(row)) : row;
      ordered.set(values.subarray(from * columns, (from + 1) * columns), row * columns);
    });
    return ordered;
  }

  canSwap(one, two) {
    return one !== two && this.network.groups.some((group) => group.includes(one) && group.includes(two));
  }
}
