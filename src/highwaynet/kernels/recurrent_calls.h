// Recurrent highway layers: a part of module.cpp, which includes it after `divide` and `active`.

// Sizes of a layer, and where its sequences begin. `counts` has the rows of each step: not increasing, from those of `start` on.
class Sequences {
 public:
  Sequences(const char *call, const Array &x, const Array &start, const Array &input_weight, const Array &weight, const Array &counts) {
    weight.must_have(3, "(depth, parts·width, width)");
    s.depth = weight.size(0), s.width = weight.size(2);
    if (s.depth == 0 || s.width == 0) refuse(call, "weight has shape " + weight.shape() + ": expected at least one micro-layer and one feature");
    s.parts = weight.size(1) / s.width;
    if (weight.size(1) % s.width != 0 || (s.parts != 2 && s.parts != 3))
      refuse(call, "weight has shape " + weight.shape() + ": expected (depth, parts·width, width) with 2 or 3 parts");
    x.must_have(2, "(total, inputs)"), start.must_have(2, "(rows, width)"), counts.must_have(1, "(steps,)");
    s.total = x.size(0), s.inputs = x.size(1), s.rows = start.size(0), s.steps = counts.size(0);
    start.must_be({s.rows, s.width}, "(rows, width)");
    input_weight.must_be({s.parts * s.width, s.inputs}, "(parts·width, inputs)");
    const int64_t *const numbers = counts.data<const int64_t>();
    int64_t total = 0, before = s.rows;
    bool fits = s.steps > 0 && numbers[0] == s.rows && s.rows > 0;
    for (int64_t step = 0; fits && step < s.steps; ++step) {
      fits = numbers[step] >= 1 && numbers[step] <= before && total <= s.total;  // in this order no sum overflows
      offsets_.push_back(total);
      total += numbers[step], before = numbers[step];
    }
    if (!fits || total != s.total) {
      std::vector<int64_t> first(numbers, numbers + (s.steps < 8 ? s.steps : 8));
      refuse(call, "counts = " + listed(first) + (s.steps > 8 ? "…" : "") + ": expected numbers of rows that do not increase, begin with " +
                       std::to_string(s.rows) + " and add up to " + std::to_string(s.total));
    }
    s.counts = numbers, s.offsets = offsets_.data();
    s.x = x.data<const float>(), s.input_weight = input_weight.data<const float>(), s.weight = weight.data<const float>();
  }
  Sequences(const Sequences &) = delete;

  Recurrent s = {};

 private:
  std::vector<int64_t> offsets_;
};

int64_t state_size(const Recurrent &s) { return pieces(s.width, active.recurrent->lanes) * active.recurrent->lanes; }

// Steps whose gradients of pre-activations are kept before they are used for the weights. Not by the number of threads, because sums depend
// on it.
int64_t chunk_steps(const Recurrent &s) { return s.rows > 256 ? 1 : 256 / s.rows; }

bool is_ragged(const Recurrent &s) { return s.counts[s.steps - 1] < s.rows; }

// Ranges of rows that pass through all steps on one thread; sequences of different lengths need smaller ones.
int64_t row_tasks(const Recurrent &s, int threads) {
  if (threads <= 1) return pieces(s.rows, active.recurrent->block);
  const int64_t even = pieces(s.rows, active.recurrent->block * threads) * threads, fine = is_ragged(s) ? 4 * threads : even;
  const int64_t tasks = even > fine ? even : fine;
  return tasks < s.rows ? tasks : s.rows;
}

// What threads divide among them: rows, which pass through all steps, or the features of one micro-layer, so that each thread reads only some
// of the weights. Usually by size; tests choose.
enum Division : int { by_size = 0, rows_only = 1, features_only = 2 };
Division recurrent_division = by_size;

