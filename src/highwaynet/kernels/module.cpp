// The compiled module: chooses the instruction set when it is loaded, and divides the work among the threads of torch's own OpenMP
// runtime. It takes addresses, not tensors, and links against neither torch nor an OpenMP library.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "dense_layer.h"
#include "dense_stack.h"
#include "gating.h"
#include "recurrent.h"

namespace nb = nanobind;
using namespace highwaynet;

namespace {

struct InstructionSet {
  std::string name;
  const GatingKernels *gating;
  const DenseStackKernels *dense_stack;
  const DenseLayerKernels *dense_layer;
  const RecurrentKernels *recurrent;
};

// The instruction sets that this processor can run, the fastest first.
std::vector<InstructionSet> runnable() {
  std::vector<InstructionSet> sets;
#ifdef HIGHWAYNET_X86
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    sets.push_back({"avx512", &gating_avx512, &dense_stack_avx512, &dense_layer_avx512, &recurrent_avx512});
  if (avx2) sets.push_back({"avx2", &gating_avx2, &dense_stack_avx2, &dense_layer_avx2, &recurrent_avx2});
#endif
  sets.push_back({"baseline", &gating_baseline, &dense_stack_baseline, &dense_layer_baseline, &recurrent_baseline});
  return sets;
}

const std::vector<InstructionSet> sets = runnable();
InstructionSet active = sets.front();

// libgomp's entry to a parallel region, which Intel's and LLVM's runtimes offer as well: calls function(data) on each of `threads` threads.
using ParallelRegion = void (*)(void (*function)(void *), void *data, unsigned threads, unsigned flags);
ParallelRegion parallel_region = nullptr;

template <typename Function>
struct Work {
  Function function;
  int64_t tasks;
  std::atomic<int64_t> next{0};

