// Recurrent highway layers on float32 sequences, forward and backward: all time steps and all micro-layers.
//
// Nothing here may be an inline function or template that other files share: recurrent.cpp is compiled for several instruction sets, and the
// linker could keep a copy that an older processor cannot run.
//
// Sequences are packed as torch packs them: the longest first, and all rows of a time step together. Step t has counts[t] rows, the first
// ones; no step has more than the one before. Inside, vectors hold features of one row, so that a batch may have any number of rows, and
// rows of a state are padded to whole vectors.
#pragma once

#include <cstdint>

#include "activation.h"

namespace highwaynet {

// Sizes, with parts = 2 (H, T) or 3 (with an independent C), padded = width rounded up to whole vectors, total = Σ counts:
//   x, gx                (total, inputs)
//   y, gy                (total, width)
//   start, gstart, mask  (rows, width); mask may be null: what the weights see of a state is multiplied by it
//   input_weight, giw    (parts·width, inputs)
//   weight, gw           (depth, parts·width, width)
//   bias, gb             (depth, parts·width)
//   closed               (depth), or null: a micro-layer whose byte is not 0 copies its state, and its parameters get no gradient
//   counts, offsets      (steps)
//   packed               the weights in the order in which a pass reads them
//   kept                 (1 + parts, depth, total, padded): the state before each micro-layer, H, T, C. Without `keep` (2, rows, padded)
//   fed                  (2, rows, padded): masked states of the forward pass; null without mask
//   g                    (rows, padded): the gradient on its way back
//   gz, seen             (depth, chunk, parts·padded + lanes) and (depth, chunk, padded): gradients of the pre-activations and masked
//                        states of the steps between two calls of backward_weights; chunk is the largest number of rows of such steps
// With `keep`, forward leaves in `kept` what backward reads, and only reads. gx, gw, giw and gb may be null. No two arrays may overlap.
struct Recurrent {
  int64_t steps, rows, inputs, width, depth, parts, total, chunk;
  Activation activation;
  bool keep;
  const uint8_t *closed;
  const int64_t *counts, *offsets;
  const float *x, *start, *mask, *input_weight, *weight, *bias, *gy;
  float *y, *kept, *fed, *packed;
  float *gx, *gstart, *giw, *gw, *gb, *g, *gz, *seen;
};

struct RecurrentKernels {
  int64_t lanes;
  int64_t block;  // rows that a thread should take together
  // How many panels of features a micro-layer of this many features has; a panel is the smallest piece of work.
  int64_t (*panels)(int64_t features);
  // How many floats `packed` has.
  int64_t (*packed_size)(const Recurrent &, bool backward);
  // Fills the part of `packed` for one micro-layer; number `depth` is that for the inputs.
  void (*pack)(const Recurrent &, bool backward, int64_t layer);
  // Copies the rows of `start` to the states before the first step.
  void (*begin)(const Recurrent &, int64_t first_row, int64_t last_row);
  // One micro-layer of one step, for some rows and some panels.
  void (*forward)(const Recurrent &, int64_t step, int64_t layer, int64_t first_row, int64_t last_row, int64_t first_panel,
                  int64_t last_panel);
  // The same backward, in two parts: from g to gz, panel by panel, and from gz, whole rows of it, to g. `first_step` is the first step since
  // the last call of backward_weights.
  void (*gradients)(const Recurrent &, int64_t first_step, int64_t step, int64_t layer, int64_t first_row, int64_t last_row,
                    int64_t first_panel, int64_t last_panel);
  void (*carry_back)(const Recurrent &, int64_t first_step, int64_t step, int64_t layer, int64_t first_row, int64_t last_row,
                     int64_t first_panel, int64_t last_panel);
  // Copies rows of g to gstart.
  void (*end)(const Recurrent &, int64_t first_row, int64_t last_row);
  // gx of the rows first … last−1 of the steps from first_step on, counted from the first of them.
  void (*backward_inputs)(const Recurrent &, int64_t first_step, int64_t first, int64_t last);
  // Adds to the rows first … last−1 of gw and gb of a micro-layer, or of giw if `layer` is the depth, what the steps first_step …
  // last_step−1 contribute; the steps before last_step = steps come last, and the first call writes instead.
  void (*backward_weights)(const Recurrent &, int64_t first_step, int64_t last_step, int64_t layer, int64_t first, int64_t last);
};

extern const RecurrentKernels recurrent_baseline;
#ifdef HIGHWAYNET_X86
extern const RecurrentKernels recurrent_avx2, recurrent_avx512;
#endif

}  // namespace highwaynet
