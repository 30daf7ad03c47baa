// Runs the kernels over ragged shapes, kinds, activations and instruction sets, each array exactly as large as it must be, against a plain
// reference in double. Built with -fsanitize=address,undefined it shows what is read or written past an end. Arguments: instruction sets.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "dense_stack.h"

using namespace highwaynet;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

static std::mt19937 generator(1);

static Floats normal(int64_t count, double std, double mean = 0) {
  std::normal_distribution<float> distribution(mean, std);
  Floats values(count);
  for (float &v : values) v = distribution(generator);
  return values;
}

static double act(Activation a, double v) {
  return a == relu ? (v < 0 ? 0 : v) : a == highwaynet::tanh ? std::tanh(v) : a == sigmoid ? 1 / (1 + std::exp(-v)) : v;
}

static double slope(Activation a, double h) {
  return a == relu ? (h > 0) : a == highwaynet::tanh ? 1 - h * h : a == sigmoid ? h * (1 - h) : 1;
}

struct Result {
  Doubles y, t, h, gx, gw, gb;
};

static Result reference(const DenseStack &s) {
  const int64_t n = s.rows, w = s.width, parts = s.kind == highway ? 2 : 1, m = parts * w;
  std::vector<Doubles> x(s.layers + 1, Doubles(n * w)), h(s.layers, Doubles(n * w)), t(s.layers, Doubles(n * w));
  for (int64_t i = 0; i < n * w; ++i) x[0][i] = s.x[i];
  for (int64_t l = 0; l < s.layers; ++l) {
    if (s.closed && s.closed[l]) {
      x[l + 1] = x[l];
      continue;
    }
    for (int64_t r = 0; r < n; ++r)
      for (int64_t j = 0; j < w; ++j) {
        double z[2];
        for (int64_t p = 0; p < parts; ++p) {
          z[p] = s.bias[l * m + p * w + j];
          for (int64_t k = 0; k < w; ++k) z[p] += x[l][r * w + k] * s.weight[(l * m + p * w + j) * w + k];
        }
        const int64_t i = r * w + j;
        h[l][i] = act(s.activation, z[0]);
        t[l][i] = s.kind == highway ? act(sigmoid, z[1]) : 1;
        x[l + 1][i] = s.kind == residual ? x[l][i] + h[l][i] : x[l][i] * (1 - t[l][i]) + h[l][i] * t[l][i];
      }
  }
  Result out{x[s.layers], Doubles(s.layers * n * w), Doubles(s.layers * n * w), Doubles(n * w), Doubles(s.layers * m * w), Doubles(s.layers * m)};
  Doubles g(s.gy, s.gy + n * w);
  for (int64_t l = s.layers - 1; l >= 0; --l) {
    if (s.closed && s.closed[l]) continue;
    Doubles gz(n * m), next(n * w);
    for (int64_t r = 0; r < n; ++r)
      for (int64_t j = 0; j < w; ++j) {
        const int64_t i = r * w + j;
        out.t[l * n * w + i] = t[l][i], out.h[l * n * w + i] = h[l][i];
        gz[r * m + j] = g[i] * t[l][i] * slope(s.activation, h[l][i]);
        if (s.kind == highway) gz[r * m + w + j] = g[i] * (h[l][i] - x[l][i]) * t[l][i] * (1 - t[l][i]);
        next[i] = s.kind == residual ? g[i] : g[i] * (1 - t[l][i]);
      }
    for (int64_t r = 0; r < n; ++r)
      for (int64_t q = 0; q < m; ++q) {
        out.gb[l * m + q] += gz[r * m + q];
        for (int64_t k = 0; k < w; ++k) {
          out.gw[(l * m + q) * w + k] += gz[r * m + q] * x[l][r * w + k];
          next[r * w + k] += gz[r * m + q] * s.weight[(l * m + q) * w + k];
        }
      }
    g = next;
  }
  out.gx = g;
  return out;
}

static double worst = 0;
static int failures = 0;

static void compare(const char *what, const DenseStack &s, const char *set, const Floats &got, const Doubles &wanted) {
  double error = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) error += std::pow(got[i] - wanted[i], 2), size += wanted[i] * wanted[i];
  const double relative = std::sqrt(error) / (std::sqrt(size) + 1e-30);
  const double allowed = 3e-6 * (4 + s.layers);  // ReLU's kinks aside, errors grow with the layers
  if (relative > worst) worst = relative;
  if (!(relative <= allowed)) {
    ++failures;
    std::printf("%s %s: kind %d activation %d layers %ld rows %ld width %ld: error %g\n", set, what, s.kind, s.activation, (long)s.layers,
                (long)s.rows, (long)s.width, relative);
  }
}

static void equal(const char *what, const DenseStack &s, const char *set, const Floats &a, const Floats &b) {
  if (a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), 4 * a.size()) == 0)) return;
  ++failures;
  std::printf("%s %s: bits depend on the cut: kind %d layers %ld rows %ld width %ld\n", set, what, s.kind, (long)s.layers, (long)s.rows,
              (long)s.width);
}

struct Outputs {
  Floats y, t, h, gx, gw, gb, y_alone;
};

