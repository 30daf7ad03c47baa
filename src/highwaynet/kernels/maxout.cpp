// One pass over memory for the maximum of the pieces, and one for its gradients.
//
// Numbers and gradients are those of torch.maximum over the pieces in turn: NaN wins, and where two are equal each gets half the gradient.
// Nothing is kept but z; the backward pass finds the maxima again.

#include "maxout.h"

namespace highwaynet {
namespace {

#define INLINE static inline __attribute__((always_inline))

template <int lanes>
struct Wide {
  typedef float Vector __attribute__((vector_size(4 * lanes)));
};

template <int lanes>
INLINE typename Wide<lanes>::Vector load(const float *from) {
  typename Wide<lanes>::Vector v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

template <typename Vector>
INLINE void store(float *to, Vector v) {
  __builtin_memcpy(to, &v, sizeof v);
}

template <typename Vector>
INLINE Vector larger(Vector one, Vector two) {
  const Vector found = two >= one ? two : one;
  return two != two ? two : found;
}

template <int lanes>
INLINE void forward(const Maxout &m, int64_t row, int64_t column) {
  const float *const z = m.z + row * m.pieces * m.width + column;
  auto y = load<lanes>(z);
  for (int64_t piece = 1; piece < m.pieces; ++piece) y = larger(y, load<lanes>(z + piece * m.width));
  store(m.y + row * m.width + column, y);
}

template <int lanes>
INLINE void backward(const Maxout &m, int64_t row, int64_t column) {
  typedef typename Wide<lanes>::Vector Vector;
  const int64_t offset = row * m.pieces * m.width + column;
  const float *const z = m.z + offset;
  float *const gz = m.gz + offset;
  Vector before[most_pieces];  // the maximum of the pieces before each
  before[1] = load<lanes>(z);
  for (int64_t piece = 2; piece < m.pieces; ++piece) before[piece] = larger(before[piece - 1], load<lanes>(z + (piece - 1) * m.width));
  Vector g = load<lanes>(m.gy + row * m.width + column);
  const Vector zero = {};
  for (int64_t piece = m.pieces - 1; piece > 0; --piece) {
    const Vector mine = load<lanes>(z + piece * m.width), theirs = before[piece];
    const Vector shared = mine == theirs ? g * 0.5f : g;
    store(gz + piece * m.width, mine < theirs ? zero : shared);
    g = mine > theirs ? zero : shared;
  }
  store(gz, g);
}

// Rows of at least one vector. The last vector of a ragged row overlaps the one before and writes equal values where they meet.
template <bool is_backward, int lanes>
void wide_rows(const Maxout &m, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row)
    for (int64_t column = 0; column < m.width; column += lanes) {
      const int64_t place = column + lanes <= m.width ? column : m.width - lanes;
      if constexpr (is_backward) {
        backward<lanes>(m, row, place);
      } else {
        forward<lanes>(m, row, place);
      }
    }
}

template <bool is_backward>
void rows_of(const Maxout &m, int64_t first, int64_t last) {
  if constexpr (HIGHWAYNET_LANES > 8)
    if (m.width >= HIGHWAYNET_LANES) return wide_rows<is_backward, HIGHWAYNET_LANES>(m, first, last);
  if constexpr (HIGHWAYNET_LANES >= 8)
    if (m.width >= 8) return wide_rows<is_backward, 8>(m, first, last);
  if (m.width >= 4) return wide_rows<is_backward, 4>(m, first, last);
  wide_rows<is_backward, 1>(m, first, last);
}

}  // namespace

extern const MaxoutKernels HIGHWAYNET_TABLE = {rows_of<false>, rows_of<true>};

}  // namespace highwaynet
