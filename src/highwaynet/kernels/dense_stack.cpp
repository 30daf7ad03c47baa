// A stack of dense layers in one pass: a tile of rows passes through all layers while it stays in the cache, and pre-activations are used
// before they are written to memory.
//
// The build compiles this file once for each instruction set: HIGHWAYNET_LANES floats make a vector, HIGHWAYNET_TABLE names the result.
// Each number comes from the same operations in the same order wherever it lies in a tile, so that bits depend neither on how the work is
// cut nor on the number of threads.

#include "dense_stack.h"

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

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t pieces(int64_t count, int64_t size) { return (count + size - 1) / size; }

// Where the arrays of a layer begin.
INLINE int64_t parts_of(const DenseStack &s) { return s.kind == highway ? 2 : 1; }
INLINE int64_t layer_size(const DenseStack &s) { return pieces(s.rows, lanes) * lanes * s.width; }
INLINE float *state(const DenseStack &s, int64_t layer) { return s.states + layer * layer_size(s); }
INLINE float *kept(const DenseStack &s, float *array, int64_t layer) {
  return array == nullptr ? nullptr : array + (s.keep ? layer : 0) * layer_size(s);
}
INLINE float *gz_of(const DenseStack &s, int64_t layer) { return s.gz + layer % s.group * parts_of(s) * s.stride; }
INLINE const float *weight_of(const DenseStack &s, int64_t layer) { return s.weight + layer * parts_of(s) * s.width * s.width; }
INLINE bool is_closed(const DenseStack &s, int64_t layer) { return s.closed != nullptr && s.closed[layer] != 0; }

// ----- Between rows and blocks

typedef float Four __attribute__((vector_size(16)));

#ifdef __clang__
#define SHUFFLED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int Order __attribute__((vector_size(16)));
#define SHUFFLED(a, b, ...) __builtin_shuffle(a, b, Order{__VA_ARGS__})
#endif

INLINE Four load_four(const float *from) {
  Four v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

// to[column][row] = from[row][column]; a stride is from one row to the next.
void transpose(const float *from, int64_t from_stride, float *to, int64_t to_stride, int64_t rows, int64_t columns) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const float *in = from + row * from_stride;
    float *out = to + row;
    int64_t column = 0;
    for (; column + 4 <= columns; column += 4, in += 4, out += 4 * to_stride) {
      const Four a = load_four(in), b = load_four(in + from_stride);
      const Four c = load_four(in + 2 * from_stride), d = load_four(in + 3 * from_stride);
      const Four ab = SHUFFLED(a, b, 0, 4, 1, 5), cd = SHUFFLED(c, d, 0, 4, 1, 5);
      const Four ab_rest = SHUFFLED(a, b, 2, 6, 3, 7), cd_rest = SHUFFLED(c, d, 2, 6, 3, 7);
      const Four turned[4] = {SHUFFLED(ab, cd, 0, 1, 4, 5), SHUFFLED(ab, cd, 2, 3, 6, 7),
                              SHUFFLED(ab_rest, cd_rest, 0, 1, 4, 5),
                              SHUFFLED(ab_rest, cd_rest, 2, 3, 6, 7)};
      for (int i = 0; i < 4; ++i) __builtin_memcpy(out + i * to_stride, &turned[i], sizeof(Four));
    }
    for (; column < columns; ++column, ++in, out += to_stride)
      for (int i = 0; i < 4; ++i) out[i] = in[i * from_stride];
  }
  for (; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) to[column * to_stride + row] = from[row * from_stride + column];
}

INLINE int64_t rows_in(const DenseStack &s, int64_t block) { return smaller(lanes, s.rows - block * lanes); }

void into_blocks(const DenseStack &s, const float *rows, float *blocks, int64_t first, int64_t last) {
  for (int64_t b = first; b < last; ++b) {
    float *block = blocks + b * lanes * s.width;
    if (rows_in(s, b) < lanes) __builtin_memset(block, 0, sizeof(float) * lanes * s.width);
    transpose(rows + b * lanes * s.width, s.width, block, lanes, rows_in(s, b), s.width);
  }
}

