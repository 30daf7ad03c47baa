// Activations in place, and softmax with cross-entropy in one pass. torch starts an operator for each step, which takes longer than
// computing a batch of 128 rows.
//
// The build compiles this file once for each instruction set: HIGHWAYNET_LANES floats make a vector, HIGHWAYNET_TABLE names the result.

#include "dense_layer.h"

#include <cmath>

#include "vector_math.h"

namespace highwaynet {
namespace {

// The last few numbers go through the same vector code, from a buffer.
template <typename Function>
INLINE void each_vector(int64_t count, Function function) {
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) function(i, int64_t(lanes));
  if (i < count) function(i, count - i);
}

INLINE Vector load_some(const float *from, int64_t count) {
  if (count == lanes) return load(from);
  float buffer[lanes] = {};
  __builtin_memcpy(buffer, from, sizeof(float) * count);
  return load(buffer);
}

INLINE void store_some(float *to, Vector v, int64_t count) {
  if (count == lanes) return store(to, v);
  float buffer[lanes];
  store(buffer, v);
  __builtin_memcpy(to, buffer, sizeof(float) * count);
}

template <Activation activation>
void activate(float *z, const float *bias, int64_t rows, int64_t width) {
  each_vector(width, [&](int64_t i, int64_t n) {
    const Vector b = load_some(bias + i, n);
    for (float *at = z + i, *end = at + rows * width; at < end; at += width)
      store_some(at, state_of<activation>(load_some(at, n) + b).value, n);
  });
}

template <Activation activation>
void gradient(const float *gy, const float *y, float *gz, float *gb, int64_t rows, int64_t width) {
  constexpr int64_t piece = 32;  // rows that are summed separately: long sums lose digits
  each_vector(width, [&](int64_t i, int64_t n) {
    Vector total = {};
    for (int64_t first = 0; first < rows; first += piece) {
      Vector sum = {};
      for (int64_t row = first; row < rows && row < first + piece; ++row) {
        const int64_t at = row * width + i;
        const Vector g = gradient_of<activation>(load_some(y + at, n), load_some(gy + at, n));
        store_some(gz + at, g, n);
        sum += g;
      }
      total += sum;
    }
    store_some(gb + i, total, n);
  });
}

void any_activate(float *z, const float *bias, int64_t rows, int64_t width, Activation activation) {
  switch (activation) {
    case relu: return activate<relu>(z, bias, rows, width);
    case tanh: return activate<tanh>(z, bias, rows, width);
    case sigmoid: return activate<sigmoid>(z, bias, rows, width);
    default: return activate<identity>(z, bias, rows, width);
  }
}

void any_gradient(const float *gy, const float *y, float *gz, float *gb, int64_t rows, int64_t width, Activation activation) {
  switch (activation) {
    case relu: return gradient<relu>(gy, y, gz, gb, rows, width);
    case tanh: return gradient<tanh>(gy, y, gz, gb, rows, width);
    case sigmoid: return gradient<sigmoid>(gy, y, gz, gb, rows, width);
    default: return gradient<identity>(gy, y, gz, gb, rows, width);
  }
}

float cross_entropy(const float *logits, const int64_t *targets, float *gradient, int64_t rows, int64_t classes) {
  double loss = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const float *z = logits + row * classes;
    float *g = gradient + row * classes;
    float largest = z[0];
    for (int64_t c = 1; c < classes; ++c) largest = z[c] > largest ? z[c] : largest;
    each_vector(classes, [&](int64_t i, int64_t n) {
      const Exponential part = exp_of(load_some(z + i, n) - largest);
      store_some(g + i, part.scale * part.fraction + part.scale, n);
    });
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += g[c];
    loss += std::log(sum) - (double(z[targets[row]]) - largest);
    const float share = float(1 / (sum * rows));
    for (int64_t c = 0; c < classes; ++c) g[c] *= share;
    g[targets[row]] -= 1 / float(rows);
  }
  return float(loss / rows);
}

}  // namespace

extern const DenseLayerKernels HIGHWAYNET_TABLE = {any_activate, any_gradient, cross_entropy};

}  // namespace highwaynet
