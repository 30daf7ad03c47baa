// The parts of a dense network around its stack: the activation of a single layer, and the cross-entropy loss.
//
// Nothing here may be an inline function or template that other files share: dense_layer.cpp is compiled for several instruction sets.
#pragma once

#include <cstdint>

#include "activation.h"

namespace highwaynet {

struct DenseLayerKernels {
  // z (rows, width) becomes activation(z + bias), in place.
  void (*activate)(float *z, const float *bias, int64_t rows, int64_t width, Activation activation);
  // gz = gy · activation'(z), with y = activation(z + bias), and gb, its sum over the rows. gz may be gy.
  void (*gradient)(const float *gy, const float *y, float *gz, float *gb, int64_t rows, int64_t width, Activation activation);
  // The mean cross-entropy of logits (rows, classes) with the right classes, and its gradient. The classes are within bounds.
  float (*cross_entropy)(const float *logits, const int64_t *targets, float *gradient, int64_t rows, int64_t classes);
};

extern const DenseLayerKernels dense_layer_baseline;
#ifdef HIGHWAYNET_X86
extern const DenseLayerKernels dense_layer_avx2, dense_layer_avx512;
#endif

}  // namespace highwaynet
