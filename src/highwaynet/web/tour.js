"use strict";
// A tour of five steps, in plain words.

const TOUR = {
  draw: "Draw here with the mouse or a finger, drop an image, or choose one of the samples below.",
  image: "Choose one of the samples, draw over it, or drop an image.",
  fields: "Move the sliders, or take one of the samples.",
  inside: "The network is inside this page: it answers at once, and nothing leaves your computer.",
  classes:
    "The longer a bar, the more probable the network finds that class. Change the input a little and watch the bars move: " +
    "that shows what the network pays attention to.",
  number: "This is the number that the network predicts. Change the input a little and watch it move.",
  gates:
    "The input enters at the top and leaves at the bottom. In each layer every value has a gate. Dark: the gate is closed, and the " +
    "value travels on unchanged, as on a highway. Bright: it is open, and the layer puts something new in its place. Beside it you " +
    "see how open the gates are on average, and where this input differs.",
  outputs:
    "The input enters at the top and leaves at the bottom. Every cell is one value that a layer passes on. This network has no " +
    "gates: each layer works on everything.",
  guess:
    "Suppose the network had to answer after this layer: what would it say? Follow the bright line down. In a highway network the " +
    "guess is often settled long before the last layer, and later layers only refine it.",
  close:
    "Click a row of the map to close that layer: everything passes through it unchanged. Does the answer change? The bar here shows " +
    "how many samples are still right. Drag over several rows to close a span, or close all idle layers at once: " +
    "many layers hardly matter.",
  right:
    "This bar shows how many of the samples inside the page the network gets right. None of its layers can be taken away: without " +
    "gates or shortcuts, nothing would pass.",
};

class Tour {
  constructor(app) {
    this.app = app;
    const [view] = app.views;
    const { input } = app.facts;
    const give = app.pad ? (input.ink ? TOUR.draw : TOUR.image) : TOUR.fields;
    const closable = view.numbers.length > 0;
    this.steps = [
      ["#input", "Give it something to look at", `${give} ${TOUR.inside}`],
      [".answer", "Its answer", input.task === "classification" ? TOUR.classes : TOUR.number],
      [".inside .panel.now", "One row is one layer", view.gated ? TOUR.gates : TOUR.outputs],
      [".inside .panel.guess", "Where it makes up its mind", TOUR.guess],
      [".inside .controls-row", closable ? "Now take layers away" : "How good it is", closable ? TOUR.close : TOUR.right],
    ];
    this.build();
    this.back.addEventListener("click", () => this.show(this.place - 1));
    this.next.addEventListener("click", () => (this.place === this.steps.length - 1 ? this.end() : this.show(this.place + 1)));
    this.close.addEventListener("click", () => this.end());
    this.box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.end();
    });
    const settle = () => {
      if (!this.box.hidden) this.settle();
    };
    window.addEventListener("resize", settle);
    window.addEventListener("scroll", settle, { passive: true });
  }

  build() {
    this.title = make("h3", { id: "tour-title" });
    this.text = make("p");
    this.counter = make("span", { className: "soft" });
    this.back = make("button", { type: "button", textContent: "Back" });
    this.next = make("button", { type: "button", className: "primary" });
    this.close = make("button", { type: "button", textContent: "End the tour" });
    const buttons = make("div", { className: "row" }, this.counter, this.close, this.back, this.next);
    this.box = make("div", { className: "tour card", role: "dialog", hidden: true, "aria-labelledby": "tour-title" });
    this.box.append(this.title, this.text, buttons);
    document.body.append(this.box);
  }

  start() {
    this.show(0);
  }

  show(place) {
    this.place = place;
    const [selector, title, text] = this.steps[place];
    this.target?.classList.remove("lit");
    this.target = document.querySelector(selector);
    this.app.views[0].choose(selector.includes(".panel") ? selector.split(".").pop() : "now");
    this.title.textContent = title;
    this.text.textContent = text;
    this.counter.textContent = `${place + 1} of ${this.steps.length}`;
    this.back.disabled = place === 0;
    this.next.textContent = place === this.steps.length - 1 ? "Start exploring" : "Next";
    this.box.hidden = false;
    this.target.classList.add("lit");
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const narrow = document.documentElement.clientWidth < 700; // there the box covers the foot of the window
    this.target.scrollIntoView({ block: narrow ? "start" : "center", behavior: calm ? "auto" : "smooth" });
    this.settle();
    this.next.focus({ preventScroll: true });
    this.app.tell(`${title}. ${text}`);
  }

  // Beside the target where there is room, else below it, and always inside the window
  settle() {
    const target = this.target.getBoundingClientRect();
    const box = this.box.getBoundingClientRect();
    const gap = 14;
    const wide = document.documentElement.clientWidth;
    if (wide < 700) {
      this.box.style.left = "";
      this.box.style.top = "";
      return;
    }
    let left = target.right + gap;
    let { top } = target;
    if (left + box.width > wide - gap) left = target.left - box.width - gap;
    if (left < gap) {
      left = Math.min(wide - box.width - gap, target.left);
      top = target.bottom + gap;
    }
    this.box.style.left = `${Math.max(gap, left)}px`;
    this.box.style.top = `${Math.max(gap, Math.min(top, window.innerHeight - box.height - gap))}px`;
  }

  end() {
    this.box.hidden = true;
    this.target?.classList.remove("lit");
    document.getElementById("start-tour").focus({ preventScroll: true });
  }
}
