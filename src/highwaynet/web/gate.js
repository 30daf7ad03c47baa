"use strict";
// One gate as a picture: how much of the old value passes, and how much of the new one takes its place.

class GateCard {
  constructor() {
    this.where = make("span", { className: "soft" });
    this.old = make("span", { className: "old" });
    this.fresh = make("span", { className: "fresh" });
    this.bar = make("div", { className: "mix" }, this.old, this.fresh);
    this.bar.setAttribute("role", "img");
    this.words = make("p", { className: "mixwords" });
    this.element = make(
      "section",
      { className: "card gate" },
      make("h2", {}, "One gate ", this.where),
      make("p", {
        className: "soft",
        textContent: "Each gate mixes two values: the old one, as the layer received it, and a new one that the layer has computed.",
      }),
      this.bar,
      this.words,
    );
    this.element.setAttribute("aria-label", "One gate");
  }

  // where: text; t: opening; x (or null), h and y: old value, new value, output
  show(where, t, x, h, y, closed) {
    this.where.textContent = where;
    this.old.style.width = `${100 * (1 - t)}%`;
    this.fresh.style.width = `${100 * t}%`;
    this.old.textContent = t < 0.72 ? `old ${Format.percent(1 - t)}` : "";
    this.fresh.textContent = t > 0.28 ? `new ${Format.percent(t)}` : "";
    this.bar.setAttribute("aria-label", `${Format.percent(1 - t)} old value, ${Format.percent(t)} new value`);
    const old = x === null ? "the old value" : `the old value ${Format.number(x)}`;
    const state = closed
      ? "This layer is closed by you"
      : t < 0.1
        ? "This gate is closed"
        : t > 0.5
          ? "This gate is open"
          : "This gate is partly open";
    const rest =
      closed || t < 0.1
        ? `: ${old} passes almost unchanged`
        : `: of ${old} and the new value ${Format.number(h)}, it lets ${Format.percent(t)} of the new one in`;
    this.words.textContent = `${state}${closed ? `: ${old} passes unchanged` : rest}. Out comes ${Format.number(y)}.`;
  }
}
