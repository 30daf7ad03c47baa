"use strict";
// Images as inputs: drawn by mouse, finger, pen or keys, dropped as a file, or taken from the samples. The result is a raw
// input of the network: channels first, from 0 to the full scale of the training images.

const FINE = 8; // points for each pixel of the network's input, in both directions

class Pad {
  constructor(input, changed) {
    Object.assign(this, { input, changed });
    [this.channels, this.height, this.width] = input.shape;
    this.drawable = this.channels === 1 || this.channels === 3;
    this.side = 280;
    const longest = Math.max(this.width, this.height);
    this.wide = Math.round((this.side * this.width) / longest);
    this.high = Math.round((this.side * this.height) / longest);
    this.canvas = make("canvas", { className: "pad", width: this.wide, height: this.high, tabIndex: 0, role: "application" });
    this.canvas.setAttribute("aria-label", "Drawing area. Arrow keys move the pen, the space bar lowers or lifts it, Delete clears.");
    this.ink = make("canvas", { width: this.wide, height: this.high });
    this.inkContext = this.ink.getContext("2d", { willReadFrequently: true });
    this.fine = make("canvas", { width: this.width * FINE, height: this.height * FINE });
    this.fineContext = this.fine.getContext("2d", { willReadFrequently: true });
    this.seen = make("canvas", { className: "seen", width: this.width, height: this.height });
    this.seen.setAttribute("aria-label", `What the network sees: ${this.width} × ${this.height} pixels`);
    this.seen.setAttribute("role", "img");
    this.base = null; // the raw input under the strokes
    this.pen = { x: this.wide / 2, y: this.high / 2, down: false };
    this.thickness = this.side * (longest < 16 ? 0.12 : 0.085);
    this.colour = "#ffffff";
    this.listen();
    this.clear();
  }

  get empty() {
    return !this.inked && !this.base;
  }

  get ground() {
    return this.input.ink ? (this.input.ink.bright ? 255 : 0) : 0;
  }

  clear() {
    this.base = null;
    this.wipe();
    this.draw();
  }

  wipe() {
    this.inkContext.clearRect(0, 0, this.wide, this.high);
    this.inked = false;
  }

  // Shows a raw input; strokes then go on top of it.
  load(raw) {
    this.base = Float32Array.from(raw);
    this.wipe();
    this.draw();
  }

