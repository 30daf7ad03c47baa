// Winograd's algorithm F(4×4, 3×3): a tile of 4×4 outputs takes 36 multiplications for each pair of channels instead of 144.
//
//   y = Aᵀ [(G w Gᵀ) ⊙ (Bᵀ x B)] A      x: the 6×6 inputs of a tile, w: 3×3 weights; ⊙ and the sum over channels are 36 matrix products
//   gw = Gᵀ [Σ (Bᵀ x B) ⊙ (A gy Aᵀ)] G   the adjoint of the same formula, summed over tiles
//
// with the points 0, ±1, ±2 and ∞. The gradient of x is a convolution of gy with the weights turned by half a turn. A block of tiles is
// transformed, multiplied and transformed back while it is in the cache. What a tile becomes depends on nothing but its inputs.
//
// Channels are computed a vector at a time. If their number is no multiple of the vector's, the last vector overlaps the one before, and what
// belongs to both is computed twice. Scratch memory has a place of its own for each vector of output channels.
//
// Maps may be larger than the cache, and are read in an order that processors do not foresee: while a tile is transformed, the pixels of the
// next one are fetched.

#include "convolution.h"

#include "vector_math.h"

namespace highwaynet {
namespace {

constexpr int points = 36;
constexpr int64_t pad = 16;                  // numbers between two points, so that they do not compete for the same lines of the cache
constexpr int tile_rows = lanes > 8 ? 12 : 6;   // of tiles in a product, and of channels in one of the gradient, so that sums stay in registers
constexpr int channel_rows = lanes > 8 ? 8 : 4;

int64_t block_of(int64_t in, int64_t out) { return in + out <= 96 ? 48 : 24; }

int64_t vectors(int64_t channels) { return (channels + lanes - 1) / lanes; }
int64_t padded(int64_t channels) { return vectors(channels) * lanes; }
int64_t start(int64_t vector, int64_t channels) { return vector * lanes + lanes <= channels ? vector * lanes : channels - lanes; }

int64_t prepared_stride(int64_t in, int64_t out) { return in * padded(out) + pad; }
int64_t prepared_of(int64_t in, int64_t out) { return points * prepared_stride(in, out); }

int64_t scratch_of(int64_t in, int64_t out) { return points * (block_of(in, out) * (padded(in) + padded(out)) + 2 * pad); }

// ----- The transformations of six, four or three numbers

// Bᵀ d
INLINE void to_points(const Vector *d, int64_t step, Vector *to, int64_t to_step) {
  const Vector d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
  const Vector even = d4 - 4.0f * d2, odd = d3 - 4.0f * d1, near = d4 - d2, twice = 2.0f * (d3 - d1);
  to[0] = 4.0f * d0 - 5.0f * d2 + d4;
  to[to_step] = even + odd;
  to[2 * to_step] = even - odd;
  to[3 * to_step] = near + twice;
  to[4 * to_step] = near - twice;
  to[5 * to_step] = 4.0f * d1 - 5.0f * d3 + d5;
}

// Aᵀ m
INLINE void from_points(const Vector *m, int64_t step, Vector *to, int64_t to_step) {
  const Vector m1 = m[step], m2 = m[2 * step], m3 = m[3 * step], m4 = m[4 * step];
  const Vector near = m1 + m2, near_odd = m1 - m2, far = m3 + m4, far_odd = m3 - m4;
  to[0] = m[0] + near + far;
  to[to_step] = near_odd + 2.0f * far_odd;
  to[2 * to_step] = near + 4.0f * far;
  to[3 * to_step] = near_odd + 8.0f * far_odd + m[5 * step];
}

// A y
INLINE void outputs_to_points(const Vector *y, int64_t step, Vector *to, int64_t to_step) {
  const Vector y0 = y[0], y1 = y[step], y2 = y[2 * step], y3 = y[3 * step];
  const Vector even = y0 + y2, odd = y1 + y3, far = y0 + 4.0f * y2, far_odd = 2.0f * y1 + 8.0f * y3;
  to[0] = y0;
  to[to_step] = even + odd;
  to[2 * to_step] = even - odd;
  to[3 * to_step] = far + far_odd;
  to[4 * to_step] = far - far_odd;
  to[5 * to_step] = y3;
}

// G w
INLINE void weights_to_points(const Vector *w, int64_t step, Vector *to, int64_t to_step) {
  const Vector w0 = w[0], w1 = w[step], w2 = w[2 * step];
  const Vector near = (w0 + w2) * (-1.0f / 6), near_odd = w1 * (1.0f / 6), far = w0 * (1.0f / 24) + w2 * (1.0f / 6), far_odd = w1 * (1.0f / 12);
  to[0] = w0 * 0.25f;
  to[to_step] = near - near_odd;
  to[2 * to_step] = near + near_odd;
  to[3 * to_step] = far + far_odd;
  to[4 * to_step] = far - far_odd;
  to[5 * to_step] = w2;
}

// Gᵀ u
INLINE void weights_from_points(const Vector *u, int64_t step, Vector *to, int64_t to_step) {
  const Vector near = (u[step] + u[2 * step]) * (-1.0f / 6), near_odd = (u[2 * step] - u[step]) * (1.0f / 6);
  const Vector far = u[3 * step] + u[4 * step], far_odd = u[3 * step] - u[4 * step];
  to[0] = u[0] * 0.25f + near + far * (1.0f / 24);
  to[to_step] = near_odd + far_odd * (1.0f / 12);
  to[2 * to_step] = near + far * (1.0f / 6) + u[5 * step];
}

// ----- Tiles

struct Tile {
  Tile(const Convolution &c, int64_t number) {
    const int64_t across = (c.width + 3) / 4, down = (c.height + 3) / 4;
    sample = number / (across * down);
    row = number / across % down * 4;
    column = number % across * 4;
    rows = c.height - row < 4 ? c.height - row : 4;
    columns = c.width - column < 4 ? c.width - column : 4;
    inside = row > 0 && column > 0 && row + 5 <= c.height && column + 5 <= c.width;
  }
  // Where its first output begins in maps with this many channels.
  int64_t place(const Convolution &c, int64_t channels) const { return ((sample * c.height + row) * c.width + column) * channels; }

