// Numbers of the format bfloat16 in memory: the upper half of a float's bits. Kernels compute with floats.
#pragma once

#include <cstdint>

namespace highwaynet {

struct BFloat16 {
  uint16_t bits;
};

}  // namespace highwaynet
