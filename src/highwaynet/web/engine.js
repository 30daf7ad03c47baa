"use strict";
// The network: steps (lowering.py) and their weights -> outputs, gates, block states and what the network would answer after each layer.
// This script runs in the page and, as the source of a Blob, in a Web Worker. It computes in float64, as JavaScript does anyway.
// Maps are stored row by row with the channels last. No step creates objects: all memory is reserved once.

const Engine = (() => {
  const sizeOf = (shape) => shape.reduce((product, side) => product * side, 1);

  function activate(values, start, end, name) {
    if (name === "tanh") for (let i = start; i < end; i++) values[i] = Math.tanh(values[i]);
    else if (name === "relu") for (let i = start; i < end; i++) values[i] = values[i] > 0 ? values[i] : 0;
    else if (name === "sigmoid") for (let i = start; i < end; i++) values[i] = 1 / (1 + Math.exp(-values[i]));
  }

  // out[o] = b[o] + sum over i of w[o, i] * x[i]; four rows at a time keep the sums in registers
  function product(x, inputs, weights, w, b, out, outputs) {
    let o = 0;
    for (; o + 4 <= outputs; o += 4) {
      let s0 = weights[b + o],
        s1 = weights[b + o + 1],
        s2 = weights[b + o + 2],
        s3 = weights[b + o + 3];
      let w0 = w + o * inputs,
        w1 = w0 + inputs,
        w2 = w1 + inputs,
        w3 = w2 + inputs;
      for (let i = 0; i < inputs; i++) {
        const value = x[i];
        s0 += value * weights[w0++];
        s1 += value * weights[w1++];
        s2 += value * weights[w2++];
        s3 += value * weights[w3++];
      }
      out[o] = s0;
      out[o + 1] = s1;
      out[o + 2] = s2;
      out[o + 3] = s3;
    }
    for (; o < outputs; o++) {
      let sum = weights[b + o],
        place = w + o * inputs;
      for (let i = 0; i < inputs; i++) sum += x[i] * weights[place++];
      out[o] = sum;
    }
  }

  // Copies maps into a larger buffer with zeros around them; with "same" and an even window there is one zero more on the far side.
  function padded(x, [channels, height, width], pad, kernel, buffer) {
    const wide = width + kernel - 1 > width + 2 * pad ? width + kernel - 1 : width + 2 * pad;
    const high = height + kernel - 1 > height + 2 * pad ? height + kernel - 1 : height + 2 * pad;
    if (pad === 0 && kernel === 1) return [x, wide];
    buffer.fill(0, 0, wide * high * channels);
    for (let row = 0; row < height; row++) {
      const from = row * width * channels;
      buffer.set(x.subarray(from, from + width * channels), ((row + pad) * wide + pad) * channels);
    }
    return [buffer, wide];
  }

  // A convolution with `rows` outputs for each pixel: window rows are contiguous, so that it is a product of short vectors.
  function convolve(x, step, weights, rows, out, buffer) {
    const [channels] = step.in,
      [, high, wideOut] = step.out,
      { kernel, stride, w, b } = step;
    const [source, wide] = padded(x, step.in, step.pad, kernel, buffer);
    const span = kernel * channels,
      line = wide * channels,
      jump = stride * channels,
      window = kernel * span;
    for (let row = 0; row < high; row++) {
      let column = 0;
      for (; column + 2 <= wideOut; column += 2) {
        const first = row * stride * line + column * jump,
          place = (row * wideOut + column) * rows;
        let o = 0;
        for (; o + 4 <= rows; o += 4) {
          let a0 = weights[b + o],
            a1 = weights[b + o + 1],
            a2 = weights[b + o + 2],
            a3 = weights[b + o + 3];
          let c0 = a0,
            c1 = a1,
            c2 = a2,
            c3 = a3;
          let w0 = w + o * window,
            w1 = w0 + window,
            w2 = w1 + window,
            w3 = w2 + window;
          for (let k = 0; k < kernel; k++) {
            const start = first + k * line,
              end = start + span;
            for (let i = start; i < end; i++) {
              const left = source[i],
                right = source[i + jump];
              const v0 = weights[w0++],
                v1 = weights[w1++],
                v2 = weights[w2++],
                v3 = weights[w3++];
              a0 += left * v0;
              a1 += left * v1;
              a2 += left * v2;
              a3 += left * v3;
              c0 += right * v0;
              c1 += right * v1;
              c2 += right * v2;
              c3 += right * v3;
            }
          }
          out[place + o] = a0;
          out[place + o + 1] = a1;
          out[place + o + 2] = a2;
          out[place + o + 3] = a3;
          out[place + rows + o] = c0;
          out[place + rows + o + 1] = c1;
          out[place + rows + o + 2] = c2;
          out[place + rows + o + 3] = c3;
        }
        for (; o < rows; o++) {
          out[place + o] = single(source, first, line, span, kernel, weights, w + o * window, weights[b + o]);
          out[place + rows + o] = single(source, first + jump, line, span, kernel, weights, w + o * window, weights[b + o]);
        }
      }
      for (; column < wideOut; column++) {
        const first = row * stride * line + column * jump,
          place = (row * wideOut + column) * rows;
        for (let o = 0; o < rows; o++) out[place + o] = single(source, first, line, span, kernel, weights, w + o * window, weights[b + o]);
      }
    }
  }

  function single(source, first, line, span, kernel, weights, place, sum) {
    for (let k = 0; k < kernel; k++) {
      const start = first + k * line,
        end = start + span;
      for (let i = start; i < end; i++) sum += source[i] * weights[place++];
    }
    return sum;
  }

  // y = H·T + x·C from z, which has `parts` blocks of `width` values for each place: H, T and, if it is independent, C
  function gate(x, z, places, width, step, state) {
    const parts = step.independent ? 3 : 2,
      { h, t, y } = state;
    for (let place = 0; place < places; place++) {
      const from = place * parts * width,
        to = place * width;
      activate(z, from, from + width, step.act);
      for (let i = 0; i < width; i++) {
        const opened = 1 / (1 + Math.exp(-z[from + width + i])),
          block = z[from + i],
          carried = x[to + i];
        h[to + i] = block;
        t[to + i] = opened;
        if (parts === 3) y[to + i] = block * opened + carried / (1 + Math.exp(-z[from + 2 * width + i]));
        else y[to + i] = opened < 0.5 ? carried + opened * (block - carried) : block - (block - carried) * (1 - opened);
      }
    }
  }

  // c = g·i + c·f and y = o·activation(c) from z, which holds g and the gates i, f and o
  function remember(cell, z, width, step, { h, t, y }) {
    activate(z, 0, width, step.act);
    activate(z, width, 4 * width, "sigmoid");
    for (let i = 0; i < width; i++) {
      h[i] = z[i];
      t[i] = z[width + i];
      cell[i] = h[i] * t[i] + cell[i] * z[2 * width + i];
      y[i] = cell[i];
    }
    activate(y, 0, width, step.act);
    for (let i = 0; i < width; i++) y[i] *= z[3 * width + i];
  }

  function pool(x, step, y) {
    const [channels, height, width] = step.in,
      [, high, wide] = step.out,
      { size, stride } = step;
    for (let row = 0; row < high; row++)
      for (let column = 0; column < wide; column++) {
        const top = row * stride,
          left = column * stride,
          bottom = Math.min(top + size, height),
          right = Math.min(left + size, width);
        for (let channel = 0; channel < channels; channel++) {
          let best = -Infinity,
            sum = 0;
          for (let i = top; i < bottom; i++)
            for (let j = left; j < right; j++) {
              const value = x[(i * width + j) * channels + channel];
              sum += value;
              if (value > best) best = value;
            }
          y[(row * wide + column) * channels + channel] = step.kind === "max" ? best : sum / ((bottom - top) * (right - left));
        }
      }
  }

  function average(x, [channels, height, width], y) {
    y.fill(0, 0, channels);
    for (let place = 0, i = 0; place < height * width; place++) for (let channel = 0; channel < channels; channel++) y[channel] += x[i++];
    for (let channel = 0; channel < channels; channel++) y[channel] /= height * width;
  }

  // Every stride-th pixel, and maps of zeros behind the others
  function reshaped(x, step, y) {
    const [channels, , width] = step.in,
      [more, high, wide] = step.out;
    y.fill(0, 0, more * high * wide);
    for (let row = 0; row < high; row++)
      for (let column = 0; column < wide; column++) {
        const from = (row * step.stride * width + column * step.stride) * channels,
          to = (row * wide + column) * more;
        for (let channel = 0; channel < channels; channel++) y[to + channel] = x[from + channel];
      }
  }

  function largest(z, pieces, places, width, y) {
    for (let place = 0; place < places; place++)
      for (let i = 0; i < width; i++) {
        let best = -Infinity;
        for (let piece = 0; piece < pieces; piece++) best = Math.max(best, z[(place * pieces + piece) * width + i]);
        y[place * width + i] = best;
      }
  }

  class Network {
    constructor(description, floats) {
      this.steps = description.steps;
      this.preprocessing = description.preprocessing;
      this.weights = floats instanceof Float64Array ? floats : Float64Array.from(floats);
      const shapes = this.steps.flatMap((step) => [step, step.first, step.second, step.shortcut].filter(Boolean));
      let most = description.inputs,
        widest = 0;
      for (const step of shapes) {
        const parts = step.op === "lstm" ? 4 : step.op.startsWith("highway") ? (step.independent ? 3 : 2) : step.pieces || 1;
        most = Math.max(most, sizeOf(step.in), sizeOf(step.out) * parts);
        if (step.in.length === 3)
          widest = Math.max(
            widest,
            step.in[0] *
              (step.in[1] + 2 * Math.max(step.kernel || 1, step.pad || 0)) *
              (step.in[2] + 2 * Math.max(step.kernel || 1, step.pad || 0)),
          );
      }
      this.z = new Float64Array(most);
      this.buffer = new Float64Array(widest);
      this.spare = [0, 1, 2].map(() => new Float64Array(most));
      this.states = this.steps.map((step) => {
        const size = sizeOf(step.out),
          gated = step.op.startsWith("highway") || step.op === "lstm";
        return { h: new Float64Array(gated ? size : 0), t: new Float64Array(gated ? size : 0), y: new Float64Array(size) };
      });
      this.closable = this.steps.map((step) => step.number !== undefined);
      this.skippable = this.steps.map((step) => step.row !== undefined && step.in.join() === step.out.join());
    }

    // Raw values (channels first) -> the values that the first step takes
    prepare(raw) {
      let x = Float64Array.from(raw);
      for (const step of this.preprocessing) {
        const size = x.length;
        if (step.name === "scale") for (let i = 0; i < size; i++) x[i] *= Math.fround(step.factor);
        else if (step.name === "gcn") {
          let mean = 0,
            square = 0;
          for (let i = 0; i < size; i++) mean += x[i] / size;
          for (let i = 0; i < size; i++) square += (x[i] - mean) ** 2 / size;
          const deviation = Math.max(Math.sqrt(square), 1e-8);
          for (let i = 0; i < size; i++) x[i] = (x[i] - mean) / deviation;
        } else if (step.name === "piecewise") {
          const bins = step.feature.map((place, i) => (x[place] - this.weights[step.low + i]) * this.weights[step.factor + i]);
          x = Float64Array.from([...x, ...bins.map((risen) => Math.min(Math.max(risen, 0), 1))]);
        } else {
          const each = size / step.count;
          for (let i = 0; i < size; i++) x[i] -= this.weights[step.mean + Math.floor(i / each)];
          if (step.name === "standardise") for (let i = 0; i < size; i++) x[i] *= this.weights[step.factor + Math.floor(i / each)];
          if (step.name === "zca") x = this.whitened(x, step.matrix);
        }
      }
      const shape = this.steps[0].in;
      if (shape.length === 1) return x;
      const [channels, height, width] = shape,
        maps = new Float64Array(x.length);
      for (let channel = 0; channel < channels; channel++)
        for (let place = 0; place < height * width; place++) {
          maps[place * channels + channel] = x[channel * height * width + place];
        }
      return maps;
    }

    whitened(x, matrix) {
      const size = x.length,
        y = new Float64Array(size);
      for (let i = 0; i < size; i++) for (let j = 0, place = matrix + i * size; j < size; j++) y[j] += x[i] * this.weights[place++];
      return y;
    }

    // Computes one step into `state`; a closed layer copies its input.
    run(step, x, state, closed) {
      const { weights, z, spare } = this,
        { y } = state,
        places = sizeOf(step.out.slice(1)),
        width = step.out[0];
      if (step.op === "lstm" && !this.cell) this.cell = x.slice(0, width); // the first cell is the input
      if (closed && step.op !== "residual-conv") {
        y.set(x.subarray(0, y.length));
        state.h.fill(0);
        state.t.fill(0);
      } else if (step.op === "dense") {
        product(x, sizeOf(step.in), weights, step.w, step.b, step.pieces > 1 ? z : y, width * step.pieces);
        if (step.pieces > 1) largest(z, step.pieces, 1, width, y);
        activate(y, 0, width, step.act);
      } else if (step.op === "residual") {
        product(x, width, weights, step.w, step.b, y, width);
        activate(y, 0, width, step.act);
        for (let i = 0; i < width; i++) y[i] += x[i];
      } else if (step.op === "highway") {
        product(x, width, weights, step.w, step.b, z, width * (step.independent ? 3 : 2));
        gate(x, z, 1, width, step, state);
      } else if (step.op === "lstm") {
        product(x, width, weights, step.w, step.b, z, 4 * width);
        remember(this.cell, z, width, step, state);
      } else if (step.op === "conv") {
        convolve(x, step, weights, width * step.pieces, step.pieces > 1 ? z : y, this.buffer);
        if (step.pieces > 1) largest(z, step.pieces, places, width, y);
        activate(y, 0, width * places, step.act);
      } else if (step.op === "highway-conv") {
        convolve(x, step, weights, width * (step.independent ? 3 : 2), z, this.buffer);
        gate(x, z, places, width, step, state);
      } else if (step.op === "residual-conv") {
        const carried = spare[2];
        if (!step.shortcut) carried.set(x.subarray(0, y.length));
        else if (step.shortcut.op === "pad") reshaped(x, step.shortcut, carried);
        else convolve(x, step.shortcut, weights, width, carried, this.buffer);
        if (closed) {
          y.set(carried.subarray(0, y.length));
          return y;
        }
        convolve(x, step.first, weights, width, z, this.buffer);
        activate(z, 0, sizeOf(step.first.out), "relu");
        convolve(z, step.second, weights, width, y, this.buffer);
        for (let i = 0; i < y.length; i++) y[i] = y[i] + carried[i] > 0 ? y[i] + carried[i] : 0;
      } else if (step.op === "pool") pool(x, step, y);
      else if (step.op === "mean") average(x, step.in, y);
      else if (step.op === "members") for (let i = 0; i < y.length; i++) y[i] = x[i % width] * weights[step.factors + i];
      else throw new Error(`unknown step ${step.op}`);
      return y;
    }

    // route: for each place the step that stands there; closed: for each step whether it is closed
    outputs(raw, route, closed) {
      let x = this.prepare(raw);
      this.cell = null; // of LSTM layers, which pass it on besides their outputs
      for (let place = 0; place < this.steps.length; place++) {
        const number = route[place];
        x = this.run(this.steps[number], x, this.states[number], closed[number]);
      }
      return x;
    }

    // What the network would answer if it ended after each row: later layers that keep the shape are skipped.
    estimates(route, closed, rows) {
      const found = [],
        last = this.steps.length,
        spare = this.spare;
      for (const place of rows) {
        let x = this.states[route[place]].y,
          turn = 0;
        for (let later = place + 1; later < last; later++) {
          const number = route[later],
            step = this.steps[number];
          if (this.skippable[number]) continue;
          const y = spare[turn].subarray(0, sizeOf(step.out));
          x = this.run(step, x, { y, h: y, t: y }, this.closable[number]);
          turn = 1 - turn;
        }
        found.push(Float64Array.from(x));
      }
      return found;
    }
  }

  // The mean over the pixels of a map, for each map; of a dense layer, the values themselves
  function overPlaces(values, width, out, start) {
    const places = values.length / width;
    for (let i = 0; i < width; i++) out[start + i] = 0;
    for (let place = 0, at = 0; place < places; place++) for (let i = 0; i < width; i++) out[start + i] += values[at++];
    for (let i = 0; i < width; i++) out[start + i] /= places;
  }

  return { Network, overPlaces, sizeOf };
})();
