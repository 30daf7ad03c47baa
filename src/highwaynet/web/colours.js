"use strict";
// Colours of the maps, and small helpers for the page. Both scales change in lightness, so that they can be read without seeing hues.

const Colours = (() => {
  const SEQUENTIAL = [
    [13, 21, 32],
    [23, 49, 72],
    [27, 89, 112],
    [52, 136, 133],
    [126, 184, 127],
    [214, 219, 130],
    [255, 246, 196],
  ];
  const DIVERGING = [
    [176, 216, 255],
    [78, 154, 241],
    [33, 82, 142],
    [13, 21, 32],
    [142, 74, 20],
    [236, 142, 50],
    [255, 221, 170],
  ];

  const between = (anchors, power) => {
    const table = new Uint8Array(256 * 3),
      last = anchors.length - 1;
    for (let i = 0; i < 256; i++) {
      const place = (i / 255) ** power * last,
        low = Math.min(Math.floor(place), last - 1),
        share = place - low;
      for (let part = 0; part < 3; part++)
        table[3 * i + part] = Math.round(anchors[low][part] * (1 - share) + anchors[low + 1][part] * share);
    }
    return table;
  };
  const tables = { gates: between(SEQUENTIAL, 0.65), signed: between(DIVERGING, 1) };

  // Fills image data with the colours of values from `low` to `high`; NaN stays transparent.
  const paint = (pixels, values, low, high, scale) => {
    const table = tables[scale],
      factor = 255 / (high - low || 1);
    for (let i = 0; i < values.length; i++) {
      const value = values[i],
        at = 4 * i;
      if (Number.isNaN(value)) {
        pixels[at + 3] = 0;
        continue;
      }
      const index = 3 * Math.max(0, Math.min(255, Math.round((value - low) * factor)));
      pixels[at] = table[index];
      pixels[at + 1] = table[index + 1];
      pixels[at + 2] = table[index + 2];
      pixels[at + 3] = 255;
    }
  };

  const css = (share, scale) => {
    const index = 3 * Math.max(0, Math.min(255, Math.round(share * 255))),
      table = tables[scale];
    return `rgb(${table[index]}, ${table[index + 1]}, ${table[index + 2]})`;
  };
  return { paint, css };
})();

// An element with properties, attributes (aria-…, role, …) and children; texts are never read as HTML.
const make = (tag, properties = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element && !name.startsWith("aria-")) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
};

const Format = {
  percent: (share) => `${(100 * share).toFixed(share > 0.9995 || share < 0.0005 ? 0 : 1)}\u00a0%`,
  number: (value) => {
    if (!Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    const text =
      size >= 1e6 || (size < 1e-3 && size > 0)
        ? value.toExponential(2)
        : size >= 100
          ? value.toFixed(0)
          : size >= 10
            ? value.toFixed(1)
            : value.toFixed(2);
    return text.replace("-", "−");
  },
  // 3, 5, 6, 7 -> 3, 5–7
  spans: (numbers) => {
    const spans = [];
    for (const number of [...numbers].sort((a, b) => a - b)) {
      const last = spans[spans.length - 1];
      if (last && last[1] === number - 1) last[1] = number;
      else spans.push([number, number]);
    }
    return spans.map(([first, end]) => (first === end ? `${first}` : `${first}–${end}`)).join(", ");
  },
  shortened: (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text),
};
