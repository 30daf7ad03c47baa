// The compiled module: chooses the instruction set when it is loaded, and divides the work among the threads of torch's own OpenMP
// runtime. It checks the tensors that it gets (arrays.h), and links against neither torch nor an OpenMP library.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <dlfcn.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "arrays.h"
#include "convolution.h"
#include "dense_layer.h"
#include "dense_stack.h"
#include "gating.h"
#include "maxout.h"
#include "recurrent.h"

namespace nb = nanobind;
using namespace highwaynet;

namespace {

struct InstructionSet {
  std::string name;
  const GatingKernels *gating;
  const MaxoutKernels *maxout;
  const ConvolutionKernels *convolution;
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
    sets.push_back({"avx512", &gating_avx512, &maxout_avx512, &convolution_avx512, &dense_stack_avx512, &dense_layer_avx512, &recurrent_avx512});
  if (avx2) sets.push_back({"avx2", &gating_avx2, &maxout_avx2, &convolution_avx2, &dense_stack_avx2, &dense_layer_avx2, &recurrent_avx2});
#endif
  sets.push_back({"baseline", &gating_baseline, &maxout_baseline, &convolution_baseline, &dense_stack_baseline, &dense_layer_baseline, &recurrent_baseline});
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

// Names as Python and torch's registry pass them.
Activation activation_of(const char *call, const std::string &name) {
  const char *names[activations] = {"relu", "tanh", "sigmoid", "identity"};
  for (int number = 0; number < activations; ++number)
    if (name == names[number]) return static_cast<Activation>(number);
  refuse(call, "activation = '" + name + "': expected relu, tanh, sigmoid or identity");
}

// A byte for each layer, 1 if it is closed; null if none is. Layers are numbered from 1.
class Closed {
 public:
  Closed(const char *call, const std::vector<int64_t> &numbers, int64_t layers) {
    if (numbers.empty()) return;
    bytes_.resize(static_cast<size_t>(layers));
    for (const int64_t number : numbers) {
      if (number < 1 || number > layers)
        refuse(call, "closed has the number " + std::to_string(number) + ": expected numbers of layers, from 1 to " + std::to_string(layers));
      bytes_[static_cast<size_t>(number - 1)] = 1;
    }
  }
  const uint8_t *bytes() const { return bytes_.empty() ? nullptr : bytes_.data(); }

 private:
  std::vector<uint8_t> bytes_;
};

// ----- Memory and threads

// Asks for large pages for memory that is about to be written for the first time: the system clears it page by page, and for 100 MB in small
// pages that takes as long as computing a layer. Does nothing where the system does not offer it.
void prefer_large_pages(nb::handle tensor) {
  const Array array = Call("prefer_large_pages").writes("tensor", tensor);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t page = uintptr_t(1) << 21;
  const auto address = reinterpret_cast<uintptr_t>(array.data<char>()), bytes = uintptr_t(array.count()) * sizeof(float);
  const uintptr_t first = (address + page - 1) / page * page, last = (address + bytes) / page * page;
  if (first < last) madvise(reinterpret_cast<void *>(first), last - first, MADV_HUGEPAGE);
#endif
}

// Lets the kernels use the threads of the OpenMP runtime that a loaded library is linked with. If there is none, they use one thread.
bool use_threads_of(const std::string &library) {
  void *const handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  parallel_region = reinterpret_cast<ParallelRegion>(dlsym(handle, "GOMP_parallel"));
  dlclose(handle);  // the library stays loaded by those who loaded it
  return parallel_region != nullptr;
}

#include "convolution_calls.h"
#include "layer_calls.h"
#include "recurrent_calls.h"
#include "stack_calls.h"

}  // namespace

NB_MODULE(_native, m) {
  using nb::arg;
  m.def("readable", &readable);
  m.def("prefer_large_pages", &prefer_large_pages);
  m.def("gate", &gate);
  m.def("gate_backward", &gate_backward);
  m.def("maxout", &maxout);
  m.def("maxout_backward", &maxout_backward);
  m.def("convolution_scratch", &convolution_scratch);
  m.def("convolution", &convolution, arg("x"), arg("weight"), arg("bias").none(), arg("y"), arg("scratch"), arg("threads"));
  m.def("convolution_backward", &convolution_backward, arg("gy"), arg("x"), arg("weight"), arg("gx").none(), arg("gw").none(),
        arg("gb").none(), arg("scratch"), arg("threads"));
  m.def("activate", &activate);
  m.def("activation_gradient", &activation_gradient);
  m.def("cross_entropy", &cross_entropy);
  m.def("dense_stack_lanes", [] { return active.dense_stack->lanes; });
  m.def("dense_stack_memory", &dense_stack_memory);
  m.def("dense_stack_scratch", &dense_stack_scratch);
  m.def("dense_stack", &dense_stack, arg("x"), arg("weight"), arg("bias"), arg("y"), arg("t").none(), arg("h").none(), arg("kept"),
        arg("kind"), arg("activation"), arg("closed"), arg("keep"), arg("threads"));
  m.def("dense_stack_backward", &dense_stack_backward, arg("gy"), arg("weight"), arg("kept"), arg("gx"), arg("gw").none(),
        arg("gb").none(), arg("scratch"), arg("kind"), arg("activation"), arg("closed"), arg("threads"));
  m.def("recurrent_lanes", [] { return active.recurrent->lanes; });
  m.def("recurrent_memory", &recurrent_memory, arg("x"), arg("start"), arg("input_weight"), arg("weight"), arg("bias"),
        arg("mask").none(), arg("counts"), arg("keep"));
  m.def("recurrent_scratch", &recurrent_scratch, arg("gy"), arg("x"), arg("start"), arg("input_weight"), arg("weight"),
        arg("mask").none(), arg("counts"), arg("kept"));
  m.def("recurrent", &recurrent, arg("x"), arg("start"), arg("input_weight"), arg("weight"), arg("bias"), arg("mask").none(),
        arg("counts"), arg("y"), arg("kept"), arg("scratch"), arg("activation"), arg("closed"), arg("keep"), arg("threads"));
  m.def("recurrent_backward", &recurrent_backward, arg("gy"), arg("x"), arg("start"), arg("input_weight"), arg("weight"),
        arg("mask").none(), arg("counts"), arg("kept"), arg("gx").none(), arg("gstart"), arg("giw").none(), arg("gw").none(),
        arg("gb").none(), arg("scratch"), arg("activation"), arg("closed"), arg("threads"));
  m.def("divide_recurrent", &divide_recurrent);
  m.def("use_threads_of", &use_threads_of);
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