  static void take(void *data) {
    Work &work = *static_cast<Work *>(data);
    for (int64_t task; (task = work.next.fetch_add(1)) < work.tasks;) work.function(task);
  }
};

// function(0) … function(tasks − 1), on as many threads as there is work for.
template <typename Function>
void divide(int threads, int64_t tasks, Function function) {
  Work<Function> work{function, tasks};
  if (parallel_region == nullptr || threads <= 1 || tasks <= 1) return Work<Function>::take(&work);
  parallel_region(Work<Function>::take, &work, static_cast<unsigned>(tasks < threads ? tasks : threads), 0);
}

int64_t pieces(int64_t count, int64_t size) { return (count + size - 1) / size; }

template <typename T>
T *pointer(uintptr_t address) {
  return reinterpret_cast<T *>(address);
}

Activation activation_of(int number) {
  if (number < 0 || number >= activations) throw std::invalid_argument("no such activation");
  return static_cast<Activation>(number);
}

// ----- Memory

// Asks for large pages for memory that is about to be written for the first time: the system clears it page by page, and for 100 MB in small
// pages that takes as long as computing a layer. Does nothing where the system does not offer it.
void prefer_large_pages(uintptr_t address, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t page = uintptr_t(1) << 21;
  const uintptr_t first = (address + page - 1) / page * page, last = (address + uintptr_t(bytes)) / page * page;
  if (first < last) madvise(reinterpret_cast<void *>(first), last - first, MADV_HUGEPAGE);
#else
  (void)address, (void)bytes;
#endif
}

// ----- Gating

void run(GatingRows kernel, const Gating &gating, int64_t rows, int threads) {
  constexpr int64_t smallest_split = 32768;  // elements; below, waking threads takes longer than the work
  constexpr int64_t parts_per_thread = 4;    // so that a delayed thread does not delay the others
  if (rows * gating.channels < smallest_split) threads = 1;
  const int64_t parts = threads > 1 && rows > parts_per_thread * threads ? parts_per_thread * threads : threads > 1 ? rows : 1;
  divide(threads, parts, [&](int64_t part) { kernel(gating, rows * part / parts, rows * (part + 1) / parts); });
}

void gate(uintptr_t x, uintptr_t z, uintptr_t y, int64_t rows, int64_t channels, int activation, int threads) {
  const Gating gating{pointer<const float>(x), pointer<const float>(z), nullptr, pointer<float>(y), nullptr, nullptr, channels,
                      activation_of(activation)};
  if (rows > 0 && channels > 0) run(active.gating->forward, gating, rows, threads);
}

void gate_backward(uintptr_t gy, uintptr_t x, uintptr_t z, uintptr_t gx, uintptr_t gz, int64_t rows, int64_t channels, int activation,
                   int threads) {
  const Gating gating{pointer<const float>(x), pointer<const float>(z), pointer<const float>(gy), nullptr, pointer<float>(gx),
                      pointer<float>(gz), channels, activation_of(activation)};
  if (rows > 0 && channels > 0) run(active.gating->backward, gating, rows, threads);
}

// ----- Single dense layers, and the loss

void activate(uintptr_t z, uintptr_t bias, int64_t rows, int64_t width, int activation) {
  active.dense_layer->activate(pointer<float>(z), pointer<const float>(bias), rows, width, activation_of(activation));
}

void activation_gradient(uintptr_t gy, uintptr_t y, uintptr_t gz, uintptr_t gb, int64_t rows, int64_t width, int activation) {
  active.dense_layer->gradient(pointer<const float>(gy), pointer<const float>(y), pointer<float>(gz), pointer<float>(gb), rows, width,
                               activation_of(activation));
}

float cross_entropy(uintptr_t logits, uintptr_t targets, uintptr_t gradient, int64_t rows, int64_t classes) {
  const int64_t *classes_of = pointer<const int64_t>(targets);
  for (int64_t row = 0; row < rows; ++row)
    if (classes_of[row] < 0 || classes_of[row] >= classes) throw std::invalid_argument("a target is not a class number");
  return active.dense_layer->cross_entropy(pointer<const float>(logits), classes_of, pointer<float>(gradient), rows, classes);
}

// ----- Dense stacks

// Waking threads takes as long as some 100 000 multiplications and additions.
int useful_threads(const DenseStack &s, int threads) { return double(s.layers) * s.rows * s.width * s.width < 3e5 ? 1 : threads; }

// The same number of tiles for each thread, none larger than a thread should take together.
int64_t tiles_of(int64_t blocks, int64_t tile, int threads) {
  const int64_t tiles = pieces(blocks, tile * threads) * threads;
  return tiles < blocks ? tiles : blocks;
}

int64_t parts_of(Kind kind) { return kind == highway ? 2 : 1; }

// How many arrays of a layer's size are kept of each layer: x, and of highway layers H and T, of residual ones H.
int64_t kept_of(Kind kind) { return kind == plain ? 1 : kind == residual ? 2 : 3; }

// One layer's states, as the kernels lay them out; a multiple of 16 floats, so that all arrays behind an aligned one are aligned.
int64_t layer_size(int64_t rows, int64_t width) { return pieces(rows, active.dense_stack->lanes) * active.dense_stack->lanes * width; }

// Rows that the backward pass takes through all layers before the next ones, so that their gradients stay in the cache. A multiple of the
// kernels' chunks, whatever the number of threads: the sums over the batch come out the same.
constexpr int64_t backward_rows_together = 2048;

int64_t together(int64_t rows) { return rows < backward_rows_together ? rows : backward_rows_together; }

// Layers whose gradients of pre-activations stay in the second cache level together, 1 MB for each thread. At least 4 thin ones, so that
// there is work for all threads.
int64_t group_of(const DenseStack &s, int threads) {
  const int64_t size = 4 * layer_size(together(s.rows), s.width) * parts_of(s.kind);
  const int64_t fitting = threads * (int64_t(1) << 20) / (size > 0 ? size : 1), least = s.width < 96 ? 4 : 1;
  const int64_t group = fitting < least ? least : fitting;
  return group < s.layers ? group : s.layers > 0 ? s.layers : 1;
}

DenseStack stack_of(int kind, int activation, int64_t layers, int64_t rows, int64_t width, uintptr_t closed, uintptr_t weight, bool keep,
                    float *kept) {
  if (kind < 0 || kind >= kinds) throw std::invalid_argument("no such kind of layer");
  DenseStack s = {};
  s.layers = layers, s.rows = rows, s.width = width, s.group = 1, s.kind = static_cast<Kind>(kind), s.keep = keep;
  s.activation = activation_of(activation), s.closed = pointer<const uint8_t>(closed), s.weight = pointer<const float>(weight);
  const int64_t size = layer_size(rows, width);
  s.states = kept;
  if (s.kind != plain && keep) s.transforms = kept + (layers + 1) * size;
  if (s.kind == highway && keep) s.gates = s.transforms + layers * size;
  return s;
}

// How many floats the forward pass needs in `kept`: what the backward pass reads, or scratch.
int64_t stack_memory(int kind, int64_t layers, int64_t rows, int64_t width, bool keep, bool gates) {
  const int64_t size = layer_size(rows, width), of_each = kept_of(static_cast<Kind>(kind));
  return keep ? size * (1 + layers * of_each) : size * (2 + (gates ? of_each - 1 : 0));
}

// Computes y, and T and H if their addresses are not 0.
void stack_forward(int kind, int activation, int64_t layers, int64_t rows, int64_t width, uintptr_t closed, uintptr_t weight,
                   uintptr_t bias, uintptr_t x, uintptr_t y, uintptr_t t, uintptr_t h, uintptr_t kept, bool keep, int threads) {
  DenseStack s = stack_of(kind, activation, layers, rows, width, closed, weight, keep, pointer<float>(kept));
  s.bias = pointer<const float>(bias), s.x = pointer<const float>(x), s.y = pointer<float>(y);
  s.t = pointer<float>(t), s.h = pointer<float>(h);
  if (!keep && h != 0 && s.kind != plain) {
    s.transforms = s.states + 2 * layer_size(rows, width);
    if (s.kind == highway) s.gates = s.transforms + layer_size(rows, width);
  }
  if (rows == 0 || width == 0) return;
  threads = useful_threads(s, threads);
  const int64_t blocks = pieces(rows, active.dense_stack->lanes), tiles = tiles_of(blocks, active.dense_stack->tile, threads);
  divide(threads, tiles, [&](int64_t i) { active.dense_stack->forward(s, blocks * i / tiles, blocks * (i + 1) / tiles); });
}

// The place of task i among `tasks`, such that tasks that are done at the same time do not write to neighbouring memory.
int64_t apart(int64_t i, int64_t tasks, int threads) {
  const int64_t rounds = pieces(tasks, threads), full = tasks - (rounds - 1) * threads;  // threads with a task in the last round
  const int64_t thread = i % threads;
  return thread * rounds - (thread > full ? thread - full : 0) + i / threads;
}

// Computes gx, and gw and gb if their addresses are not 0.
void stack_backward(int kind, int activation, int64_t layers, int64_t rows, int64_t width, uintptr_t closed, uintptr_t weight,
                    uintptr_t kept, uintptr_t gy, uintptr_t gx, uintptr_t gw, uintptr_t gb, uintptr_t scratch, int threads) {
  DenseStack s = stack_of(kind, activation, layers, rows, width, closed, weight, true, pointer<float>(kept));
  s.gy = pointer<const float>(gy), s.gx = pointer<float>(gx), s.gw = pointer<float>(gw), s.gb = pointer<float>(gb);
  s.stride = layer_size(together(rows), width);
  s.g = pointer<float>(scratch), s.gz = s.g + s.stride;
  threads = useful_threads(s, threads);
  s.group = group_of(s, threads);
  const DenseStackKernels &kernels = *active.dense_stack;
  const int64_t blocks = pieces(rows, kernels.lanes), step = backward_rows_together / kernels.lanes;
  const int64_t tile = kernels.tile * (width < 512 ? 1 : 4);  // the weights of wide layers are copied for each tile
  const int64_t height = width * parts_of(s.kind), groups = layers > s.group ? pieces(layers, s.group) : 1, panels = kernels.panels(s);
  do {
    s.stop = s.start + step < blocks ? s.start + step : blocks;
    const int64_t count_blocks = s.stop - s.start, tiles = tiles_of(count_blocks, tile, threads);
    for (int64_t group = groups; group-- > 0;) {
      const int64_t first = layers * group / groups, last = layers * (group + 1) / groups, count = last - first;
      divide(threads, tiles, [&](int64_t i) {
        kernels.backward_rows(s, s.start + count_blocks * i / tiles, s.start + count_blocks * (i + 1) / tiles, first, last);
      });
      if (s.gw == nullptr || count == 0) continue;
      // Slices of a panel that stay in the second cache level; smaller ones if there are few layers and panels.
      const int64_t cached = pieces(height, 1024), needed = pieces((width < 96 ? 4 : 2) * threads, count * panels), smallest = pieces(height, 24);
      const int64_t slices = cached > needed ? cached : needed < smallest ? needed : smallest;
      divide(threads, count * panels * slices, [&](int64_t i) {
        const int64_t slice = i % slices, panel = apart(i / slices % panels, panels, threads);
        kernels.backward_weights(s, first + i / slices / panels, panel, height * slice / slices, height * (slice + 1) / slices);
      });
    }
    s.start = s.stop;
  } while (s.start < blocks);
}

// How many floats the backward pass needs as scratch, with at most this many threads.
int64_t stack_scratch(int kind, int64_t layers, int64_t rows, int64_t width, int threads) {
  DenseStack s = {};
  s.layers = layers, s.rows = rows, s.width = width, s.kind = static_cast<Kind>(kind);
  return layer_size(together(rows), width) * (1 + group_of(s, threads) * parts_of(s.kind));
}

// ----- Recurrent highway layers

#include "recurrent_calls.h"

}  // namespace