static Outputs run(DenseStack s, const DenseStackKernels &k, int64_t tile, int64_t group, int64_t slice) {
  const int64_t parts = s.kind == highway ? 2 : 1, blocks = (s.rows + k.lanes - 1) / k.lanes, size = blocks * k.lanes * s.width;
  const int64_t n = s.rows * s.width, m = parts * s.width;
  Outputs o{Floats(n), Floats(s.kind == highway ? s.layers * n : 0), Floats(s.layers * n), Floats(n), Floats(s.layers * m * s.width, 7.0f),
            Floats(s.layers * m, 7.0f), Floats(n)};
  Floats states((s.layers + 1) * size, NAN), transforms(s.kind == plain ? 0 : s.layers * size, NAN);
  const int64_t step = 256 / k.lanes;  // blocks that go through all layers together
  s.stride = std::min(step, blocks) * k.lanes * s.width;
  Floats gates(s.kind == highway ? s.layers * size : 0, NAN), g(s.stride, NAN), gz(group * parts * s.stride, NAN);
  const auto or_null = [](Floats &f) { return f.empty() ? nullptr : f.data(); };
  s.y = o.y.data(), s.t = or_null(o.t), s.h = or_null(o.h), s.states = states.data();
  s.transforms = or_null(transforms), s.gates = or_null(gates);
  s.gx = o.gx.data(), s.gw = o.gw.data(), s.gb = o.gb.data(), s.g = g.data(), s.gz = gz.data(), s.group = group, s.keep = true;
  for (int64_t b = 0; b < blocks; b += tile) k.forward(s, b, std::min(b + tile, blocks));
  for (s.start = 0; s.start < blocks; s.start = s.stop) {
    s.stop = std::min(s.start + step, blocks);
    int64_t last = s.layers;
    do {
      const int64_t first = std::max<int64_t>(0, last - group);
      for (int64_t b = s.start; b < s.stop; b += tile) k.backward_rows(s, b, std::min(b + tile, s.stop), first, last);
      for (int64_t l = first; l < last; ++l)
        for (int64_t panel = 0; panel < k.panels(s); ++panel)
          for (int64_t i = 0; i < m; i += slice) k.backward_weights(s, l, panel, i, std::min(i + slice, m));
      last = first;
    } while (last > 0);
  }
  // Again without keeping anything.
  Floats two(2 * size, NAN);
  s.keep = false, s.y = o.y_alone.data(), s.states = two.data(), s.t = s.h = s.transforms = s.gates = nullptr;
  for (int64_t b = 0; b < blocks; b += tile) k.forward(s, b, std::min(b + tile, blocks));
  return o;
}

int main(int count, char **names) {
  struct Set {
    const char *name;
    const DenseStackKernels *kernels;
  };
  const Set built[] = {{"baseline", &dense_stack_baseline},
#ifdef HIGHWAYNET_X86
                       {"avx2", &dense_stack_avx2},
                       {"avx512", &dense_stack_avx512}
#endif
  };
  std::vector<Set> sets;
  for (const Set &set : built)
    if (std::find_if(names + 1, names + count, [&](const char *name) { return std::strcmp(name, set.name) == 0; }) != names + count)
      sets.push_back(set);
  const int64_t shapes[][3] = {{1, 1, 1},   {2, 3, 1},   {3, 17, 2},  {0, 5, 4},    {2, 16, 7},  {5, 31, 8},  {3, 33, 9},   {2, 64, 15}, {2, 65, 16},
                               {3, 100, 17}, {2, 129, 23}, {12, 48, 24}, {2, 7, 31},  {2, 260, 33}, {3, 40, 50}, {2, 130, 50}, {2, 20, 64}, {2, 50, 71},
                               {1, 9, 100}, {1, 20, 130}, {40, 6, 5}, {3, 530, 6}, {1, 64, 516}};
  int cases = 0;
  for (const auto &shape : shapes)
    for (int kind = 0; kind < kinds; ++kind)
      for (int activation = 0; activation < activations; ++activation) {
        if (shape[2] > 500 && activation != relu) continue;  // the reference takes long
        const int64_t layers = shape[0], rows = shape[1], width = shape[2], m = (kind == highway ? 2 : 1) * width;
        const Floats weight = normal(layers * m * width, 0.7 / std::sqrt(width)), bias = normal(layers * m, 0.5, 0.2);
        const Floats x = normal(rows * width, 1), gy = normal(rows * width, 1);
        std::vector<uint8_t> closed(layers);
        for (int64_t l = 0; l < layers; ++l) closed[l] = l % 3 == 1;
        DenseStack s{};
        s.layers = layers, s.rows = rows, s.width = width, s.kind = Kind(kind), s.activation = Activation(activation);
        s.weight = weight.data(), s.bias = bias.data(), s.x = x.data(), s.gy = gy.data();
        s.closed = (cases % 2 && layers) ? closed.data() : nullptr;
        const Result wanted = reference(s);
        for (const auto &set : sets) {
          const Outputs got = run(s, *set.kernels, set.kernels->tile, layers > 1 ? (layers + 1) / 2 : 1, m);
          compare("y", s, set.name, got.y, wanted.y), compare("h", s, set.name, got.h, wanted.h);
          if (kind == highway) compare("t", s, set.name, got.t, wanted.t);
          compare("gx", s, set.name, got.gx, wanted.gx), compare("gw", s, set.name, got.gw, wanted.gw);
          compare("gb", s, set.name, got.gb, wanted.gb), equal("y without keep", s, set.name, got.y, got.y_alone);
          const Outputs other = run(s, *set.kernels, 1, 1, 5);
          equal("y", s, set.name, got.y, other.y), equal("gx", s, set.name, got.gx, other.gx), equal("h", s, set.name, got.h, other.h);
          equal("gw", s, set.name, got.gw, other.gw), equal("gb", s, set.name, got.gb, other.gb);
        }
        ++cases;
      }
  std::printf("%d cases on %d instruction sets, worst relative error %.2g, %d failures\n", cases, int(sets.size()), worst, failures);
  return failures != 0 || sets.empty();
}
