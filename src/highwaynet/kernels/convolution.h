// Convolutions with windows of 3×3 on maps of equal size, in channels_last format, with fewer multiplications (Winograd's algorithm). As in
// gating.h, nothing here may be an inline function or template that other files share.
#pragma once

#include <cstdint>

namespace highwaynet {

constexpr int64_t least_channels = 16;  // of inputs and outputs: a vector of the widest instruction set

// x is (samples, height, width, in), y and gy are (samples, height, width, out) in memory. Tiles of 4×4 outputs are numbered sample by sample.
struct Convolution {
  const float *x, *bias;   // bias may be null
  const float *prepared;   // the transformed weights
  const float *gy;
  float *y;
  int64_t samples, height, width, in, out;
};

struct ConvolutionKernels {
  // Numbers of scratch memory for a call of `forward`, and of `gradient` with `chunk` output channels.
  int64_t (*scratch)(int64_t in, int64_t out);
  // Numbers of the transformed weights.
  int64_t (*prepared)(int64_t in, int64_t out);
  // Tiles that are computed together: a division of the work at its multiples wastes nothing.
  int64_t (*block)(int64_t in, int64_t out);
  // Transforms weights (out, in, 3, 3) for some of the input channels. If turned, those of the convolution that gives the gradient of x, which
  // has `out` channels in and `in` channels out.
  void (*prepare)(const float *weight, int64_t in, int64_t out, bool turned, float *prepared, int64_t first, int64_t last);
  // Computes y for the tiles first … last−1.
  void (*forward)(const Convolution &, int64_t first, int64_t last, float *scratch);
  // Writes what the tiles first … last−1 add to the transformed gradients of the weights and of the bias to `sums`, for `chunk` output channels
  // from `channel` on: (36·in + 1, chunk) in memory, where chunk is rounded up to whole vectors.
  void (*gradient)(const Convolution &, int64_t first, int64_t last, int64_t channel, int64_t chunk, float *sums, float *scratch);
  // Adds up `parts` such sums, each `stride` numbers after the one before, and writes the gradients of the weights and, unless null, of the bias.
  void (*finish)(const float *sums, int64_t parts, int64_t stride, int64_t in, int64_t channel, int64_t chunk, float *gw, float *gb);
};

extern const ConvolutionKernels convolution_baseline;
#ifdef HIGHWAYNET_X86
extern const ConvolutionKernels convolution_avx2, convolution_avx512;
#endif

}  // namespace highwaynet
