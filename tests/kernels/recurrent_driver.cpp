// Runs the recurrent kernel on arrays of exactly the sizes that recurrent.h names, so that the compiler's checks see every access past an end.
// Prints how many numbers were not finite, and whether bits depend on how the work is cut.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "recurrent.h"

using namespace highwaynet;
using Floats = std::vector<float>;

static uint64_t random_state = 1;

static float drawn() {
  random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
  return float(random_state >> 40) / float(1 << 24) - 0.5f;
}

static Floats drawn(int64_t count) {
  Floats found(count);
  for (float &value : found) value = drawn();
  return found;
}

struct Outputs {
  Floats y, gx, gstart, giw, gw, gb;
};

// Everything for the steps of one chunk after the other; `cut` rows and panels at a time.
static Outputs run(Recurrent s, const RecurrentKernels &k, int64_t cut, int64_t chunk_steps) {
  const int64_t size = (s.width + k.lanes - 1) / k.lanes * k.lanes, height = s.parts * s.width, panels = k.panels(s.width);
  Outputs o{Floats(s.total * s.width), Floats(s.total * s.inputs), Floats(s.rows * s.width), Floats(height * s.inputs),
            Floats(s.depth * height * s.width), Floats(s.depth * height)};
  Floats kept((1 + s.parts) * s.depth * s.total * size), fed(2 * s.rows * size), packed(k.packed_size(s, false));
  s.keep = true, s.kept = kept.data(), s.fed = s.mask ? fed.data() : nullptr, s.packed = packed.data(), s.y = o.y.data();
  for (int64_t layer = 0; layer <= s.depth; ++layer) k.pack(s, false, layer);
  for (int64_t row = 0; row < s.rows; row += cut) k.begin(s, row, std::min(row + cut, s.rows));
  for (int64_t step = 0; step < s.steps; ++step)
    for (int64_t layer = 0; layer < s.depth; ++layer)
      for (int64_t row = 0; row < s.rows; row += cut)
        for (int64_t p = 0; p < panels; p += cut) k.forward(s, step, layer, row, std::min(row + cut, s.rows), p, std::min(p + cut, panels));
  // Again without keeping anything.
  Floats two(2 * s.rows * size), alone(s.total * s.width);
  Recurrent t = s;
  t.keep = false, t.kept = two.data(), t.y = alone.data();
  k.begin(t, 0, s.rows);
  for (int64_t step = 0; step < s.steps; ++step)
    for (int64_t layer = 0; layer < s.depth; ++layer) k.forward(t, step, layer, 0, s.rows, 0, panels);
  if (std::memcmp(alone.data(), o.y.data(), 4 * alone.size()) != 0) std::printf("different without keep\n");

  s.chunk = std::min(chunk_steps, s.steps) * s.rows;
  Floats back(k.packed_size(s, true)), g(s.rows * size), gz(s.depth * s.chunk * (s.parts * size + k.lanes));
  Floats seen(s.depth * s.chunk * size);
  s.packed = back.data(), s.g = g.data(), s.gz = gz.data(), s.seen = s.mask ? seen.data() : nullptr;
  s.gx = o.gx.data(), s.gstart = o.gstart.data(), s.giw = o.giw.data(), s.gw = o.gw.data(), s.gb = o.gb.data();
  for (int64_t layer = 0; layer <= s.depth; ++layer) k.pack(s, true, layer);
  for (int64_t end = s.steps; end > 0; end = std::max<int64_t>(0, end - chunk_steps)) {
    const int64_t first = std::max<int64_t>(0, end - chunk_steps);
    for (int64_t step = end - 1; step >= first; --step)
      for (int64_t layer = s.depth - 1; layer >= 0; --layer)
        for (int64_t row = 0; row < s.rows; row += cut) {
          k.gradients(s, first, step, layer, row, std::min(row + cut, s.rows), 0, panels);
          k.carry_back(s, first, step, layer, row, std::min(row + cut, s.rows), 0, panels);
        }
    const int64_t rows = s.offsets[end - 1] + s.counts[end - 1] - s.offsets[first];
    for (int64_t row = 0; row < rows; row += cut) k.backward_inputs(s, first, row, std::min(row + cut, rows));
    for (int64_t layer = 0; layer <= s.depth; ++layer)
      for (int64_t i = 0; i < height; i += cut) k.backward_weights(s, first, end, layer, i, std::min(i + cut, height));
  }
  k.end(s, 0, s.rows);
  return o;
}

int main(int count, char **names) {
  const struct {
    const char *name;
    const RecurrentKernels *kernels;
  } built[] = {{"baseline", &recurrent_baseline},
#ifdef HIGHWAYNET_X86
               {"avx2", &recurrent_avx2},
               {"avx512", &recurrent_avx512}
#endif
  };
  // steps, rows, inputs, width, depth
  const int64_t shapes[][5] = {{1, 1, 1, 1, 1}, {3, 2, 3, 5, 2}, {4, 25, 7, 16, 3}, {3, 31, 17, 33, 2}, {2, 140, 3, 20, 1}, {3, 3, 70, 130, 2}};
  int cases = 0, failures = 0;
  for (const auto &set : built) {
    bool wanted = false;
    for (int i = 1; i < count; ++i) wanted = wanted || std::strcmp(names[i], set.name) == 0;
    if (!wanted) continue;
    for (const auto &shape : shapes)
      for (int variant = 0; variant < 16; ++variant) {
        Recurrent s = {};
        s.steps = shape[0], s.rows = shape[1], s.inputs = shape[2], s.width = shape[3], s.depth = shape[4];
        s.parts = variant & 1 ? 3 : 2, s.activation = Activation(cases % activations);
        std::vector<int64_t> counts, offsets;
        for (int64_t step = 0; step < s.steps; ++step) {
          counts.push_back(variant & 2 ? std::max<int64_t>(1, s.rows - step * 2) : s.rows);
          offsets.push_back(s.total);
          s.total += counts.back();
        }
        std::vector<uint8_t> closed(s.depth);
        for (int64_t layer = 0; layer < s.depth; ++layer) closed[layer] = layer % 2 == 1;
        const int64_t height = s.parts * s.width;
        const Floats x = drawn(s.total * s.inputs), start = drawn(s.rows * s.width), mask = drawn(s.rows * s.width);
        const Floats iw = drawn(height * s.inputs), w = drawn(s.depth * height * s.width), b = drawn(s.depth * height);
        const Floats gy = drawn(s.total * s.width);
        s.counts = counts.data(), s.offsets = offsets.data(), s.closed = variant & 4 ? closed.data() : nullptr;
        s.mask = variant & 8 ? mask.data() : nullptr, s.x = x.data(), s.start = start.data(), s.gy = gy.data();
        s.input_weight = iw.data(), s.weight = w.data(), s.bias = b.data();
        const Outputs one = run(s, *set.kernels, 1000, 2), other = run(s, *set.kernels, 5, 2);
        const Floats *first[] = {&one.y, &one.gx, &one.gstart, &one.giw, &one.gw, &one.gb};
        const Floats *second[] = {&other.y, &other.gx, &other.gstart, &other.giw, &other.gw, &other.gb};
        for (int i = 0; i < 6; ++i) {
          for (float value : *first[i]) failures += !std::isfinite(value);
          failures += std::memcmp(first[i]->data(), second[i]->data(), 4 * first[i]->size()) != 0;
        }
        ++cases;
      }
  }
  std::printf("%d cases, %d failures\n", cases, failures);
  return failures != 0 || cases == 0;
}
