// A whole stack of dense highway, plain or residual layers on float32 rows, forward and backward.
//
// Nothing here may be an inline function or template that other files share: dense_stack.cpp is compiled for several instruction sets,
// and the linker could keep a copy that an older processor cannot run.
//
// Inside, rows lie in blocks of as many rows as a vector has lanes, and a block is (width, lanes): the vectors of a block hold one feature
// of all its rows. Vectors are therefore full for any width, weights keep torch's layout, and the result does not depend on where the rows
// are cut. The last block's missing rows are computed from zeros and never read.
#pragma once

#include <cstdint>

#include "activation.h"

namespace highwaynet {

enum Kind : int { highway = 0, plain = 1, residual = 2, kinds = 3 };

// Sizes, with blocks = ⌈rows / lanes⌉, parts = 2 for highway (H, then T) and 1 for the others, and block = width·lanes floats:
//   x, y, gy, gx           (rows, width)
//   weight, bias, gw, gb   (layers, parts·width, width) and (layers, parts·width)
//   closed                 (layers), or null: a layer whose byte is not 0 copies its input, and its parameters get no gradient
//   states                 (layers + 1, blocks, block): x of each layer, then y. Without `keep` (2, blocks, block)
//   transforms             (layers, blocks, block): H, of highway and residual layers. Without `keep` (1, blocks, block), or null if h is
//   gates                  (layers, blocks, block): T, of highway layers. Without `keep` (1, blocks, block), or null if t is
//   t, h                   (layers, rows, width), or null: T (of highway layers) and H for the caller
// The backward pass takes the blocks start … stop−1 through all layers, then the next ones; its scratch is for these blocks only:
//   g                      (stride): the gradient on its way down; stride is the size of the most blocks that are taken together
//   gz                     (group, parts·stride): the gradients of the pre-activations of `group` layers
// With `keep`, forward leaves in states, transforms and gates what backward reads, and only reads, so that backward may run again. With
// gw null, the caller leaves out backward_weights. No two of these arrays may overlap.
struct DenseStack {
  int64_t layers, rows, width, group, start, stop, stride;
  Kind kind;
  Activation activation;
  bool keep;
  const uint8_t *closed;
  const float *weight, *bias, *x, *gy;
  float *y, *t, *h, *states, *transforms, *gates;
  float *gx, *gw, *gb, *g, *gz;
};

struct DenseStackKernels {
  int64_t lanes;
  int64_t tile;  // blocks that a thread should take together
  // The blocks first_block … last_block−1, at least one, through all layers.
  void (*forward)(const DenseStack &, int64_t first_block, int64_t last_block);
  // The blocks from the gradient after layer last_layer to that before first_layer, at most `group` layers; layers count from 0. The pass
  // starts from gy if last_layer is the last of all, and writes gx if first_layer is 0.
  void (*backward_rows)(const DenseStack &, int64_t first_block, int64_t last_block, int64_t first_layer, int64_t last_layer);
  // gw is made in this many panels of columns.
  int64_t (*panels)(const DenseStack &);
  // The rows first … last−1 of a panel of one layer's gw, and of gb with the first panel, once backward_rows has passed the layer with the
  // blocks from start to stop: their sums, added to those of earlier blocks.
  void (*backward_weights)(const DenseStack &, int64_t layer, int64_t panel, int64_t first, int64_t last);
};

extern const DenseStackKernels dense_stack_baseline;
#ifdef HIGHWAYNET_X86
extern const DenseStackKernels dense_stack_avx2, dense_stack_avx512;
#endif

}  // namespace highwaynet
