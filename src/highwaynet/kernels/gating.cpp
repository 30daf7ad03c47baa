// One pass over memory for H = activation(h), T = sigmoid(t), y = x + T·(H − x), and one for its gradients.
//
// Numbers in memory are float32 or bfloat16, all arithmetic is float32: results in bfloat16 are rounded once.
//
// The build compiles this file once for each instruction set: HIGHWAYNET_LANES floats make a vector, HIGHWAYNET_TABLE names the result.
// Every element goes through the same vector code, the last few of a row as well, so that its bits do not depend on its place.

#include "gating.h"

#include <cstddef>

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
template <typename Number>
struct Operands {
  const Number *x, *h, *t, *gy;
  Number *out, *gh, *gt;
};

template <bool backward, Activation activation, typename Number>
INLINE void compute(const Operands<Number> &at, int64_t row_offset, int64_t h_offset) {
  const Vector x = load(at.x + row_offset), h = load(at.h + h_offset), t = load(at.t + h_offset);
  if constexpr (backward) {
    const Gradients g = gradients<activation>(x, h, t, load(at.gy + row_offset));
    store(at.out + row_offset, g.x), store(at.gh + h_offset, g.h), store(at.gt + h_offset, g.t);
  } else {
    store(at.out + row_offset, mixed<activation>(x, h, t));
  }
}

// Rows of at least one vector. The last vector of a ragged row overlaps the one before and writes equal values where they meet.
template <bool backward, Activation activation, typename Number>
INLINE void long_rows(const Operands<Number> &all_rows, int64_t channels, int64_t first, int64_t last) {
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
template <typename Number>
struct Buffers {
  Number h[buffer_size], t[buffer_size], gh[buffer_size], gt[buffer_size];
  Number x[buffer_size], gy[buffer_size], out[buffer_size];  // for the last block only
};

// The number of channels is a constant here because copies of constant size become a few instructions.
template <typename Number, int channels>
void pack(const Number *z, Buffers<Number> &to, int64_t rows) {
  constexpr size_t bytes = sizeof(Number) * channels;
  for (int64_t row = 0; row < rows; ++row) {
    __builtin_memcpy(to.h + row * channels, z + 2 * row * channels, bytes);
    __builtin_memcpy(to.t + row * channels, z + (2 * row + 1) * channels, bytes);
  }
}

template <typename Number, int channels>
void unpack(const Buffers<Number> &from, Number *gz, int64_t rows) {
  constexpr size_t bytes = sizeof(Number) * channels;
  for (int64_t row = 0; row < rows; ++row) {
    __builtin_memcpy(gz + 2 * row * channels, from.gh + row * channels, bytes);
    __builtin_memcpy(gz + (2 * row + 1) * channels, from.gt + row * channels, bytes);
  }
}

template <typename Number>
struct Copies {
  void (*pack)(const Number *, Buffers<Number> &, int64_t);
  void (*unpack)(const Buffers<Number> &, Number *, int64_t);
};

template <typename Number, int channels = 1>
Copies<Number> copies_for(int64_t wanted) {
  if constexpr (channels < lanes)
    if (channels != wanted) return copies_for<Number, channels + 1>(wanted);
  return {pack<Number, channels>, unpack<Number, channels>};
}

template <bool backward, Activation activation, typename Number>
INLINE void short_rows(const Operands<Number> &all_rows, int64_t channels, int64_t first, int64_t last) {
  const Copies<Number> copies = copies_for<Number>(channels);
  const int64_t block_rows = buffer_size / channels / lanes * lanes;
  Buffers<Number> b;
  for (int64_t row = first; row < last; row += block_rows) {
    const int64_t rows = last - row < block_rows ? last - row : block_rows, offset = row * channels, count = rows * channels;
    const size_t bytes = sizeof(Number) * static_cast<size_t>(count);
    Operands<Number> at = {all_rows.x + offset, b.h, b.t, backward ? all_rows.gy + offset : nullptr, all_rows.out + offset, b.gh, b.gt};
    const bool ragged = count % lanes != 0;
    Number *const out = at.out;
    if (ragged) {  // the last block: nothing may be read or written past its end
      b = Buffers<Number>{};
      __builtin_memcpy(b.x, at.x, bytes);
      if (backward) __builtin_memcpy(b.gy, at.gy, bytes);
      at.x = b.x, at.gy = b.gy, at.out = b.out;
    }
    copies.pack(all_rows.h + 2 * offset, b, rows);
    for (int64_t i = 0; i < count; i += lanes) compute<backward, activation>(at, i, i);
    if (backward) copies.unpack(b, all_rows.gh + 2 * offset, rows);
    if (ragged) __builtin_memcpy(out, b.out, bytes);
  }
}

template <bool backward, Activation activation, typename Number>
void rows_of(const Gating &g, int64_t first, int64_t last) {
  const Number *const z = static_cast<const Number *>(g.z);
  Number *const gz = static_cast<Number *>(g.gz), *const out = static_cast<Number *>(backward ? g.gx : g.y);
  const Operands<Number> at = {static_cast<const Number *>(g.x), z, z + g.channels, static_cast<const Number *>(g.gy), out, gz,
                               backward ? gz + g.channels : nullptr};
  if (g.channels < lanes) return short_rows<backward, activation>(at, g.channels, first, last);
  long_rows<backward, activation>(at, g.channels, first, last);
}

template <bool backward, typename Number>
void rows_of(const Gating &g, int64_t first, int64_t last) {
  switch (g.activation) {
    case relu: return rows_of<backward, relu, Number>(g, first, last);
    case tanh: return rows_of<backward, tanh, Number>(g, first, last);
    case sigmoid: return rows_of<backward, sigmoid, Number>(g, first, last);
    default: return rows_of<backward, identity, Number>(g, first, last);
  }
}

}  // namespace

extern const GatingKernels HIGHWAYNET_TABLE = {{rows_of<false, float>, rows_of<true, float>},
                                               {rows_of<false, BFloat16>, rows_of<true, BFloat16>}};

}  // namespace highwaynet