  listen() {
    const at = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return [((event.clientX - box.left) / box.width) * this.wide, ((event.clientY - box.top) / box.height) * this.high];
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      if (!this.drawable || event.button > 0) return;
      event.preventDefault();
      this.canvas.focus({ preventScroll: true });
      try {
        this.canvas.setPointerCapture(event.pointerId);
      } catch (error) {
        /* a pointer that is already up */
      }
      if (this.fresh) {
        this.base = null;
        this.fresh = false;
      }
      this.stroke = at(event);
      this.line(this.stroke, this.stroke);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!this.stroke) return;
      const events = event.getCoalescedEvents ? event.getCoalescedEvents() : [];
      for (const one of events.length ? events : [event]) {
        const point = at(one);
        this.line(this.stroke, point);
        this.stroke = point;
      }
    });
    for (const name of ["pointerup", "pointercancel"])
      this.canvas.addEventListener(name, () => {
        this.stroke = null;
      });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => {
      this.pen.down = false;
      this.draw();
    });
    this.canvas.addEventListener("focus", () => this.draw());
  }

  key(event) {
    const step = this.side / 28,
      moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (event.key in moves && this.drawable) {
      const before = [this.pen.x, this.pen.y],
        [x, y] = moves[event.key];
      this.pen.x = Math.max(0, Math.min(this.wide, this.pen.x + x));
      this.pen.y = Math.max(0, Math.min(this.high, this.pen.y + y));
      if (this.pen.down) this.line(before, [this.pen.x, this.pen.y]);
      else this.draw();
    } else if (event.key === " " && this.drawable) {
      this.pen.down = !this.pen.down;
      if (this.pen.down) this.line([this.pen.x, this.pen.y], [this.pen.x, this.pen.y]);
      else this.draw();
    } else if (event.key === "Delete" || event.key === "Backspace") {
      this.clear();
      this.changed();
    } else return;
    event.preventDefault();
  }

  line([fromX, fromY], [toX, toY]) {
    const context = this.inkContext;
    Object.assign(context, {
      lineCap: "round",
      lineJoin: "round",
      lineWidth: this.thickness,
      strokeStyle: this.channels === 3 ? this.colour : "#fff",
    });
    context.beginPath();
    context.moveTo(fromX, fromY);
    context.lineTo(toX + 0.01, toY);
    context.stroke();
    this.inked = true;
    if (this.scheduled) return; // several strokes between two frames are read together
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.draw();
      this.changed();
    });
  }

  // The raw input; a drawing on an empty pad is placed as strokes lie in the training images.
  raw() {
    const { width, height, channels } = this,
      size = width * height,
      full = this.input.fullScale;
    const raw = this.base ? Float32Array.from(this.base) : new Float32Array(size * channels).fill((this.ground / 255) * full);
    if (!this.inked) return raw;
    const strokes = this.sampled(this.ink, this.base || !this.input.ink ? null : this.placed());
    for (let place = 0; place < size; place++) {
      const cover = strokes[4 * place + 3] / 255;
      if (!cover) continue;
      for (let channel = 0; channel < channels; channel++) {
        const mark = channels === 1 ? 255 - this.ground : strokes[4 * place + channel];
        const at = channel * size + place;
        raw[at] = raw[at] * (1 - cover) + (mark / 255) * full * cover;
      }
    }
    return raw;
  }

  // Where the strokes go: as large, and with their centre at the same place, as in the training images
  placed() {
    const { wide, high } = this,
      pixels = this.inkContext.getImageData(0, 0, wide, high).data;
    let left = wide,
      right = 0,
      top = high,
      bottom = 0,
      mass = 0,
      x = 0,
      y = 0;
    for (let row = 0; row < high; row++)
      for (let column = 0; column < wide; column++) {
        const cover = pixels[4 * (row * wide + column) + 3];
        if (cover < 64) continue;
        left = Math.min(left, column);
        right = Math.max(right, column);
        top = Math.min(top, row);
        bottom = Math.max(bottom, row);
        mass += cover;
        x += cover * (column + 0.5);
        y += cover * (row + 0.5);
      }
    if (!mass) return null;
    const unit = this.width / wide,
      size = Math.max(right - left, bottom - top) + 1;
    const scale = Math.max(0.6 * unit, Math.min(1.6 * unit, this.input.ink.size / size));
    const box = this.input.ink.centre === "box";
    const across = box ? (left + right + 1) / 2 : x / mass,
      down = box ? (top + bottom + 1) / 2 : y / mass;
    return { scale, x: this.input.ink.x - across * scale, y: this.input.ink.y - down * scale };
  }

  // A picture at the size of the network's input: the mean of 8 × 8 points for each pixel, as red, green, blue, cover
  sampled(source, placed) {
    const fine = FINE,
      { width, height, fineContext: context } = this;
    context.clearRect(0, 0, width * fine, height * fine);
    context.imageSmoothingQuality = "high";
    if (placed)
      context.drawImage(source, placed.x * fine, placed.y * fine, source.width * placed.scale * fine, source.height * placed.scale * fine);
    else context.drawImage(source, 0, 0, width * fine, height * fine);
    const pixels = context.getImageData(0, 0, width * fine, height * fine).data,
      out = new Float32Array(width * height * 4);
    for (let row = 0; row < height; row++)
      for (let column = 0; column < width; column++) {
        let cover = 0,
          red = 0,
          green = 0,
          blue = 0;
        for (let i = 0; i < fine; i++)
          for (let j = 0, at = 4 * ((row * fine + i) * width * fine + column * fine); j < fine; j++, at += 4) {
            const alpha = pixels[at + 3];
            cover += alpha;
            red += pixels[at] * alpha;
            green += pixels[at + 1] * alpha;
            blue += pixels[at + 2] * alpha;
          }
        out.set(cover ? [red / cover, green / cover, blue / cover, cover / fine ** 2] : [0, 0, 0, 0], 4 * (row * width + column));
      }
    return out;
  }

  // Reads an image file as `highway predict` does: upright, on white, stretched to the size of the network's input
  async open(file) {
    const bitmap = await createImageBitmap(file, { imageOrientation: "from-image" });
    const sheet = make("canvas", { width: bitmap.width, height: bitmap.height }),
      context = sheet.getContext("2d");
    context.fillStyle = "#fff";
    context.fillRect(0, 0, sheet.width, sheet.height);
    context.drawImage(bitmap, 0, 0);
    const small = this.sampled(sheet, null),
      size = this.width * this.height,
      pixels = new Float32Array(size * this.channels);
    for (let place = 0; place < size; place++) {
      const [red, green, blue] = small.subarray(4 * place, 4 * place + 3);
      if (this.channels === 1) pixels[place] = 0.299 * red + 0.587 * green + 0.114 * blue;
      else (pixels.set([red], place), pixels.set([green], size + place), pixels.set([blue], 2 * size + place));
    }
    const inverted = this.input.ink !== undefined && Pad.edge(pixels, this.width, this.height) > 127 !== this.input.ink.bright;
    this.load(pixels.map((value) => (Math.round(inverted ? 255 - value : value) / 255) * this.input.fullScale));
    return inverted;
  }

  // The median brightness of the outermost pixels
  static edge(pixels, width, height) {
    const edge = [];
    for (let i = 0; i < width; i++) edge.push(pixels[i], pixels[(height - 1) * width + i]);
    for (let i = 0; i < height; i++) edge.push(pixels[i * width], pixels[(i + 1) * width - 1]);
    return edge.sort((a, b) => a - b)[edge.length >> 1];
  }

  draw() {
    const raw = this.raw(),
      context = this.canvas.getContext("2d");
    Pad.picture(this.seen, raw, this.input);
    context.imageSmoothingEnabled = false;
    if (this.base) Pad.enlarged(context, this.base, this.input, this.wide, this.high);
    else {
      context.fillStyle = this.ground ? "#fff" : "#0d1520";
      context.fillRect(0, 0, this.wide, this.high);
    }
    context.save();
    if (this.channels === 1 && this.ground) context.filter = "invert(1)";
    context.drawImage(this.ink, 0, 0);
    context.restore();
    if (document.activeElement === this.canvas && this.canvas.matches(":focus-visible") && !this.stroke) {
      context.strokeStyle = this.pen.down ? "#ec8e32" : "#4e9af1";
      context.lineWidth = 2;
      context.beginPath();
      context.arc(this.pen.x, this.pen.y, this.thickness / 2, 0, 7);
      context.stroke();
    }
  }

  // Draws a raw input pixel by pixel onto a canvas of its size
  static picture(canvas, raw, input) {
    const [channels, height, width] = input.shape,
      size = width * height,
      context = canvas.getContext("2d");
    const image = context.createImageData(width, height),
      full = input.fullScale;
    for (let place = 0; place < size; place++) {
      for (let part = 0; part < 3; part++) image.data[4 * place + part] = (raw[(channels >= 3 ? part : 0) * size + place] / full) * 255;
      image.data[4 * place + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  static enlarged(context, raw, input, wide, high) {
    const small = Pad.picture(make("canvas", { width: input.shape[2], height: input.shape[1] }), raw, input);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, wide, high);
  }
}