void out_of_blocks(const DenseStack &s, const float *blocks, float *rows, int64_t first, int64_t last) {
  for (int64_t b = first; b < last; ++b)
    transpose(blocks + b * lanes * s.width, lanes, rows + b * lanes * s.width, s.width, s.width, rows_in(s, b));
}

// ----- Weights times blocks

// sums[part][r][v] = Σ_k w(part, r, k) · vector k of block v. Forward, w is a part's row r and column k; backward, it is the transpose's.
template <bool transposed, int parts, int rows, int vectors>
void products(const float *weight, int64_t width, const float *blocks, int64_t block, int64_t depth, Vector *sums) {
  Vector sum[parts][rows][vectors] = {};
  for (int64_t k = 0; k < depth; ++k) {
    Vector factor[vectors];
    for (int v = 0; v < vectors; ++v) factor[v] = load(blocks + v * block + k * lanes);
#pragma GCC unroll 2
    for (int part = 0; part < parts; ++part)
#pragma GCC unroll 6
      for (int r = 0; r < rows; ++r) {
        const Vector w = all(transposed ? weight[k * width + r] : weight[(part * width + r) * width + k]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sum[part][r][v] += w * factor[v];
      }
  }
  // Not by memcpy: GCC would keep the sums in memory, and clear them there at each call.
  for (int part = 0; part < parts; ++part)
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors; ++v) sums[(part * rows + r) * vectors + v] = sum[part][r][v];
}

using Products = void (*)(const float *, int64_t, const float *, int64_t, int64_t, Vector *);

template <bool transposed, int parts, int rows = most_rows / parts, int vectors = most_vectors>
Products products_for(int64_t wanted_rows, int64_t wanted_vectors) {
  if constexpr (rows > 1)
    if (rows != wanted_rows) return products_for<transposed, parts, rows - 1, vectors>(wanted_rows, wanted_vectors);
  if constexpr (vectors > 1)
    if (vectors != wanted_vectors) return products_for<transposed, parts, rows, vectors - 1>(wanted_rows, wanted_vectors);
  return products<transposed, parts, rows, vectors>;
}

// Transposed sums are computed in steps of at most this many terms, whose weights are read again and again while they stay in the cache.
constexpr int64_t most_terms = 512;

// The rows of wide layers lie pages apart, often in the same places of the cache: some columns at a time are copied, as they will be read.
constexpr int64_t packed_width = 512, packed_columns = 8 * most_rows;

void pack(const float *weight, int64_t width, int64_t columns, int64_t depth, float *packed) {
  for (int64_t k = 0; k < depth; ++k, weight += width, packed += most_rows) {
    int64_t column = 0;
    for (; column + most_rows <= columns; column += most_rows)
      __builtin_memcpy(packed + column * depth, weight + column, sizeof(float) * most_rows);
    for (int64_t r = 0; column + r < columns; ++r) packed[column * depth + r] = weight[column + r];
  }
}

