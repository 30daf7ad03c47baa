// The largest of several linear pieces on rows of float32 or bfloat16: y is (rows, width), z is (rows, pieces·width), one piece after the other. As in
// gating.h, nothing here may be an inline function or template that other files share.
#pragma once

#include <cstdint>

namespace highwaynet {

constexpr int64_t most_pieces = 32;

// Inputs, outputs (written whole) and shape. The forward pass has z in and y out; the backward pass z and gy in and gz out.
struct Maxout {
  const void *z, *gy;
  void *y, *gz;
  int64_t pieces, width;
};

// Computes the rows first … last−1.
using MaxoutRows = void (*)(const Maxout &, int64_t first, int64_t last);

struct MaxoutKernels {
  struct {
    MaxoutRows forward, backward;
  } float32, bfloat16;
};

extern const MaxoutKernels maxout_baseline;
#ifdef HIGHWAYNET_X86
extern const MaxoutKernels maxout_avx2, maxout_avx512;
#endif

}  // namespace highwaynet