NB_MODULE(_native, m) {
  const auto free = nb::call_guard<nb::gil_scoped_release>();
  m.def("prefer_large_pages", &prefer_large_pages);
  m.def("gate", &gate, free);
  m.def("gate_backward", &gate_backward, free);
  m.def("activate", &activate, free);
  m.def("activation_gradient", &activation_gradient, free);
  m.def("cross_entropy", &cross_entropy, free);
  m.def("stack_memory", &stack_memory);
  m.def("stack_scratch", &stack_scratch);
  m.def("stack_forward", &stack_forward, free);
  m.def("stack_backward", &stack_backward, free);
  m.def("recurrent_memory", &recurrent_memory);
  m.def("recurrent_scratch", &recurrent_scratch);
  m.def("recurrent_forward", &recurrent_forward, free);
  m.def("recurrent_backward", &recurrent_backward, free);
  m.def("divide_recurrent", [](int division) { recurrent_division = static_cast<Division>(division); });
  m.def("use_parallel_region", [](uintptr_t address) { parallel_region = reinterpret_cast<ParallelRegion>(address); });
  m.def("instruction_sets", [] {
    std::vector<std::string> names;
    for (const InstructionSet &set : sets) names.push_back(set.name);
    return names;
  });
  m.def("instruction_set", [] { return active.name; });
  m.def("use_instruction_set", [](const std::string &name) {
    for (const InstructionSet &set : sets)
      if (set.name == name) {
        active = set;
        return;
      }
    throw std::invalid_argument("this processor cannot run " + name);
  });
}