// The products of a layer's weights with the blocks first … last−1, tile by tile; `weights` are those of the sum's first term.
// finish(feature, at, sum, next_part) takes the sum of one feature in one block, whose place in a layer's array is `at`; the second part's
// sum is sum[next_part]. With `packed`, transposed weights are copied there.
template <bool transposed, int parts, typename Finish>
INLINE void multiply(const DenseStack &s, const float *weights, const float *blocks, int64_t block, int64_t depth, int64_t first,
                     int64_t last, float *packed, Finish finish) {
  const int64_t tiles = pieces(last - first, most_vectors), even = (last - first) / tiles, larger = (last - first) % tiles;
  Vector sums[most_rows * most_vectors];
  for (int64_t row = 0; row < s.width; row += most_rows / parts) {
    const int64_t rows = smaller(most_rows / parts, s.width - row), stride = packed != nullptr ? most_rows : s.width;
    const float *weight = weights + row * (transposed ? 1 : s.width);
    if (packed != nullptr) {
      if (row % packed_columns == 0) pack(weight, s.width, smaller(packed_columns, s.width - row), depth, packed);
      weight = packed + row % packed_columns * depth;
    }
    for (int64_t tile = 0, b = first; tile < tiles; ++tile) {
      const int64_t vectors = even + (tile < larger);  // not whole tiles and a rest: a tile of one vector is slow
      products_for<transposed, parts>(rows, vectors)(weight, stride, blocks + b * block, block, depth, sums);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t v = 0; v < vectors; ++v)
          finish(row + r, (b + v) * lanes * s.width + (row + r) * lanes, sums + r * vectors + v, rows * vectors);
      b += vectors;
    }
  }
}

// ----- Forward

template <Kind kind, Activation activation>
void layer_forward(const DenseStack &s, int64_t layer, const float *x, float *y, int64_t first, int64_t last) {
  const float *bias = s.bias + layer * parts_of(s) * s.width;
  float *transforms = kept(s, s.transforms, layer), *gates = kept(s, s.gates, layer);
  const auto finish = [&](int64_t feature, int64_t at, const Vector *sum, int64_t next_part) {
    const Vector h = state_of<activation>(sum[0] + bias[feature]).value;
    if constexpr (kind == plain) {
      store(y + at, h);
    } else if constexpr (kind == residual) {
      store(y + at, load(x + at) + h);
    } else {
      const Vector t = sum[next_part] + bias[s.width + feature], from = load(x + at);
      const Sigmoid gate = sigmoid_of(t);
      store(y + at, gate.weight * (h - from) + (t >= 0.0f ? h : from));  // as torch.lerp, from the nearer end
      if (gates != nullptr) store(gates + at, gate.value);
    }
    if (kind != plain && transforms != nullptr) store(transforms + at, h);
  };
  multiply<false, kind == highway ? 2 : 1>(s, weight_of(s, layer), x, lanes * s.width, s.width, first, last, nullptr, finish);
}

// T and H of a layer with output y for the caller; those of a closed layer are 0.
void give_gates(const DenseStack &s, int64_t layer, const float *y, int64_t first, int64_t last) {
  const float *from[2] = {kept(s, s.gates, layer), s.kind == plain ? y : kept(s, s.transforms, layer)};
  float *to[2] = {s.t, s.h};
  for (int i = 0; i < 2; ++i) {
    if (to[i] == nullptr) continue;
    float *rows = to[i] + layer * s.rows * s.width;
    const int64_t begin = first * lanes * s.width, end = smaller(last * lanes, s.rows) * s.width;
    if (is_closed(s, layer)) {
      __builtin_memset(rows + begin, 0, sizeof(float) * (end - begin));
    } else {
      out_of_blocks(s, from[i], rows, first, last);
    }
  }
}

template <Kind kind, Activation activation>
void forward(const DenseStack &s, int64_t first, int64_t last) {
  const int64_t begin = first * lanes * s.width, size = (last - first) * lanes * s.width;
  into_blocks(s, s.x, state(s, 0), first, last);
  int64_t at = 0;  // which state is the input of the next layer
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const int64_t next = s.keep ? layer + 1 : 1 - at;
    if (!is_closed(s, layer)) {
      layer_forward<kind, activation>(s, layer, state(s, at), state(s, next), first, last);
      at = next;
    } else if (s.keep) {
      __builtin_memcpy(state(s, next) + begin, state(s, at) + begin, sizeof(float) * size);
      at = next;
    }
    give_gates(s, layer, state(s, at), first, last);
  }
  out_of_blocks(s, state(s, at), s.y, first, last);
}

// ----- Backward: rows

