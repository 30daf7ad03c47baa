// The compiled module: chooses the instruction set when it is loaded, and divides rows among the threads of torch's own OpenMP runtime.
// It takes addresses, not tensors, and links against neither torch nor an OpenMP library.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "gating.h"

namespace nb = nanobind;
using namespace highwaynet;

namespace {

struct InstructionSet {
  std::string name;
  const GatingKernels *gating;
};

// What this processor can run, the fastest first.
std::vector<InstructionSet> runnable() {
  std::vector<InstructionSet> sets;
#ifdef HIGHWAYNET_X86
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    sets.push_back({"avx512", &gating_avx512});
  if (avx2) sets.push_back({"avx2", &gating_avx2});
#endif
  sets.push_back({"baseline", &gating_baseline});
  return sets;
}

const std::vector<InstructionSet> sets = runnable();
InstructionSet active = sets.front();

// libgomp's entry to a parallel region, which Intel's and LLVM's runtimes offer as well: calls function(data) on each of `threads` threads.
using ParallelRegion = void (*)(void (*function)(void *), void *data, unsigned threads, unsigned flags);
ParallelRegion parallel_region = nullptr;

constexpr int64_t smallest_split = 32768;  // elements; below, waking threads takes longer than the work
constexpr int64_t parts_per_thread = 4;    // so that a thread that was held up does not hold up the rest

struct Work {
  const Gating &gating;
  GatingRows run;
  int64_t rows, parts;
  std::atomic<int64_t> next{0};
};

void take_parts(void *data) {
  Work &work = *static_cast<Work *>(data);
  for (int64_t part; (part = work.next.fetch_add(1)) < work.parts;)
    work.run(work.gating, work.rows * part / work.parts, work.rows * (part + 1) / work.parts);
}

void run(GatingRows kernel, const Gating &gating, int64_t rows, int threads) {
  if (parallel_region == nullptr || threads <= 1 || rows < 2 || rows * gating.channels < smallest_split)
    return kernel(gating, 0, rows);
  const int64_t parts = parts_per_thread * threads;
  Work work{gating, kernel, rows, parts < rows ? parts : rows};
  parallel_region(take_parts, &work, static_cast<unsigned>(threads), 0);
}

Activation checked(int activation) {
  if (activation < 0 || activation >= activations) throw std::invalid_argument("no such activation");
  return static_cast<Activation>(activation);
}

template <typename T>
T *pointer(uintptr_t address) {
  return reinterpret_cast<T *>(address);
}

void gate(uintptr_t x, uintptr_t z, uintptr_t y, int64_t rows, int64_t channels, int activation, int threads) {
  const Gating gating{pointer<const float>(x), pointer<const float>(z), nullptr, pointer<float>(y), nullptr, nullptr, channels,
                      checked(activation)};
  if (rows > 0 && channels > 0) run(active.gating->forward, gating, rows, threads);
}

void gate_backward(uintptr_t gy, uintptr_t x, uintptr_t z, uintptr_t gx, uintptr_t gz, int64_t rows, int64_t channels, int activation,
                   int threads) {
  const Gating gating{pointer<const float>(x), pointer<const float>(z), pointer<const float>(gy), nullptr, pointer<float>(gx),
                      pointer<float>(gz), channels, checked(activation)};
  if (rows > 0 && channels > 0) run(active.gating->backward, gating, rows, threads);
}

}  // namespace

NB_MODULE(_native, m) {
  m.def("gate", &gate, nb::call_guard<nb::gil_scoped_release>());
  m.def("gate_backward", &gate_backward, nb::call_guard<nb::gil_scoped_release>());
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
