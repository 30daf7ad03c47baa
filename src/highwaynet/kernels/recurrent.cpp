// Recurrent highway layers: each micro-layer of each time step is a product of states and weights, followed at once by activation, gates and
// mixing. A thread takes some rows through all steps, so that their states stay in its cache, or all rows and some features of one
// micro-layer, if the weights are too large for the cache.
//
// The build compiles this file once for each instruction set: HIGHWAYNET_LANES floats make a vector, HIGHWAYNET_TABLE names the result.
// Each number comes from the same operations in the same order wherever it lies in a tile, so that bits depend neither on how the work is
// cut nor on the number of threads.

#include "recurrent.h"

#include "vector_math.h"

namespace highwaynet {
namespace {

// A register tile is most_rows · most_vectors sums; the other registers hold the factors.
constexpr int64_t most_rows = 6;
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int64_t most_vectors = 4;  // of 32 registers
#else
constexpr int64_t most_vectors = 2;  // of 16
#endif
constexpr int64_t most_columns = most_vectors * lanes;
constexpr int64_t most_parts = 3;
constexpr int64_t block = 24;  // rows whose pre-activations are kept together

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t pieces(int64_t count, int64_t size) { return (count + size - 1) / size; }
INLINE int64_t padded(int64_t features) { return pieces(features, lanes) * lanes; }

// ----- Where things are

// Features are cut into panels of at most most_columns, all of about the same size.
struct Panel {
  int64_t column, columns;
};

INLINE int64_t panels_of(int64_t features) { return pieces(pieces(features, lanes), most_vectors); }

INLINE Panel panel_of(int64_t features, int64_t number) {
  const int64_t vectors = pieces(features, lanes), panels = panels_of(features);
  const int64_t first = vectors * number / panels, last = vectors * (number + 1) / panels;
  return {first * lanes, (last - first) * lanes};
}

// Forward, the matrix of a micro-layer is turned, (inputs, columns) for each part and panel; the biases of all parts, padded, follow.
// Backward, it is (parts·width, columns) for each panel of the states, or of the inputs.
INLINE int64_t matrix_size(const Recurrent &s, bool backward, int64_t layer) {
  const int64_t columns = layer == s.depth ? s.inputs : s.width;
  return backward ? s.parts * s.width * padded(columns) : s.parts * padded(s.width) * (columns + (layer < s.depth));
}
INLINE float *matrix_of(const Recurrent &s, bool backward, int64_t layer) { return s.packed + layer * matrix_size(s, backward, 0); }
INLINE const float *bias_of(const Recurrent &s, int64_t layer) {
  return matrix_of(s, false, layer) + s.parts * padded(s.width) * s.width;
}

INLINE bool is_closed(const Recurrent &s, int64_t layer) { return s.closed != nullptr && s.closed[layer] != 0; }

// What is kept of a micro-layer: 0 is the state before it, then H, T, C.
INLINE float *kept(const Recurrent &s, int64_t what, int64_t step, int64_t layer) {
  return s.kept + ((what * s.depth + layer) * s.total + s.offsets[step]) * padded(s.width);
}
INLINE float *state(const Recurrent &s, int64_t step, int64_t layer) {
  return s.keep ? kept(s, 0, step, layer) : s.kept + (step * s.depth + layer) % 2 * s.rows * padded(s.width);
}
INLINE float *fed(const Recurrent &s, int64_t step, int64_t layer) {
  return s.mask == nullptr ? state(s, step, layer) : s.fed + (step * s.depth + layer) % 2 * s.rows * padded(s.width);
}

INLINE int64_t gz_stride(const Recurrent &s) { return s.parts * padded(s.width) + lanes; }  // not a power of two: rows would share cache sets
INLINE float *gz_of(const Recurrent &s, int64_t first_step, int64_t step, int64_t layer) {
  return s.gz + (layer * s.chunk + s.offsets[step] - s.offsets[first_step]) * gz_stride(s);
}
INLINE float *seen(const Recurrent &s, int64_t first_step, int64_t step, int64_t layer) {
  return s.seen + (layer * s.chunk + s.offsets[step] - s.offsets[first_step]) * padded(s.width);
}

// Rows without padding, whose last vector may be incomplete.
INLINE Vector load_row(const float *row, int64_t column, int64_t width) {
  if (column + lanes <= width) return load(row + column);
  float buffer[lanes] = {};
  __builtin_memcpy(buffer, row + column, sizeof(float) * (width - column));
  return load(buffer);
}

INLINE void store_row(float *row, int64_t column, int64_t width, Vector v) {
  if (column + lanes <= width) return store(row + column, v);
  float buffer[lanes];
  store(buffer, v);
  __builtin_memcpy(row + column, buffer, sizeof(float) * (width - column));
}

// ----- Products

// One summand: Σ_k a(r, k) · b(k, column) over `depth` numbers k. Rows of b lie `b_stride` apart, rows of a `a_stride`; if a is turned,
// its columns do.
struct Factors {
  const float *a, *b;
  int64_t a_stride, b_stride, depth;
};

// sums(r, column) = all summands, one after the other.
template <bool turned, int rows, int vectors>
void products(const Factors *summands, int64_t count, float *sums, int64_t stride) {
  Vector sum[rows][vectors] = {};
  for (int64_t i = 0; i < count; ++i) {
    const Factors f = summands[i];
    const float *b = f.b;
    for (int64_t k = 0; k < f.depth; ++k, b += f.b_stride) {
      Vector factor[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) factor[v] = load(b + v * lanes);
#pragma GCC unroll 6
      for (int r = 0; r < rows; ++r) {
        const Vector a = all(turned ? f.a[k * f.a_stride + r] : f.a[r * f.a_stride + k]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sum[r][v] += a * factor[v];
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store(sums + r * stride + v * lanes, sum[r][v]);
}

using Products = void (*)(const Factors *, int64_t, float *, int64_t);

template <bool turned, int rows = most_rows, int vectors = most_vectors>
Products products_for(int64_t wanted_rows, int64_t wanted_vectors) {
  if constexpr (rows > 1)
    if (rows != wanted_rows) return products_for<turned, rows - 1, vectors>(wanted_rows, wanted_vectors);
  if constexpr (vectors > 1)
    if (vectors != wanted_vectors) return products_for<turned, rows, vectors - 1>(wanted_rows, wanted_vectors);
  return products<turned, rows, vectors>;
}

// Rows first … last−1 of the products, in tiles of about the same height. The a of the summands begin at row 0; sums begin at `first`.
void multiply(Factors *summands, int64_t count, int64_t first, int64_t last, int64_t columns, float *sums) {
  const int64_t tiles = pieces(last - first, most_rows);
  for (int64_t i = 0; i < count; ++i) summands[i].a += first * summands[i].a_stride;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t row = (last - first) * tile / tiles, rows = (last - first) * (tile + 1) / tiles - row;
    products_for<false>(rows, columns / lanes)(summands, count, sums + row * most_columns, most_columns);
    for (int64_t i = 0; i < count; ++i) summands[i].a += rows * summands[i].a_stride;
  }
}

// ----- Packing

void pack(const Recurrent &s, bool backward, int64_t layer) {
  const bool is_input = layer == s.depth;
  const int64_t columns = is_input ? s.inputs : s.width, rows = s.parts * s.width;
  const float *from = is_input ? s.input_weight : s.weight + layer * rows * s.width;
  float *to = matrix_of(s, backward, layer);
  __builtin_memset(to, 0, sizeof(float) * matrix_size(s, backward, layer));
  if (backward) {
    for (int64_t p = 0; p < panels_of(columns); ++p) {
      const Panel panel = panel_of(columns, p);
      const int64_t real = smaller(panel.columns, columns - panel.column);
      for (int64_t k = 0; k < rows; ++k, to += panel.columns)
        __builtin_memcpy(to, from + k * columns + panel.column, sizeof(float) * real);
    }
    return;
  }
  for (int64_t part = 0; part < s.parts; ++part)
    for (int64_t p = 0; p < panels_of(s.width); ++p) {
      const Panel panel = panel_of(s.width, p);
      for (int64_t c = 0; c < panel.columns && panel.column + c < s.width; ++c) {
        const float *row = from + (part * s.width + panel.column + c) * columns;
        for (int64_t k = 0; k < columns; ++k) to[k * panel.columns + c] = row[k];
      }
      to += columns * panel.columns;
    }
  if (is_input) return;
  for (int64_t part = 0; part < s.parts; ++part)
    __builtin_memcpy(to + part * padded(s.width), s.bias + layer * rows + part * s.width, sizeof(float) * s.width);
}

int64_t packed_size(const Recurrent &s, bool backward) { return s.depth * matrix_size(s, backward, 0) + matrix_size(s, backward, s.depth); }

// ----- Forward

void begin(const Recurrent &s, int64_t first, int64_t last) {
  const int64_t stride = padded(s.width);
  for (int64_t r = first; r < last; ++r)
    for (int64_t c = 0; c < s.width; c += lanes) {
      const Vector v = load_row(s.start + r * s.width, c, s.width);
      store(state(s, 0, 0) + r * stride + c, v);
      if (s.mask != nullptr) store(fed(s, 0, 0) + r * stride + c, v * load_row(s.mask + r * s.width, c, s.width));
    }
}

// Where the state after a micro-layer goes: to the next one, or to the next step, as far as the sequences go on, and to y.
struct Destination {
  float *state, *fed, *y;
  int64_t rows;
};

INLINE Destination after(const Recurrent &s, int64_t step, int64_t layer) {
  if (layer + 1 < s.depth) return {state(s, step, layer + 1), fed(s, step, layer + 1), nullptr, s.counts[step]};
  float *y = s.y + s.offsets[step] * s.width;
  if (step + 1 == s.steps) return {nullptr, nullptr, y, 0};
  return {state(s, step + 1, 0), fed(s, step + 1, 0), y, s.counts[step + 1]};
}

INLINE void give(const Recurrent &s, const Destination &to, int64_t row, int64_t column, Vector v) {
  const int64_t at = row * padded(s.width) + column;
  if (row < to.rows) {
    store(to.state + at, v);
    if (s.mask != nullptr) store(to.fed + at, v * load_row(s.mask + row * s.width, column, s.width));
  }
  if (to.y != nullptr) store_row(to.y + row * s.width, column, s.width, v);
}

// Activation, gates and mixing of a block of rows, for one panel; z is (parts, block, most_columns).
template <Activation activation, bool independent>
void mixed(const Recurrent &s, int64_t step, int64_t layer, int64_t first, int64_t last, Panel panel, const float *z) {
  const int64_t stride = padded(s.width);
  const float *bias = bias_of(s, layer) + panel.column, *from = state(s, step, layer);
  const Destination to = after(s, step, layer);
  float *transforms = nullptr, *gates = nullptr, *carries = nullptr;
  if (s.keep) {
    transforms = kept(s, 1, step, layer), gates = kept(s, 2, step, layer);
    if (independent) carries = kept(s, 3, step, layer);
  }
  for (int64_t r = first; r < last; ++r, z += most_columns)
    for (int64_t c = 0; c < panel.columns; c += lanes) {
      const int64_t column = panel.column + c, at = r * stride + column;
      const Vector h = state_of<activation>(load(z + c) + load(bias + c)).value, x = load(from + at);
      const Vector t = load(z + block * most_columns + c) + load(bias + stride + c);
      const Sigmoid gate = sigmoid_of(t);
      if constexpr (independent) {
        const Sigmoid carry = sigmoid_of(load(z + 2 * block * most_columns + c) + load(bias + 2 * stride + c));
        give(s, to, r, column, h * gate.value + x * carry.value);
        if (carries != nullptr) store(carries + at, carry.value);
      } else {
        give(s, to, r, column, gate.weight * (h - x) + (t >= 0.0f ? h : x));  // as torch.lerp, from the nearer end
      }
      if (transforms != nullptr) {
        store(transforms + at, h);
        store(gates + at, gate.value);
      }
    }
}

using Mixed = void (*)(const Recurrent &, int64_t, int64_t, int64_t, int64_t, Panel, const float *);
constexpr Mixed mixed_of[2][activations] = {
    {mixed<relu, false>, mixed<tanh, false>, mixed<sigmoid, false>, mixed<identity, false>},
    {mixed<relu, true>, mixed<tanh, true>, mixed<sigmoid, true>, mixed<identity, true>}};

void forward(const Recurrent &s, int64_t step, int64_t layer, int64_t first, int64_t last, int64_t first_panel, int64_t last_panel) {
  last = smaller(last, s.counts[step]);
  alignas(64) float z[most_parts * block * most_columns];
  for (int64_t row = first; row < last; row += block) {
    const int64_t end = smaller(row + block, last);
    for (int64_t p = first_panel; p < last_panel; ++p) {
      const Panel panel = panel_of(s.width, p);
      if (is_closed(s, layer)) {
        const Destination to = after(s, step, layer);
        for (int64_t r = row; r < end; ++r)
          for (int64_t c = panel.column; c < panel.column + panel.columns; c += lanes)
            give(s, to, r, c, load(state(s, step, layer) + r * padded(s.width) + c));
        continue;
      }
      for (int64_t part = 0; part < s.parts; ++part) {
        const int64_t column = part * padded(s.width) + panel.column;  // columns before this panel
        Factors summands[2] = {{fed(s, step, layer), matrix_of(s, false, layer) + column * s.width, padded(s.width), panel.columns, s.width},
                               {s.x + s.offsets[step] * s.inputs, matrix_of(s, false, s.depth) + column * s.inputs, s.inputs, panel.columns,
                                s.inputs}};
        multiply(summands, layer == 0 ? 2 : 1, row, end, panel.columns, z + part * block * most_columns);
      }
      mixed_of[s.parts == 3][s.activation](s, step, layer, row, end, panel, z);
    }
  }
}

// ----- Backward: rows

template <Activation activation, bool independent>
void split_gradient(const Recurrent &s, int64_t first_step, int64_t step, int64_t layer, int64_t first, int64_t last, Panel panel) {
  const int64_t stride = padded(s.width);
  const float *states = state(s, step, layer), *transforms = kept(s, 1, step, layer), *gates = kept(s, 2, step, layer);
  const float *carries = independent ? kept(s, 3, step, layer) : nullptr;
  for (int64_t r = first; r < last; ++r) {
    float *gz = gz_of(s, first_step, step, layer) + r * gz_stride(s);
    for (int64_t c = panel.column; c < panel.column + panel.columns; c += lanes) {
      const int64_t at = r * stride + c;
      const Vector g = load(s.g + at), h = load(transforms + at), t = load(gates + at), x = load(states + at), rest = 1.0f - t;
      store(gz + c, gradient_of<activation>(h, t * g));
      if constexpr (independent) {
        const Vector carry = load(carries + at);
        store(gz + stride + c, h * g * (rest * t));
        store(gz + 2 * stride + c, x * g * ((1.0f - carry) * carry));
        store(s.g + at, carry * g);
      } else {
        store(gz + stride + c, (h - x) * g * (rest * t));
        store(s.g + at, rest * g);
      }
    }
  }
}

using Split = void (*)(const Recurrent &, int64_t, int64_t, int64_t, int64_t, int64_t, Panel);
constexpr Split split_of[2][activations] = {
    {split_gradient<relu, false>, split_gradient<tanh, false>, split_gradient<sigmoid, false>, split_gradient<identity, false>},
    {split_gradient<relu, true>, split_gradient<tanh, true>, split_gradient<sigmoid, true>, split_gradient<identity, true>}};

void gradients(const Recurrent &s, int64_t first_step, int64_t step, int64_t layer, int64_t first, int64_t last, int64_t first_panel,
               int64_t last_panel) {
  last = smaller(last, s.counts[step]);
  const int64_t stride = padded(s.width);
  for (int64_t p = first_panel; p < last_panel; ++p) {
    const Panel panel = panel_of(s.width, p);
    const int64_t end = panel.column + panel.columns;
    if (layer == s.depth - 1)  // the gradient of the step's output; that of later steps is already there
      for (int64_t r = first; r < last; ++r) {
        const bool goes_on = step + 1 < s.steps && r < s.counts[step + 1];
        const float *gy = s.gy + (s.offsets[step] + r) * s.width;
        float *g = s.g + r * stride;
        for (int64_t c = panel.column; c < end; c += lanes) {
          const Vector own = load_row(gy, c, s.width);
          store(g + c, goes_on ? load(g + c) + own : own);
        }
      }
    if (is_closed(s, layer)) continue;
    split_of[s.parts == 3][s.activation](s, first_step, step, layer, first, last, panel);
    if (s.seen == nullptr) continue;
    for (int64_t r = first; r < last; ++r)
      for (int64_t c = panel.column; c < end; c += lanes)
        store(seen(s, first_step, step, layer) + r * stride + c,
              load(state(s, step, layer) + r * stride + c) * load_row(s.mask + r * s.width, c, s.width));
  }
}

// The product of gz, all parts of it, with a panel of a packed matrix.
INLINE int64_t parts_times(const Recurrent &s, const float *gz, const float *matrix, int64_t columns, Factors *summands) {
  for (int64_t part = 0; part < s.parts; ++part)
    summands[part] = {gz + part * padded(s.width), matrix + part * s.width * columns, gz_stride(s), columns, s.width};
  return s.parts;
}

void carry_back(const Recurrent &s, int64_t first_step, int64_t step, int64_t layer, int64_t first, int64_t last, int64_t first_panel,
                int64_t last_panel) {
  last = smaller(last, s.counts[step]);
  if (is_closed(s, layer)) return;
  alignas(64) float sums[block * most_columns];
  for (int64_t row = first; row < last; row += block) {
    const int64_t end = smaller(row + block, last);
    for (int64_t p = first_panel; p < last_panel; ++p) {
      const Panel panel = panel_of(s.width, p);
      Factors summands[most_parts];
      const float *matrix = matrix_of(s, true, layer) + s.parts * s.width * panel.column;
      multiply(summands, parts_times(s, gz_of(s, first_step, step, layer), matrix, panel.columns, summands), row, end, panel.columns, sums);
      for (int64_t r = row; r < end; ++r)
        for (int64_t c = 0; c < panel.columns; c += lanes) {
          float *g = s.g + r * padded(s.width) + panel.column + c;
          const Vector sum = load(sums + (r - row) * most_columns + c);
          store(g, load(g) + (s.mask == nullptr ? sum : sum * load_row(s.mask + r * s.width, panel.column + c, s.width)));
        }
    }
  }
}

void end(const Recurrent &s, int64_t first, int64_t last) {
  for (int64_t r = first; r < last; ++r)
    __builtin_memcpy(s.gstart + r * s.width, s.g + r * padded(s.width), sizeof(float) * s.width);
}

void backward_inputs(const Recurrent &s, int64_t first_step, int64_t first, int64_t last) {
  float *gx = s.gx + s.offsets[first_step] * s.inputs;
  if (is_closed(s, 0)) {
    __builtin_memset(gx + first * s.inputs, 0, sizeof(float) * (last - first) * s.inputs);
    return;
  }
  alignas(64) float sums[block * most_columns];
  for (int64_t row = first; row < last; row += block) {
    const int64_t end = smaller(row + block, last);
    for (int64_t p = 0; p < panels_of(s.inputs); ++p) {
      const Panel panel = panel_of(s.inputs, p);
      Factors summands[most_parts];
      const float *matrix = matrix_of(s, true, s.depth) + s.parts * s.width * panel.column;
      multiply(summands, parts_times(s, s.gz, matrix, panel.columns, summands), row, end, panel.columns, sums);
      for (int64_t r = row; r < end; ++r)
        for (int64_t c = 0; c < panel.columns; c += lanes)
          store_row(gx + r * s.inputs, panel.column + c, s.inputs, load(sums + (r - row) * most_columns + c));
    }
  }
}

// ----- Backward: weights

constexpr int64_t together = 128;  // rows whose factors are copied side by side, so that they stay in the cache

// Some columns of rows that lie `stride` apart; what is missing in the last vector is 0.
void side_by_side(const float *from, int64_t stride, int64_t rows, int64_t columns, float *to) {
  const int64_t last = (columns - 1) / lanes * lanes;
  for (int64_t r = 0; r < rows; ++r, from += stride, to += most_columns) {
    for (int64_t c = 0; c < last; c += lanes) store(to + c, load(from + c));
    store(to + last, load_row(from, last, columns));
  }
}

INLINE void put(float *to, const float *sums, int64_t count, bool add) {
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes) store(to + c, add ? load(to + c) + load(sums + c) : load(sums + c));
  for (; c < count; ++c) to[c] = add ? to[c] + sums[c] : sums[c];
}

void backward_weights(const Recurrent &s, int64_t first_step, int64_t last_step, int64_t layer, int64_t first, int64_t last) {
  const bool is_input = layer == s.depth, is_first = last_step == s.steps;
  const int64_t source = is_input ? 0 : layer, columns = is_input ? s.inputs : s.width, stride = is_input ? s.inputs : padded(s.width);
  if (columns == 0) return;  // no inputs: their weights have no memory
  const int64_t rows = s.offsets[last_step - 1] + s.counts[last_step - 1] - s.offsets[first_step];
  float *gw = is_input ? s.giw : s.gw + layer * s.parts * s.width * s.width;
  float *gb = is_input ? nullptr : s.gb + layer * s.parts * s.width;
  if (is_closed(s, source)) {
    if (is_first) {
      __builtin_memset(gw + first * columns, 0, sizeof(float) * (last - first) * columns);
      if (gb != nullptr) __builtin_memset(gb + first, 0, sizeof(float) * (last - first));
    }
    return;
  }
  const float *factor = is_input ? s.x + s.offsets[first_step] * s.inputs
                                 : s.seen != nullptr ? seen(s, first_step, first_step, layer) : state(s, first_step, layer);
  const float *gz = gz_of(s, first_step, first_step, source);
  alignas(64) float copied[together * most_columns], sums[most_rows * most_columns];
  for (int64_t row = 0; row < rows; row += together) {
    const int64_t depth = smaller(together, rows - row);
    const bool add = !is_first || row > 0;
    for (int64_t p = 0; p < panels_of(columns); ++p) {
      const Panel panel = panel_of(columns, p);
      const int64_t real = smaller(panel.columns, columns - panel.column);
      side_by_side(factor + row * stride + panel.column, stride, depth, real, copied);
      for (int64_t i = first; i < last;) {
        const int64_t part = i / s.width, height = smaller(most_rows, smaller(last, (part + 1) * s.width) - i);
        const Factors summand = {gz + row * gz_stride(s) + i + part * (padded(s.width) - s.width), copied, gz_stride(s), most_columns, depth};
        products_for<true>(height, panel.columns / lanes)(&summand, 1, sums, most_columns);
        for (int64_t r = 0; r < height; ++r) put(gw + (i + r) * columns + panel.column, sums + r * most_columns, real, add);
        i += height;
      }
    }
    if (gb == nullptr) continue;
    for (int64_t i = first; i < last;) {
      const int64_t part = i / s.width, height = smaller(lanes, smaller(last, (part + 1) * s.width) - i);
      const float *at = gz + row * gz_stride(s) + i + part * (padded(s.width) - s.width);
      Vector sum = {};
      for (int64_t r = 0; r < depth; ++r) sum += load(at + r * gz_stride(s));  // rows end in a spare vector
      float lane[lanes];
      store(lane, sum);
      for (int64_t k = 0; k < height; ++k) gb[i + k] = add ? gb[i + k] + lane[k] : lane[k];
      i += height;
    }
  }
}

}  // namespace

extern const RecurrentKernels HIGHWAYNET_TABLE = {lanes,     block,      panels_of, packed_size,     pack,            begin, forward,
                                                  gradients, carry_back, end,       backward_inputs, backward_weights};

}  // namespace highwaynet
