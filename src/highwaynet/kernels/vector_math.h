// Vectors of HIGHWAYNET_LANES floats, and e^v, the sigmoid and tanh of them, exact at their ends.
//
// Everything here belongs to the file that includes it (no name leaves the unnamed namespace, and all is inlined): the files are compiled
// for several instruction sets, and the linker must not put one's copy in the place of another's.
#pragma once

#include <cstdint>

#include "activation.h"
#include "bfloat16.h"

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

typedef uint16_t Halves __attribute__((vector_size(2 * lanes)));

INLINE Vector load(const BFloat16 *from) {
  Halves bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return (Vector)(__builtin_convertvector(bits, Integers) << 16);
}

// Rounds to the nearest, of two equally near ones to the even one, as torch does.
INLINE void store(BFloat16 *to, Vector v) {
  const Integers bits = (Integers)v, rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const Integers quiet = Integers{} + 0x7fc0;
  const Halves found = __builtin_convertvector(v == v ? rounded : quiet, Halves);
  __builtin_memcpy(to, &found, sizeof found);
}

INLINE Vector all(float value) { return value - Vector{}; }  // not a sum, which would turn −0 into 0
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

// What reaches h of a gradient g at H = activation(h).
template <Activation activation>
INLINE Vector gradient_of(Vector h, Vector g) {
  if constexpr (activation == relu) return h <= 0.0f ? all(0.0f) : g;  // in this order a NaN passes, as in torch.relu
  if constexpr (activation == tanh) return g * (1.0f - h * h);
  if constexpr (activation == sigmoid) return g * ((1.0f - h) * h);
  return g;
}

}  // namespace
}  // namespace highwaynet