// Turns the gradient g after a layer into those of its pre-activations, and replaces g by the part that goes directly to x.
template <Kind kind, Activation activation>
void layer_gradients(const DenseStack &s, int64_t layer, int64_t first, int64_t last) {
  const int64_t block = lanes * s.width;
  for (int64_t b = first; b < last; ++b) {
    const float *x = state(s, layer) + b * block, *t = kind == highway ? kept(s, s.gates, layer) + b * block : nullptr;
    const float *h = (kind == plain ? state(s, layer + 1) : kept(s, s.transforms, layer)) + b * block;
    float *g = s.g + (b - s.start) * block, *gh = gz_of(s, layer) + (b - s.start) * parts_of(s) * block, *gt = gh + block;
    for (int64_t i = 0; i < block; i += lanes) {
      const Vector gy = load(g + i), state = load(h + i);
      if constexpr (kind == highway) {
        const Vector gate = load(t + i), rest = 1.0f - gate;
        store(gh + i, gradient_of<activation>(state, gate * gy));
        store(gt + i, (state - load(x + i)) * gy * (rest * gate));
        store(g + i, rest * gy);
      } else {
        store(gh + i, gradient_of<activation>(state, gy));
        if (kind == plain) store(g + i, Vector{});
      }
    }
  }
}

// Adds the gradients that reach x through a layer's pre-activations to g, in steps of most_terms.
INLINE void add_products(const DenseStack &s, int64_t layer, const float *gz, float *g, int64_t first, int64_t last, float *packed) {
  const int64_t block = parts_of(s) * lanes * s.width, depth = parts_of(s) * s.width, steps = pieces(depth, most_terms);
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t from = depth * step / steps, to = depth * (step + 1) / steps;
    multiply<true, 1>(s, weight_of(s, layer) + from * s.width, gz + from * lanes, block, to - from, first, last, packed,
                      [&](int64_t, int64_t at, const Vector *sum, int64_t) { store(g + at, load(g + at) + sum[0]); });
  }
}

__attribute__((noinline)) void add_packed_products(const DenseStack &s, int64_t layer, const float *gz, float *g, int64_t first,
                                                   int64_t last) {
  alignas(64) float packed[most_terms * packed_columns];
  add_products(s, layer, gz, g, first, last, packed);
}

template <Kind kind, Activation activation>
void backward_rows(const DenseStack &s, int64_t first, int64_t last, int64_t first_layer, int64_t last_layer) {
  const int64_t block = lanes * s.width;
  const bool packs = s.width >= packed_width && (last - first) * lanes >= 64;  // for few rows, copying takes too long
  float *const g = s.g - s.start * block;
  if (last_layer == s.layers) into_blocks(s, s.gy, g, first, last);
  for (int64_t layer = last_layer - 1; layer >= first_layer; --layer) {
    if (is_closed(s, layer)) continue;
    layer_gradients<kind, activation>(s, layer, first, last);
    const float *gz = gz_of(s, layer) - s.start * parts_of(s) * block;
    if (packs) {
      add_packed_products(s, layer, gz, g, first, last);
    } else {
      add_products(s, layer, gz, g, first, last, nullptr);
    }
  }
  if (first_layer == 0) out_of_blocks(s, g, s.gx, first, last);
}

// ----- Backward: weights

// The batch is summed up in chunks: a chunk's x, turned so that a vector holds features of one row, stays in the cache meanwhile.
constexpr int64_t chunk = lanes > 8 ? 128 : 256;
constexpr int64_t most_columns = most_vectors * lanes;

typedef float Half __attribute__((vector_size(2 * lanes)));

INLINE Half half_of(Vector v) {
  Half h;
  __builtin_memcpy(&h, &v, sizeof h);
  return h;
}

