// One pass over memory for the maximum of the pieces, and one for its gradients.
//
// Numbers and gradients are those of torch.maximum over the pieces in turn: NaN wins, and where two are equal each gets half the gradient.
// Nothing is kept but z; the backward pass finds the maxima again. In bfloat16, too, they are torch's: no step needs rounding, except for
// halves of the smallest numbers.

#include "maxout.h"

#include "bfloat16.h"

namespace highwaynet {
namespace {

#define INLINE static inline __attribute__((always_inline))

template <int lanes>
struct Wide {
  typedef float Vector __attribute__((vector_size(4 * lanes)));
  typedef uint32_t Integers __attribute__((vector_size(4 * lanes)));
  typedef uint16_t Halves __attribute__((vector_size(2 * lanes)));
};

template <int lanes>
INLINE typename Wide<lanes>::Vector load(const float *from) {
  typename Wide<lanes>::Vector v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

template <int lanes>
INLINE typename Wide<lanes>::Vector load(const BFloat16 *from) {
  typename Wide<lanes>::Halves bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return (typename Wide<lanes>::Vector)(__builtin_convertvector(bits, typename Wide<lanes>::Integers) << 16);
}

template <int lanes>
INLINE void store(float *to, typename Wide<lanes>::Vector v) {
  __builtin_memcpy(to, &v, sizeof v);
}

// Rounds to the nearest, of two equally near ones to the even one; NaN has passed through from memory and stays one.
template <int lanes>
INLINE void store(BFloat16 *to, typename Wide<lanes>::Vector v) {
  typedef typename Wide<lanes>::Integers Integers;
  const Integers bits = (Integers)v, rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const auto found = __builtin_convertvector((v == v ? rounded : bits) >> 16, typename Wide<lanes>::Halves);
  __builtin_memcpy(to, &found, sizeof found);
}

template <typename Vector>
INLINE Vector larger(Vector one, Vector two) {
  const Vector found = two >= one ? two : one;
  return two != two ? two : found;
}

// The operands with the type of their numbers.
template <typename Number>
struct Typed {
  explicit Typed(const Maxout &m)
      : z(static_cast<const Number *>(m.z)), gy(static_cast<const Number *>(m.gy)), y(static_cast<Number *>(m.y)),
        gz(static_cast<Number *>(m.gz)), pieces(m.pieces), width(m.width) {}
  const Number *z, *gy;
  Number *y, *gz;
  int64_t pieces, width;
};

template <int lanes, typename Number>
INLINE void forward(const Typed<Number> &m, int64_t row, int64_t column) {
  const Number *const z = m.z + row * m.pieces * m.width + column;
  auto y = load<lanes>(z);
  for (int64_t piece = 1; piece < m.pieces; ++piece) y = larger(y, load<lanes>(z + piece * m.width));
  store<lanes>(m.y + row * m.width + column, y);
}

template <int lanes, typename Number>
INLINE void backward(const Typed<Number> &m, int64_t row, int64_t column) {
  typedef typename Wide<lanes>::Vector Vector;
  const int64_t offset = row * m.pieces * m.width + column;
  const Number *const z = m.z + offset;
  Number *const gz = m.gz + offset;
  Vector before[most_pieces];  // the maximum of the pieces before each
  before[1] = load<lanes>(z);
  for (int64_t piece = 2; piece < m.pieces; ++piece) before[piece] = larger(before[piece - 1], load<lanes>(z + (piece - 1) * m.width));
  Vector g = load<lanes>(m.gy + row * m.width + column);
  const Vector zero = {};
  for (int64_t piece = m.pieces - 1; piece > 0; --piece) {
    const Vector mine = load<lanes>(z + piece * m.width), theirs = before[piece];
    const Vector shared = mine == theirs ? g * 0.5f : g;
    store<lanes>(gz + piece * m.width, mine < theirs ? zero : shared);
    g = mine > theirs ? zero : shared;
  }
  store<lanes>(gz, g);
}

// Rows of at least one vector. The last vector of a ragged row overlaps the one before and writes equal values where they meet.
template <bool is_backward, int lanes, typename Number>
void wide_rows(const Typed<Number> &m, int64_t first, int64_t last) {
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

template <bool is_backward, typename Number>
void rows_of(const Maxout &m, int64_t first, int64_t last) {
  const Typed<Number> typed(m);
  if constexpr (HIGHWAYNET_LANES > 8)
    if (m.width >= HIGHWAYNET_LANES) return wide_rows<is_backward, HIGHWAYNET_LANES>(typed, first, last);
  if constexpr (HIGHWAYNET_LANES >= 8)
    if (m.width >= 8) return wide_rows<is_backward, 8>(typed, first, last);
  if (m.width >= 4) return wide_rows<is_backward, 4>(typed, first, last);
  wide_rows<is_backward, 1>(typed, first, last);
}

}  // namespace

extern const MaxoutKernels HIGHWAYNET_TABLE = {{rows_of<false, float>, rows_of<true, float>},
                                               {rows_of<false, BFloat16>, rows_of<true, BFloat16>}};

}  // namespace highwaynet
