// What stands around a dense stack: the activation of a single layer, and the loss of a classification.
//
// Nothing here may be an inline function or template that other files share: dense_layer.cpp is compiled for several instruction sets.
#pragma once

#include <cstdint>

#include "activation.h"

namespace highwaynet {

struct DenseLayerKernels {
  // z becomes activation(z), `count` numbers in place.
  void (*activate)(float *z, int64_t count, Activation activation);
  // gz = gy · activation'(z), with y = activation(z).
  void (*gradient)(const float *gy, const float *y, float *gz, int64_t count, Activation activation);
  // The mean cross-entropy of logits (rows, classes) with the right classes, and its gradient. The classes are within bounds.
  float (*cross_entropy)(const float *logits, const int64_t *targets, float *gradient, int64_t rows, int64_t classes);
};

extern const DenseLayerKernels dense_layer_baseline;
#ifdef HIGHWAYNET_X86
extern const DenseLayerKernels dense_layer_avx2, dense_layer_avx512;
#endif

}  // namespace highwaynet