// sums[r][column] (+)= Σ_k gz(r, k) · x(k, column) over the rows of a chunk, with gz in blocks; a stride is from one row of sums to the next.
// With `half`, the last vector is half as long: a width of 50 needs 3½ vectors of 16 lanes.
template <int rows, int vectors, bool half>
void outer_products(const float *gz, int64_t block, const float *x, int64_t depth, float *sums, int64_t stride, bool add) {
  constexpr int whole = vectors - half;
  Vector sum[rows][vectors] = {};
  Half half_sum[rows] = {};
  const auto add_row = [&](int64_t k) __attribute__((always_inline)) {
    Vector factor[vectors];
    Half half_factor;
    for (int v = 0; v < whole; ++v) factor[v] = load(x + v * lanes);
    if (half) __builtin_memcpy(&half_factor, x + whole * lanes, sizeof half_factor);
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
      const Vector g = all(gz[r * lanes + k]);
#pragma GCC unroll 4
      for (int v = 0; v < whole; ++v) sum[r][v] += g * factor[v];
      if (half) half_sum[r] += half_of(g) * half_factor;
    }
    x += most_columns;
  };
  for (; depth >= lanes; depth -= lanes, gz += block)
    for (int64_t k = 0; k < lanes; ++k) add_row(k);
  for (int64_t k = 0; k < depth; ++k) add_row(k);
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r, sums += stride) {
    for (int v = 0; v < whole; ++v) store(sums + v * lanes, add ? load(sums + v * lanes) + sum[r][v] : sum[r][v]);
    if (half) __builtin_memcpy(sums + whole * lanes, &half_sum[r], sizeof(Half));
  }
}

using OuterProducts = void (*)(const float *, int64_t, const float *, int64_t, float *, int64_t, bool);

template <int rows = most_rows, int vectors = most_vectors>
OuterProducts outer_products_for(int64_t wanted_rows, int64_t wanted_vectors, bool half) {
  if constexpr (rows > 1)
    if (rows != wanted_rows) return outer_products_for<rows - 1, vectors>(wanted_rows, wanted_vectors, half);
  if constexpr (vectors > 1)
    if (vectors != wanted_vectors) return outer_products_for<rows, vectors - 1>(wanted_rows, wanted_vectors, half);
#ifdef __AVX512F__
  if (half) return outer_products<rows, vectors, true>;
#endif
  return outer_products<rows, vectors, false>;
}

// Some columns and rows of a layer's x, turned. The rest of the last vector is 0, whatever was there.
void turned(const DenseStack &s, int64_t layer, int64_t row, int64_t rows, int64_t column, int64_t columns, float *to) {
  const int64_t last_vector = (columns - 1) / lanes * lanes;
  for (int64_t r = 0; r < rows; ++r) store(to + r * most_columns + last_vector, Vector{});
  const float *from = state(s, layer) + row * s.width + column * lanes;
  for (int64_t r = 0; r < rows; r += lanes, from += lanes * s.width)
    transpose(from, lanes, to + r * most_columns, most_columns, columns, smaller(lanes, rows - r));
}

INLINE void put(float *to, const float *sums, int64_t count, bool add) {
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes) store(to + c, add ? load(to + c) + load(sums + c) : load(sums + c));
  for (; c < count; ++c) to[c] = add ? to[c] + sums[c] : sums[c];
}