bool by_features(const Recurrent &s, int threads) {
  const double weights = double(s.parts) * s.width * s.width;
  if (threads <= 1 || recurrent_division == rows_only) return false;
  // Rows need no waiting. Features are faster if the weights do not stay in the cache that threads share, or if there are too few rows.
  const bool too_large = 4 * s.depth * weights > 2.4e7, too_few = s.rows < 2 * threads && weights > 4e5;
  return recurrent_division == features_only || too_large || too_few;
}

int useful_threads(const Recurrent &s, int threads) {
  return double(s.total) * s.depth * s.parts * s.width * s.width < 3e5 ? 1 : threads;
}

void divide_recurrent(int division) {
  if (division < by_size || division > features_only)
    refuse("divide_recurrent", "division = " + std::to_string(division) + ": expected 0 (by size), 1 (rows) or 2 (features)");
  recurrent_division = static_cast<Division>(division);
}

// How many floats the forward pass needs: in `kept`, and as scratch.
int64_t kept_of(const Recurrent &s, bool keep) {
  return keep ? (1 + s.parts) * s.depth * s.total * state_size(s) : 2 * s.rows * state_size(s);
}
int64_t forward_scratch(const Recurrent &s, bool masked) {
  return active.recurrent->packed_size(s, false) + (masked ? 2 * s.rows * state_size(s) : 0);
}

// How many floats the backward pass needs as scratch.
int64_t backward_scratch(const Recurrent &s, bool masked) {
  const int64_t steps = chunk_steps(s), chunk = (steps < s.steps ? steps : s.steps) * s.rows, size = state_size(s);
  return active.recurrent->packed_size(s, true) + s.rows * size +
         s.depth * chunk * (s.parts * size + active.recurrent->lanes + (masked ? size : 0));
}

void check_state(const Recurrent &s, const Array &array) { array.must_be({s.rows, s.width}, "(rows, width)"); }
void check_bias(const Recurrent &s, const Array &array) { array.must_be({s.depth, s.parts * s.width}, "(depth, parts·width)"); }
void check_outputs(const Recurrent &s, const Array &array) { array.must_be({s.total, s.width}, "(total, width)"); }

// The sizes of `kept` and of the scratch memory.
std::vector<int64_t> recurrent_memory(nb::handle x_, nb::handle start_, nb::handle input_weight_, nb::handle weight_, nb::handle bias_,
                                      nb::handle mask_, nb::handle counts_, bool keep) {
  Call call("recurrent");
  const Array x = call.reads("x", x_), start = call.reads("start", start_), input_weight = call.reads("input_weight", input_weight_);
  const Array weight = call.reads("weight", weight_), bias = call.reads("bias", bias_), mask = call.may_read("mask", mask_);
  const Array counts = call.reads("counts", counts_, int64);
  const Sequences sequences("recurrent", x, start, input_weight, weight, counts);
  check_bias(sequences.s, bias), check_state(sequences.s, mask);
  return {kept_of(sequences.s, keep), forward_scratch(sequences.s, mask.given())};
}

