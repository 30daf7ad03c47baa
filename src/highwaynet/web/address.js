"use strict";
// The state of the page in its address, so that a view can be shared: the input, the kept input, closed and swapped layers, light or dark.

class Address {
  constructor(app) {
    this.app = app;
    window.addEventListener("hashchange", () => {
      if (location.hash.slice(1) !== this.written) this.read();
    });
  }

  write() {
    const { app } = this;
    const parts = new URLSearchParams();
    const own = this.coded(app.source, app.raw);
    if (own) parts.set("in", own);
    const kept = app.pin && this.coded(app.pin.source, app.pin.raw);
    if (kept) parts.set("kept", kept);
    app.views.forEach((view, place) => {
      const spans = Format.spans(view.closed).replaceAll("–", "-").replaceAll(" ", "");
      if (view.closed.size) parts.set(`closed${place || ""}`, spans);
      if (view.swaps.length) parts.set(`swaps${place || ""}`, view.swaps.map((pair) => pair.join(".")).join(","));
    });
    const { theme } = document.documentElement.dataset;
    if (theme) parts.set("theme", theme);
    this.written = parts.toString();
    history.replaceState(null, "", `#${this.written}`);
  }

  // s12: a sample; d…: a drawing or image, one of 16 levels for each pixel; f…: numbers
  coded(source, raw) {
    if (!source || source.type === "nothing") return null;
    if (source.type === "sample") return `s${source.place}`;
    if (source.type === "fields")
      return raw.length <= 400 ? `f${Array.from(raw, (value) => Number(value.toPrecision(6))).join("_")}` : null;
    if (raw.length > 4096) return null;
    const full = this.app.facts.input.fullScale;
    const levels = Array.from(raw, (value) => Math.max(0, Math.min(15, Math.round((value / full) * 15))));
    const text = [];
    for (let i = 0; i < levels.length; i += 2) text.push(String.fromCharCode(levels[i] * 16 + (levels[i + 1] || 0)));
    return `d${btoa(text.join("")).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
  }

  // The input that a code stands for; null if it is none
  decoded(code) {
    const { app } = this;
    const { facts, fields, pad, samples } = app;
    const size = facts.networks[0].inputs;
    if (!code) return null;
    if (/^s\d{1,6}$/.test(code)) {
      const place = Number(code.slice(1));
      return place < facts.samples.count ? { raw: samples.of(place), source: { type: "sample", place } } : null;
    }
    if (code[0] === "f" && fields) {
      const values = code.slice(1).split("_").map(Number);
      const fits = values.length === size && values.every(Number.isFinite);
      return fits ? { raw: Float32Array.from(values), source: { type: "fields" } } : null;
    }
    if (code[0] !== "d" || !pad) return null;
    try {
      const text = atob(code.slice(1).replaceAll("-", "+").replaceAll("_", "/"));
      const level = (i) => (i % 2 ? text.charCodeAt(i >> 1) & 15 : text.charCodeAt(i >> 1) >> 4) || 0;
      return { raw: Float32Array.from({ length: size }, (_, i) => (level(i) / 15) * facts.input.fullScale), source: { type: "drawing" } };
    } catch (error) {
      return null;
    }
  }

  read() {
    const { app } = this;
    const parts = new URLSearchParams(location.hash.slice(1));
    const list = (name) => (parts.get(name) || "").split(",").filter(Boolean);
    app.views.forEach((view, place) => {
      const known = new Set(view.numbers);
      view.closed.clear();
      for (const span of list(`closed${place || ""}`)) {
        const [first, last = first] = span.split("-").map(Number);
        if (known.has(first) && known.has(last)) for (let number = first; number <= last; number++) view.closed.add(number);
      }
      const pairs = list(`swaps${place || ""}`).map((pair) => pair.split(".").map(Number));
      view.swaps = pairs.filter(([one, two]) => view.canSwap(one, two)).slice(0, 1000);
      view.arrange();
    });
    const theme = parts.get("theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    const kept = this.decoded(parts.get("kept"));
    if (kept) app.keep(kept);
    const { raw, source } = this.decoded(parts.get("in")) || this.decoded("s0");
    app.load(raw, source);
    app.views.forEach((view) => view.askAll());
  }
}