  int64_t sample, row, column, rows, columns;  // of its first output; how many of its outputs are in the map
  bool inside;                                 // whether all its inputs are in the map
};

// Begins to fetch one channel of `rows` × `columns` pixels, and with it those in the same line of the cache. Outside of the maps this has no
// effect, and is no error.
template <int rows, int columns, bool to_write>
INLINE void fetch(const Convolution &c, const float *maps, int64_t first, int64_t channels) {
  const uintptr_t corner = uintptr_t(maps) + sizeof(float) * uintptr_t(first);
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j)
      __builtin_prefetch((const void *)(corner + sizeof(float) * uintptr_t((i * c.width + j) * channels)), to_write);
}

// Inputs of a tile at some channels, zeros around the map, to the points of one row of a block.
template <bool inside>
INLINE void inputs_to_points(const Convolution &c, const Tile &tile, int64_t channel, float *to, int64_t stride) {
  const float *const first = c.x + tile.place(c, c.in) - (c.width + 1) * c.in + channel;
  Vector columns[points], rows[6];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    Vector d[6];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      const bool there = inside || (uint64_t(tile.row - 1 + i) < uint64_t(c.height) && uint64_t(tile.column - 1 + j) < uint64_t(c.width));
      d[i] = there ? load(first + (i * c.width + j) * c.in) : Vector{};
    }
    to_points(d, 1, columns + j, 6);
  }
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    to_points(columns + 6 * i, 1, rows, 1);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) store(to + (6 * i + j) * stride, rows[j]);
  }
}

// The inputs of the tiles first … last−1 at all points: (points, tiles, in) in memory, with `stride` numbers from a point to the next.
INLINE void transform_inputs(const Convolution &c, int64_t first, int64_t last, float *to, int64_t stride) {
  Tile tile(c, first);
  for (int64_t number = first; number < last; ++number) {
    const Tile next(c, number + 1);
    const int64_t new_pixels = next.place(c, c.in) - (c.width - 1) * c.in;  // this tile has the first two columns, if it is in the same row
    float *const row = to + (number - first) * c.in;
    for (int64_t vector = 0; vector < vectors(c.in); ++vector) {
      const int64_t channel = start(vector, c.in);
      fetch<6, 4, false>(c, c.x, new_pixels + channel, c.in);
      if (tile.inside) {
        inputs_to_points<true>(c, tile, channel, row + channel, stride);
      } else {
        inputs_to_points<false>(c, tile, channel, row + channel, stride);
      }
    }
    tile = next;
  }
}

INLINE void points_to_outputs(const Convolution &c, const Tile &tile, int64_t channel, const float *from, int64_t stride) {
  float *const first = c.y + tile.place(c, c.out) + channel;
  const Vector bias = c.bias == nullptr ? Vector{} : load(c.bias + channel);
  Vector columns[24];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    Vector m[6];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) m[i] = load(from + (6 * i + j) * stride);
    from_points(m, 1, columns + j, 6);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    Vector y[4];
    from_points(columns + 6 * i, 1, y, 1);
    if (i < tile.rows) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j)
        if (j < tile.columns) store(first + (i * c.width + j) * c.out, y[j] + bias);
    }
  }
}

