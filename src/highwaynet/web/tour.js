"use strict";
// A tour of five steps, in plain words.

class Tour {
  constructor(app) {
    this.app = app;
    const view = app.views[0], gated = view.gated, image = app.pad !== undefined;
    this.steps = [
      ["#input", "Give it something to look at", `${image ? (app.pad.drawable && app.facts.input.ink ? "Draw here with the mouse or a finger, drop an image, or choose one of the samples below." : "Choose one of the samples, or drop an image.") : "Move the sliders, or take one of the samples."} The network is inside this page: it answers at once, and nothing leaves your computer.`],
      ["#answers", "Its answer", app.facts.input.task === "classification" ? "The longer a bar, the more probable the network finds that class. Change the input a little and watch the bars move: that shows what the network pays attention to." : "This is the number that the network predicts. Change the input a little and watch it move."],
      [".inside .panel.now", "One row is one layer", gated ? "The input enters at the top and leaves at the bottom. In each layer every value has a gate. Dark: the gate is closed, and the value travels on unchanged, as on a highway. Bright: it is open, and the layer puts something new in its place. Beside it you see how open the gates are on average, and where this input differs." : "The input enters at the top and leaves at the bottom. Every cell is one value that a layer passes on. This network has no gates: each layer works on everything."],
      [".inside .panel.guess", "Where it makes up its mind", "Suppose the network had to answer after this layer: what would it say? Follow the bright line down. In a highway network the guess is often settled long before the last layer, and later layers only refine it."],
      [".inside .controls-row", view.numbers.length ? "Now take layers away" : "How good it is", view.numbers.length ? "Click a row of the map to close that layer: everything passes through it unchanged. Does the answer change? The bar here shows how many samples are still right. Drag over several rows to close a span, or close all idle layers at once: many layers hardly matter." : "This bar shows how many of the samples inside the page the network gets right. None of its layers can be taken away: without gates or shortcuts, nothing would pass."],
    ];
    this.title = make("h3", { id: "tour-title" });
    this.text = make("p");
    this.counter = make("span", { className: "soft" });
    this.back = make("button", { type: "button", textContent: "Back" });
    this.next = make("button", { type: "button", className: "primary" });
    this.close = make("button", { type: "button", textContent: "End the tour" });
    this.box = make("div", { className: "tour card", role: "dialog", hidden: true }, this.title, this.text, make("div", { className: "row" }, this.counter, this.close, this.back, this.next));
    this.box.setAttribute("aria-labelledby", "tour-title");
    this.box.setAttribute("aria-modal", "false");
    document.body.append(this.box);
    this.back.addEventListener("click", () => this.show(this.place - 1));
    this.next.addEventListener("click", () => (this.place === this.steps.length - 1 ? this.end() : this.show(this.place + 1)));
    this.close.addEventListener("click", () => this.end());
    this.box.addEventListener("keydown", (event) => { if (event.key === "Escape") this.end(); });
    window.addEventListener("resize", () => { if (!this.box.hidden) this.settle(); });
    window.addEventListener("scroll", () => { if (!this.box.hidden) this.settle(); }, { passive: true });
  }

  start() { this.show(0); }

  show(place) {
    this.place = place;
    const [selector, title, text] = this.steps[place];
    this.target?.classList.remove("lit");
    this.target = document.querySelector(selector);
    if (selector.includes(".panel")) this.app.views[0].choose(selector.split(".").pop());
    this.title.textContent = title;
    this.text.textContent = text;
    this.counter.textContent = `${place + 1} of ${this.steps.length}`;
    this.back.disabled = place === 0;
    this.next.textContent = place === this.steps.length - 1 ? "Start exploring" : "Next";
    this.box.hidden = false;
    this.target.classList.add("lit");
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.target.scrollIntoView({ block: "center", behavior: calm ? "auto" : "smooth" });
    this.settle();
    this.next.focus({ preventScroll: true });
    this.app.tell(`${title}. ${text}`);
  }

  // Beside the target where there is room, else below or at the foot of the window
  settle() {
    const target = this.target.getBoundingClientRect(), box = this.box.getBoundingClientRect(), gap = 14;
    const wide = document.documentElement.clientWidth, high = window.innerHeight;
    if (wide < 700) { this.box.style.left = ""; this.box.style.top = ""; return; }
    let left = target.right + gap, top = target.top;
    if (left + box.width > wide - gap) left = target.left - box.width - gap;
    if (left < gap) { left = Math.max(gap, Math.min(wide - box.width - gap, target.left)); top = target.bottom + gap; }
    if (top + box.height > high - gap) top = Math.max(gap, high - box.height - gap);
    this.box.style.left = `${Math.max(gap, left)}px`;
    this.box.style.top = `${Math.max(gap, top)}px`;
  }

  end() {
    this.box.hidden = true;
    this.target?.classList.remove("lit");
    document.getElementById("start-tour").focus({ preventScroll: true });
  }
}
