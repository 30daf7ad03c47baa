// The gating of a highway layer on rows of float32 or bfloat16. x is (rows, channels), z is (rows, 2·channels): the block state's pre-activations, then the
// transform gate's. Nothing here may be an inline function or template that other files share: gating.cpp is compiled for several
// instruction sets, and the linker could keep a copy that an older processor cannot run.
#pragma once

#include <cstdint>

#include "activation.h"

namespace highwaynet {

// Inputs, outputs (written whole) and shape. The backward pass has x, z and gy in and gx, gz out; the forward pass x and z in and y out.
struct Gating {
  const void *x, *z, *gy;
  void *y, *gx, *gz;
  int64_t channels;
  Activation activation;
};

// Computes the rows first … last−1. What a row becomes does not depend on where the rows are cut.
using GatingRows = void (*)(const Gating &, int64_t first, int64_t last);

struct GatingKernels {
  struct {
    GatingRows forward, backward;
  } float32, bfloat16;
};

extern const GatingKernels gating_baseline;
#ifdef HIGHWAYNET_X86
extern const GatingKernels gating_avx2, gating_avx512;
#endif

}  // namespace highwaynet
