// One pass over memory for H = activation(h), T = sigmoid(t), y = x + T·(H − x), and one for its gradients.
//
// The build compiles this file once for each instruction set: HIGHWAYNET_LANES floats make a vector, HIGHWAYNET_TABLE names the result.
// Every element goes through the same vector code, the last few of a row as well, so that its bits do not depend on its place.

#include "gating.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace highwaynet {
namespace {

constexpr int lanes = HIGHWAYNET_LANES;
typedef float Vector __attribute__((vector_size(4 * lanes)));
typedef uint32_t Integers __attribute__((vector_size(4 * lanes)));

#define INLINE static inline __attribute__((always_inline))

INLINE Vector load(const float *from) {
  Vector v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

INLINE void store(float *to, Vector v) { __builtin_memcpy(to, &v, sizeof v); }

INLINE Vector all(float value) { return Vector{} + value; }
INLINE Vector magnitude(Vector v) { return (Vector)((Integers)v & 0x7fffffff); }

// above / below for values near 1; 1 / 1 is exactly 1.
INLINE Vector quotient(Vector above, Vector below) {
#ifdef __AVX512F__
  const Vector guess = (Vector)_mm512_maskz_rcp14_ps(0xffff, (__m512)below);  // 14 bits, and one step of Newton's: half a division's time
  const Vector q = above * guess;
  return (above - q * below) * guess + q;
#else
  return above / below;
#endif
}

// e^v for v ≤ 0 as scale·(1 + fraction), so that e^v − 1 can be had without cancellation. The scale is exactly 0 below −88; NaN stays NaN.
struct Exponential {
  Vector scale, fraction;
};

INLINE Exponential exp_of(Vector v) {
  const Vector power = v * 1.44269504f;
  const Vector bounded = -127.0f > power ? all(-127.0f) : power;  // in this order a NaN passes
  const Vector shifted = bounded + 12582912.0f;                   // 1.5·2²³: the sum's low bits are the nearest integer n
  const Vector f = bounded - (shifted - 12582912.0f);
  // (2^f − 1) / f by a minimax polynomial: 2^f is within 2.6e-9 on [−0.5, 0.5], and exact at 0.
  Vector p = f * 1.55946782e-4f + 1.34066439e-3f;
  p = p * f + 9.61769297e-3f;
  p = p * f + 5.55031055e-2f;
  p = p * f + 2.40226528e-1f;
  p = p * f + 6.93147215e-1f;
  return {(Vector)(((Integers)shifted << 23) + 0x3f800000), p * f};  // 2ⁿ; its bits are those of 0 for n = −127
}

struct Sigmoid {
  Vector value, rest, slope;  // σ(v), 1 − σ(v) and their product, all without cancellation
  Vector weight;              // σ(v) where v < 0, σ(v) − 1 where v ≥ 0: the step from the nearer end
};

INLINE Sigmoid sigmoid_of(Vector v) {
  const Exponential part = exp_of(-magnitude(v));
  const Vector e = part.scale * part.fraction + part.scale;
  const Vector large = quotient(all(1.0f), 1.0f + e), small = e * large;
  return {v >= 0.0f ? large : small, v >= 0.0f ? small : large, large * small, v >= 0.0f ? large - 1.0f : small};
}

INLINE Vector tanh_of(Vector v) {
  const Exponential part = exp_of(magnitude(v) * -2.0f);
  const Vector lack = (1.0f - part.scale) - part.scale * part.fraction;  // 1 − e^(−2|v|)
  const Vector value = quotient(lack, 2.0f - lack);
  return (Vector)((Integers)value | ((Integers)v & 0x80000000));
}

// The block state H, and what reaches h of a gradient `g` at H, which the forward pass does not ask for.
struct State {
  Vector value, gradient;
};

template <Activation activation>
INLINE State state_of(Vector h, Vector g = Vector{}) {
  if constexpr (activation == relu) {
    return {0.0f > h ? all(0.0f) : h, h <= 0.0f ? all(0.0f) : g};  // in this order a NaN passes, as in torch.relu
  } else if constexpr (activation == tanh) {
    const Vector value = tanh_of(h);
    return {value, g * (1.0f - value * value)};
  } else if constexpr (activation == sigmoid) {
    const Sigmoid s = sigmoid_of(h);
    return {s.value, g * s.slope};
  } else {
    return {h, g};
  }
}

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

// Where one vector's worth of each operand lies. The forward pass leaves gy, gh and gt alone, and its `out` is y; the backward pass's is gx.
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