// Computes y, and what the backward pass reads if `keep`.
void recurrent(nb::handle x_, nb::handle start_, nb::handle input_weight_, nb::handle weight_, nb::handle bias_, nb::handle mask_,
               nb::handle counts_, nb::handle y_, nb::handle kept_, nb::handle scratch_, const std::string &activation,
               const std::vector<int64_t> &closed, bool keep, int64_t threads_) {
  Call call("recurrent");
  const Array x = call.reads("x", x_), start = call.reads("start", start_), input_weight = call.reads("input_weight", input_weight_);
  const Array weight = call.reads("weight", weight_), bias = call.reads("bias", bias_), mask = call.may_read("mask", mask_);
  const Array counts = call.reads("counts", counts_, int64);
  const Array y = call.writes("y", y_), kept = call.writes("kept", kept_), scratch = call.writes("scratch", scratch_);
  Sequences sequences("recurrent", x, start, input_weight, weight, counts);
  Recurrent &s = sequences.s;
  check_bias(s, bias), check_state(s, mask), check_outputs(s, y);
  kept.must_be({kept_of(s, keep)}, keep ? "what recurrent keeps" : "scratch memory");
  scratch.must_be({forward_scratch(s, mask.given())}, "scratch memory");
  const Closed shut("recurrent", closed, s.depth);
  const RecurrentKernels &kernels = *active.recurrent;
  s.activation = activation_of("recurrent", activation), s.closed = shut.bytes(), s.keep = keep;
  s.start = start.data<const float>(), s.mask = mask.data<const float>(), s.bias = bias.data<const float>(), s.y = y.data<float>();
  s.kept = kept.data<float>(), s.packed = scratch.data<float>(), s.fed = s.packed + kernels.packed_size(s, false);
  const int threads = useful_threads(s, call.threads(threads_));
  const nb::gil_scoped_release free;
  divide(threads, s.depth + 1, [&](int64_t layer) { kernels.pack(s, false, layer); });
  const int64_t panels = kernels.panels(s.width);
  if (by_features(s, threads)) {
    kernels.begin(s, 0, s.rows);
    for (int64_t step = 0; step < s.steps; ++step)
      for (int64_t layer = 0; layer < s.depth; ++layer)
        divide(threads, panels, [&](int64_t p) { kernels.forward(s, step, layer, 0, s.counts[step], p, p + 1); });
    return;
  }
  const int64_t tasks = row_tasks(s, threads);
  divide(threads, tasks, [&](int64_t i) {
    const int64_t first = s.rows * i / tasks, last = s.rows * (i + 1) / tasks;
    kernels.begin(s, first, last);
    for (int64_t step = 0; step < s.steps && s.counts[step] > first; ++step)
      for (int64_t layer = 0; layer < s.depth; ++layer) kernels.forward(s, step, layer, first, last, 0, panels);
  });
}

// How many floats the backward pass needs as scratch.
int64_t recurrent_scratch(nb::handle gy_, nb::handle x_, nb::handle start_, nb::handle input_weight_, nb::handle weight_, nb::handle mask_,
                          nb::handle counts_, nb::handle kept_) {
  Call call("recurrent_backward");
  const Array gy = call.reads("gy", gy_), x = call.reads("x", x_), start = call.reads("start", start_);
  const Array input_weight = call.reads("input_weight", input_weight_), weight = call.reads("weight", weight_);
  const Array mask = call.may_read("mask", mask_), counts = call.reads("counts", counts_, int64), kept = call.reads("kept", kept_);
  const Sequences sequences("recurrent_backward", x, start, input_weight, weight, counts);
  check_outputs(sequences.s, gy), check_state(sequences.s, mask);
  kept.must_be({kept_of(sequences.s, true)}, "what recurrent keeps");
  return backward_scratch(sequences.s, mask.given());
}