// Σ over the rows of some blocks of one pre-activation's gradients, chunk by chunk as well, so that errors do not grow with the batch. `real`
// has all bits set in those lanes of the last block that hold rows.
float total(const float *gz, int64_t block, int64_t blocks, Integers real) {
  Vector sum = {};
  for (int64_t first = 0; first < blocks; first += chunk / lanes) {
    Vector part = {};
    for (int64_t b = first; b < smaller(first + chunk / lanes, blocks - 1); ++b) part += load(gz + b * block);
    sum += part;
  }
  sum += (Vector)((Integers)load(gz + (blocks - 1) * block) & real);
  float lane[lanes];
  store(lane, sum);
  for (int64_t half = lanes / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

// The panels of columns of gw that tasks are made of: at most most_vectors each, all of about the same width.
int64_t panels_of(const DenseStack &s) { return pieces(pieces(s.width, lanes), most_vectors); }

void backward_weights(const DenseStack &s, int64_t layer, int64_t panel, int64_t first, int64_t last) {
  const int64_t height = parts_of(s) * s.width, vectors = pieces(s.width, lanes), panels = panels_of(s);
  const int64_t column = vectors * panel / panels * lanes, panel_vectors = vectors * (panel + 1) / panels - vectors * panel / panels;
  const int64_t columns = smaller(panel_vectors * lanes, s.width - column);
  float *gw = s.gw + layer * height * s.width + column, *gb = s.gb + layer * height;
  if (is_closed(s, layer) || s.rows == 0) {
    for (int64_t i = first; i < last; ++i) __builtin_memset(gw + i * s.width, 0, sizeof(float) * columns);
    if (panel == 0) __builtin_memset(gb + first, 0, sizeof(float) * (last - first));
    return;
  }
  const float *gz = gz_of(s, layer);
  const int64_t begin = s.start * lanes, end = smaller(s.stop * lanes, s.rows);
  const bool ragged = columns % lanes != 0, half = panel_vectors * lanes - columns >= lanes / 2;
  alignas(64) float x[chunk * most_columns], sums[most_rows * most_columns];
  for (int64_t row = begin; row < end; row += chunk) {
    const int64_t depth = smaller(chunk, end - row);
    turned(s, layer, row, depth, column, columns, x);
    for (int64_t i = first; i < last; i += most_rows) {
      const int64_t rows = smaller(most_rows, last - i);
      const OuterProducts products = outer_products_for(rows, panel_vectors, half);
      const float *from = gz + (row - begin) * height + i * lanes;
      if (ragged) {  // nothing may be written past the last column
        products(from, lanes * height, x, depth, sums, most_columns, false);
        for (int64_t r = 0; r < rows; ++r) put(gw + (i + r) * s.width, sums + r * most_columns, columns, row > 0);
      } else {
        products(from, lanes * height, x, depth, gw + i * s.width, s.width, row > 0);
      }
    }
  }
  if (panel > 0) return;
  Integers real;
  for (int64_t i = 0; i < lanes; ++i) real[i] = (end - 1) % lanes >= i ? ~0u : 0u;
  for (int64_t i = first; i < last; ++i) {
    const float sum = total(gz + i * lanes, lanes * height, s.stop - s.start, real);
    gb[i] = begin > 0 ? gb[i] + sum : sum;
  }
}

// ----- Which kind and activation

struct Passes {
  void (*forward)(const DenseStack &, int64_t, int64_t);
  void (*backward_rows)(const DenseStack &, int64_t, int64_t, int64_t, int64_t);
};

template <Kind kind, Activation activation>
constexpr Passes passes = {forward<kind, activation>, backward_rows<kind, activation>};

constexpr Passes passes_of[kinds][activations] = {
    {passes<highway, relu>, passes<highway, tanh>, passes<highway, sigmoid>, passes<highway, identity>},
    {passes<plain, relu>, passes<plain, tanh>, passes<plain, sigmoid>, passes<plain, identity>},
    {passes<residual, relu>, passes<residual, tanh>, passes<residual, sigmoid>, passes<residual, identity>}};

void any_forward(const DenseStack &s, int64_t first, int64_t last) { passes_of[s.kind][s.activation].forward(s, first, last); }

void any_backward_rows(const DenseStack &s, int64_t first, int64_t last, int64_t first_layer, int64_t last_layer) {
  passes_of[s.kind][s.activation].backward_rows(s, first, last, first_layer, last_layer);
}

}  // namespace

extern const DenseStackKernels HIGHWAYNET_TABLE = {lanes, 64 / lanes, any_forward, any_backward_rows, panels_of, backward_weights};

}  // namespace highwaynet