// The gradients of a tile's outputs at some channels to the points of one row of a block; their sum is added to `sum`.
INLINE void gradients_to_points(const Convolution &c, const Tile &tile, int64_t channel, float *to, int64_t stride, float *sum) {
  const float *const first = c.gy + tile.place(c, c.out) + channel;
  Vector columns[24], total{};
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    Vector g[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      g[i] = i < tile.rows && j < tile.columns ? load(first + (i * c.width + j) * c.out) : Vector{};
      total += g[i];
    }
    outputs_to_points(g, 1, columns + j, 4);
  }
  store(sum, load(sum) + total);
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    Vector z[6];
    outputs_to_points(columns + 4 * i, 1, z, 1);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) store(to + (6 * i + j) * stride, z[j]);
  }
}

// ----- Products

// to[row][column] = Σ_k left[row·left_row + k·left_k] · right[k·right_k + column] for `rows` rows and `width` vectors of columns.
template <int rows, int width, bool add>
INLINE void product(const float *left, int64_t left_row, int64_t left_k, const float *right, int64_t right_k, int64_t depth, float *to,
                    int64_t to_row) {
  Vector sums[rows][width];
#pragma GCC unroll 16
  for (int row = 0; row < rows; ++row)
#pragma GCC unroll 2
    for (int v = 0; v < width; ++v) sums[row][v] = add ? load(to + row * to_row + v * lanes) : Vector{};
  for (int64_t k = 0; k < depth; ++k, left += left_k, right += right_k) {
    Vector others[width];
#pragma GCC unroll 2
    for (int v = 0; v < width; ++v) others[v] = load(right + v * lanes);
#pragma GCC unroll 16
    for (int row = 0; row < rows; ++row) {
      const Vector one = all(left[row * left_row]);
#pragma GCC unroll 2
      for (int v = 0; v < width; ++v) sums[row][v] += one * others[v];
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < rows; ++row)
#pragma GCC unroll 2
    for (int v = 0; v < width; ++v) store(to + row * to_row + v * lanes, sums[row][v]);
}

// The product of `tiles` rows of inputs with the weights of `width` vectors of output channels.
template <int width>
INLINE void multiply(const float *inputs, const float *weights, int64_t tiles, int64_t in, float *to, int64_t out) {
  int64_t tile = 0;
  for (; tile + tile_rows <= tiles; tile += tile_rows)
    product<tile_rows, width, false>(inputs + tile * in, in, 1, weights, width * lanes, in, to + tile * out, out);
  for (; tile < tiles; ++tile) product<1, width, false>(inputs + tile * in, in, 1, weights, width * lanes, in, to + tile * out, out);
}

// Adds the products of `rows` input channels with all `out` output channels, summed over tiles.
template <int rows>
INLINE void add_products(const float *left, int64_t left_k, const float *right, int64_t out, int64_t tiles, float *to) {
  int64_t column = 0;
  for (; column + 2 * lanes <= out; column += 2 * lanes)
    product<rows, 2, true>(left, 1, left_k, right + column, out, tiles, to + column, out);
  if (column < out) product<rows, 1, true>(left, 1, left_k, right + column, out, tiles, to + column, out);
}

// ----- The kernels

// Prepared weights lie as the products read them: (points, pairs of vectors of output channels, in, channels of the pair).
void prepare(const float *weight, int64_t in, int64_t out, bool turned, float *prepared, int64_t first, int64_t last) {
  const int64_t from = turned ? out : in, to = turned ? in : out;  // channels of the convolution for which they are prepared
  const int64_t step = turned ? 9 : 9 * in, place = turned ? 9 * in : 9;  // between weights of neighbouring outputs, and inputs
  for (int64_t channel = first; channel < last; ++channel)
    for (int64_t vector = 0; vector < vectors(to); ++vector) {
      Vector w[9], columns[18], u[6];
      for (int k = 0; k < 9; ++k) {
        const float *const one = weight + start(vector, to) * step + channel * place + (turned ? 8 - k : k);
        for (int lane = 0; lane < lanes; ++lane) w[k][lane] = one[lane * step];
      }
      for (int j = 0; j < 3; ++j) weights_to_points(w + j, 3, columns + j, 3);
      const int64_t pair = vector / 2 * 2, width = vectors(to) - pair < 2 ? 1 : 2;
      float *const target = prepared + (pair * from + channel * width + (vector - pair)) * lanes;
      for (int i = 0; i < 6; ++i) {
        weights_to_points(columns + 3 * i, 1, u, 1);
        for (int j = 0; j < 6; ++j) store(target + (6 * i + j) * prepared_stride(from, to), u[j]);
      }
    }
}

void forward(const Convolution &c, int64_t first, int64_t last, float *scratch) {
  const int64_t block = block_of(c.in, c.out), out = padded(c.out), in_stride = block * c.in + pad, out_stride = block * out + pad;
  float *const inputs = scratch, *const outputs = scratch + points * in_stride;
  for (; first < last; first += block) {
    const int64_t tiles = last - first < block ? last - first : block;
    transform_inputs(c, first, first + tiles, inputs, in_stride);
    for (int point = 0; point < points; ++point) {
      const float *const left = inputs + point * in_stride, *const weights = c.prepared + point * prepared_stride(c.in, c.out);
      float *const to = outputs + point * out_stride;
      int64_t column = 0;
      for (; column + 2 * lanes <= out; column += 2 * lanes) multiply<2>(left, weights + column * c.in, tiles, c.in, to + column, out);
      if (column < out) multiply<1>(left, weights + column * c.in, tiles, c.in, to + column, out);
    }
    Tile tile(c, first);
    for (int64_t number = first; number < first + tiles; ++number) {
      const Tile next(c, number + 1);
      for (int64_t vector = 0; vector < vectors(c.out); ++vector) {
        const int64_t channel = start(vector, c.out);
        fetch<4, 4, true>(c, c.y, next.place(c, c.out) + channel, c.out);
        points_to_outputs(c, tile, channel, outputs + (number - first) * out + vector * lanes, out_stride);
      }
      tile = next;
    }
  }
}

void gradient(const Convolution &c, int64_t first, int64_t last, int64_t channel, int64_t chunk, float *sums, float *scratch) {
  const int64_t block = block_of(c.in, c.out), out = padded(chunk), in_stride = block * c.in + pad, out_stride = block * out + pad;
  float *const inputs = scratch, *const outputs = scratch + points * in_stride, *const total = sums + points * c.in * out;
  for (int64_t i = 0; i < (points * c.in + 1) * out; i += lanes) store(sums + i, Vector{});
  for (; first < last; first += block) {
    const int64_t tiles = last - first < block ? last - first : block;
    transform_inputs(c, first, first + tiles, inputs, in_stride);
    Tile tile(c, first);
    for (int64_t number = first; number < first + tiles; ++number) {
      const Tile next(c, number + 1);
      for (int64_t vector = 0; vector < vectors(chunk); ++vector) {
        const int64_t output = channel + start(vector, chunk);
        fetch<4, 4, false>(c, c.gy, next.place(c, c.out) + output, c.out);
        gradients_to_points(c, tile, output, outputs + (number - first) * out + vector * lanes, out_stride, total + vector * lanes);
      }
      tile = next;
    }
    for (int point = 0; point < points; ++point) {
      const float *const left = inputs + point * in_stride, *const right = outputs + point * out_stride;
      float *const to = sums + point * c.in * out;
      int64_t in = 0;
      for (; in + channel_rows <= c.in; in += channel_rows) add_products<channel_rows>(left + in, c.in, right, out, tiles, to + in * out);
      for (; in < c.in; ++in) add_products<1>(left + in, c.in, right, out, tiles, to + in * out);
    }
  }
}

void finish(const float *sums, int64_t parts, int64_t stride, int64_t in, int64_t channel, int64_t chunk, float *gw, float *gb) {
  const int64_t out = padded(chunk);
  const auto sum = [&](int64_t place) {
    Vector total = load(sums + place);
    for (int64_t part = 1; part < parts; ++part) total += load(sums + part * stride + place);
    return total;
  };
  for (int64_t vector = 0; vector < vectors(chunk); ++vector) {
    const int64_t first = channel + start(vector, chunk);
    for (int64_t input = 0; input < in; ++input) {
      Vector columns[18];
      for (int j = 0; j < 6; ++j) {
        Vector u[6];
        for (int i = 0; i < 6; ++i) u[i] = sum(((6 * i + j) * in + input) * out + vector * lanes);
        weights_from_points(u, 1, columns + j, 6);
      }
      for (int i = 0; i < 3; ++i) {
        Vector w[3];
        weights_from_points(columns + 6 * i, 1, w, 1);
        for (int j = 0; j < 3; ++j)
          for (int lane = 0; lane < lanes; ++lane) gw[((first + lane) * in + input) * 9 + 3 * i + j] = w[j][lane];
      }
    }
    if (gb != nullptr) store(gb + first, sum(points * in * out + vector * lanes));
  }
}

}  // namespace

extern const ConvolutionKernels HIGHWAYNET_TABLE = {scratch_of, prepared_of, block_of, prepare, forward, gradient, finish};

}  // namespace highwaynet