// Computes gstart, gx if it is given, and giw, gw and gb if all three are. Of `start`, only the shape matters.
void recurrent_backward(nb::handle gy_, nb::handle x_, nb::handle start_, nb::handle input_weight_, nb::handle weight_, nb::handle mask_,
                        nb::handle counts_, nb::handle kept_, nb::handle gx_, nb::handle gstart_, nb::handle giw_, nb::handle gw_,
                        nb::handle gb_, nb::handle scratch_, const std::string &activation, const std::vector<int64_t> &closed,
                        int64_t threads_) {
  Call call("recurrent_backward");
  const Array gy = call.reads("gy", gy_), x = call.reads("x", x_), start = call.reads("start", start_);
  const Array input_weight = call.reads("input_weight", input_weight_), weight = call.reads("weight", weight_);
  const Array mask = call.may_read("mask", mask_), counts = call.reads("counts", counts_, int64), kept = call.reads("kept", kept_);
  const Array gx = call.may_write("gx", gx_), gstart = call.writes("gstart", gstart_), giw = call.may_write("giw", giw_);
  const Array gw = call.may_write("gw", gw_), gb = call.may_write("gb", gb_), scratch = call.writes("scratch", scratch_);
  Sequences sequences("recurrent_backward", x, start, input_weight, weight, counts);
  Recurrent &s = sequences.s;
  check_outputs(s, gy), check_state(s, mask), check_state(s, gstart), check_bias(s, gb);
  kept.must_be({kept_of(s, true)}, "what recurrent keeps");
  gx.must_be({s.total, s.inputs}, "(total, inputs)"), giw.must_be({s.parts * s.width, s.inputs}, "(parts·width, inputs)");
  gw.must_be({s.depth, s.parts * s.width, s.width}, "(depth, parts·width, width)");
  if (giw.given() != gw.given() || gw.given() != gb.given()) call.refuse_call("some of giw, gw and gb are given: expected all three, or none");
  scratch.must_be({backward_scratch(s, mask.given())}, "scratch memory");
  const Closed shut("recurrent_backward", closed, s.depth);
  const RecurrentKernels &kernels = *active.recurrent;
  s.activation = activation_of("recurrent_backward", activation), s.closed = shut.bytes(), s.keep = true;
  s.mask = mask.data<const float>(), s.kept = kept.data<float>(), s.gy = gy.data<const float>(), s.gx = gx.data<float>();
  s.gstart = gstart.data<float>(), s.giw = giw.data<float>(), s.gw = gw.data<float>(), s.gb = gb.data<float>();
  s.packed = scratch.data<float>(), s.g = s.packed + kernels.packed_size(s, true), s.gz = s.g + s.rows * state_size(s);
  const int threads = useful_threads(s, call.threads(threads_));
  const nb::gil_scoped_release free;
  const int64_t together = chunk_steps(s);
  s.chunk = (together < s.steps ? together : s.steps) * s.rows;
  if (s.mask != nullptr) s.seen = s.gz + s.depth * s.chunk * (s.parts * state_size(s) + kernels.lanes);
  divide(threads, s.depth + 1, [&](int64_t layer) { kernels.pack(s, true, layer); });
  const int64_t panels = kernels.panels(s.width), tasks = row_tasks(s, threads), height = s.parts * s.width;
  const int64_t slices = s.gw == nullptr ? 0 : pieces(height, 48);
  for (int64_t end = s.steps; end > 0;) {
    const int64_t begin = end > together ? end - together : 0;
    if (by_features(s, threads)) {
      for (int64_t step = end - 1; step >= begin; --step)
        for (int64_t layer = s.depth - 1; layer >= 0; --layer) {
          const int64_t rows = s.counts[step];
          divide(threads, panels, [&](int64_t p) { kernels.gradients(s, begin, step, layer, 0, rows, p, p + 1); });
          divide(threads, panels, [&](int64_t p) { kernels.carry_back(s, begin, step, layer, 0, rows, p, p + 1); });
        }
    } else {
      divide(threads, tasks, [&](int64_t i) {
        const int64_t first = s.rows * i / tasks, last = s.rows * (i + 1) / tasks;
        for (int64_t step = end - 1; step >= begin; --step)
          for (int64_t layer = s.depth - 1; layer >= 0 && s.counts[step] > first; --layer) {
            kernels.gradients(s, begin, step, layer, first, last, 0, panels);
            kernels.carry_back(s, begin, step, layer, first, last, 0, panels);
          }
      });
    }
    const int64_t rows = s.offsets[end - 1] + s.counts[end - 1] - s.offsets[begin];
    const int64_t blocks = s.gx == nullptr ? 0 : pieces(rows, kernels.block), of_weights = (s.depth + 1) * slices;
    divide(threads, of_weights + blocks, [&](int64_t i) {
      if (i >= of_weights) {
        const int64_t b = i - of_weights;
        return kernels.backward_inputs(s, begin, rows * b / blocks, rows * (b + 1) / blocks);
      }
      const int64_t slice = i % slices;
      kernels.backward_weights(s, begin, end, i / slices, height * slice / slices, height * (slice + 1) / slices);
    });
    end = begin;
  }
  kernels.end(s, 0, s.rows);
}
