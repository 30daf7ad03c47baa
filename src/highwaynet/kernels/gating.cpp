// One pass over memory for H = activation(h), T = sigmoid(t), y = x + T·(H − x), and one for its gradients.
//
// The build compiles this file once for each instruction set: HIGHWAYNET_LANES floats make a vector, HIGHWAYNET_TABLE names the result.
// Every element goes through the same vector code, the last few of a row as well, so that its bits do not depend on its place.

#include "gating.h"

#include "vector_math.h"

namespace highwaynet {
namespace {

// As torch.lerp: from the nearer end, so that T = 0 gives x and T = 1 gives H, to the bit.
template <Activation activation>
INLINE Vector mixed(Vector x, Vector h, Vector t) {
  const Vector state = state_of<activation>(h).value, weight = sigmoid_of(t).weight;
  return weight * (state - x) + (t >= 0.0f ? state : x);
}

struct Gradients {
  Vector x, h, t;
};

template <Activation activation>
INLINE Gradients gradients(Vector x, Vector h, Vector t, Vector gy) {
  const Sigmoid gate = sigmoid_of(t);
  const State state = state_of<activation>(h, gate.value * gy);
  return {gate.rest * gy, state.gradient, (state.value - x) * gy * gate.slope};
}

// Addresses of one vector of each operand. The forward pass does not use gy, gh and gt, and its `out` is y; the backward pass's is gx.
struct Operands {
  const float *x, *h, *t, *gy;
  float *out, *gh, *gt;
};

template <bool backward, Activation activation>
INLINE void compute(const Operands &at, int64_t row_offset, int64_t h_offset) {
  const Vector x = load(at.x + row_offset), h = load(at.h + h_offset), t = load(at.t + h_offset);
  if constexpr (backward) {
    const Gradients g = gradients<activation>(x, h, t, load(at.gy + row_offset));
    store(at.out + row_offset, g.x), store(at.gh + h_offset, g.h), store(at.gt + h_offset, g.t);
  } else {
    store(at.out + row_offset, mixed<activation>(x, h, t));
  }
}

// Rows of at least one vector. The last vector of a ragged row overlaps the one before and writes equal values where they meet.
template <bool backward, Activation activation>
INLINE void long_rows(const Operands &all_rows, int64_t channels, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    const int64_t offset = row * channels;
    int64_t c = 0;
    for (; c + lanes <= channels; c += lanes) compute<backward, activation>(all_rows, offset + c, 2 * offset + c);
    if (c < channels) compute<backward, activation>(all_rows, offset + channels - lanes, 2 * offset + channels - lanes);
  }
}

// Rows shorter than a vector are computed from buffers in which h and t lie packed, row after row, as x does, so that vectors are full.
// A block is as many rows as fill the buffers with whole vectors.
constexpr int64_t buffer_size = 1024;
struct Buffers {
  float h[buffer_size], t[buffer_size], gh[buffer_size], gt[buffer_size];
  float x[buffer_size], gy[buffer_size], out[buffer_size];  // for the last block only
};

// The number of channels is a constant here because copies of constant size become a few instructions.
template <int channels>
void pack(const float *z, Buffers &to, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    __builtin_memcpy(to.h + row * channels, z + 2 * row * channels, 4 * channels);
    __builtin_memcpy(to.t + row * channels, z + (2 * row + 1) * channels, 4 * channels);
  }
}

template <int channels>
void unpack(const Buffers &from, float *gz, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    __builtin_memcpy(gz + 2 * row * channels, from.gh + row * channels, 4 * channels);
    __builtin_memcpy(gz + (2 * row + 1) * channels, from.gt + row * channels, 4 * channels);
  }
}

struct Copies {
  void (*pack)(const float *, Buffers &, int64_t);
  void (*unpack)(const Buffers &, float *, int64_t);
};

template <int channels = 1>
Copies copies_for(int64_t wanted) {
  if constexpr (channels < lanes)
    if (channels != wanted) return copies_for<channels + 1>(wanted);
  return {pack<channels>, unpack<channels>};
}

template <bool backward, Activation activation>
INLINE void short_rows(const Gating &g, int64_t first, int64_t last) {
  const Copies copies = copies_for(g.channels);
  const int64_t block_rows = buffer_size / g.channels / lanes * lanes;
  Buffers b;
  for (int64_t row = first; row < last; row += block_rows) {
    const int64_t rows = last - row < block_rows ? last - row : block_rows, offset = row * g.channels, count = rows * g.channels;
    Operands at = {g.x + offset, b.h, b.t, backward ? g.gy + offset : nullptr, (backward ? g.gx : g.y) + offset, b.gh, b.gt};
    const bool ragged = count % lanes != 0;
    float *const out = at.out;
    if (ragged) {  // the last block: nothing may be read or written past its end
      b = Buffers{};
      __builtin_memcpy(b.x, at.x, 4 * count);
      if (backward) __builtin_memcpy(b.gy, at.gy, 4 * count);
      at.x = b.x, at.gy = b.gy, at.out = b.out;
    }
    copies.pack(g.z + 2 * offset, b, rows);
    for (int64_t i = 0; i < count; i += lanes) compute<backward, activation>(at, i, i);
    if (backward) copies.unpack(b, g.gz + 2 * offset, rows);
    if (ragged) __builtin_memcpy(out, b.out, 4 * count);
  }
}

template <bool backward, Activation activation>
void rows_of(const Gating &g, int64_t first, int64_t last) {
  if (g.channels < lanes) return short_rows<backward, activation>(g, first, last);
  const Operands at = {g.x, g.z, g.z + g.channels, g.gy, backward ? g.gx : g.y, g.gz, g.gz + g.channels};
  long_rows<backward, activation>(at, g.channels, first, last);
}

template <bool backward>
void rows_of(const Gating &g, int64_t first, int64_t last) {
  switch (g.activation) {
    case relu: return rows_of<backward, relu>(g, first, last);
    case tanh: return rows_of<backward, tanh>(g, first, last);
    case sigmoid: return rows_of<backward, sigmoid>(g, first, last);
    default: return rows_of<backward, identity>(g, first, last);
  }
}

}  // namespace

extern const GatingKernels HIGHWAYNET_TABLE = {rows_of<false>, rows_of<true>};

}  // namespace highwaynet
