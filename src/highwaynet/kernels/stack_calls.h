// Stacks of dense layers: a part of module.cpp, which includes it after `divide` and `active`.

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

Kind kind_of(const char *call, const std::string &name) {
  const char *names[kinds] = {"highway", "plain", "residual"};
  for (int number = 0; number < kinds; ++number)
    if (name == names[number]) return static_cast<Kind>(number);
  refuse(call, "kind = '" + name + "': expected highway, plain or residual");
}

// Sizes of a stack, by its weight (layers, parts·width, width); `rows` is x or gy, (rows, width).
DenseStack stack_of(const char *call, const Array &rows, const Array &weight, const std::string &kind, const std::string &activation) {
  DenseStack s = {};
  s.kind = kind_of(call, kind), s.activation = activation_of(call, activation), s.group = 1;
  const char *const meaning = s.kind == highway ? "(layers, 2·width, width)" : "(layers, width, width)";
  weight.must_have(3, meaning);
  s.layers = weight.size(0), s.width = weight.size(2), s.weight = weight.data<const float>();
  weight.must_be({s.layers, parts_of(s.kind) * s.width, s.width}, meaning);
  rows.must_have(2, "(rows, width)");
  s.rows = rows.size(0);
  rows.must_be({s.rows, s.width}, "(rows, width)");
  return s;
}

void check_bias(const DenseStack &s, const Array &bias) {
  bias.must_be({s.layers, parts_of(s.kind) * s.width}, s.kind == highway ? "(layers, 2·width)" : "(layers, width)");
}

// How many floats the forward pass needs in `kept`: what the backward pass reads, or scratch. The last few of what is kept are not used: with
// them, no other number of rows has the same size, and a gradient with other rows is refused. They are 0, so that equal calls keep the same.
int64_t memory_of(const DenseStack &s, bool keep, bool gates) {
  const int64_t size = layer_size(s.rows, s.width), of_each = kept_of(s.kind);
  return keep ? size * (1 + s.layers * of_each) + s.rows % active.dense_stack->lanes : size * (2 + (gates ? of_each - 1 : 0));
}

void lay_out(DenseStack &s, const Array &kept, bool keep, bool gates) {
  kept.must_be({memory_of(s, keep, gates)}, keep ? "what dense_stack keeps" : "scratch memory");
  const int64_t size = layer_size(s.rows, s.width);
  s.keep = keep, s.states = kept.data<float>();
  if (s.kind != plain && (keep || gates)) s.transforms = s.states + (keep ? s.layers + 1 : 2) * size;
  if (s.kind == highway && (keep || gates)) s.gates = s.transforms + (keep ? s.layers : 1) * size;
}

int64_t dense_stack_memory(nb::handle x_, nb::handle weight_, nb::handle bias_, const std::string &kind, const std::string &activation,
                           bool keep, bool gates) {
  Call call("dense_stack");
  const Array x = call.reads("x", x_), weight = call.reads("weight", weight_), bias = call.reads("bias", bias_);
  const DenseStack s = stack_of("dense_stack", x, weight, kind, activation);
  check_bias(s, bias);
  return memory_of(s, keep, gates);
}

// Computes y, and T and H if they are given, T of highway layers only.
void dense_stack(nb::handle x_, nb::handle weight_, nb::handle bias_, nb::handle y_, nb::handle t_, nb::handle h_, nb::handle kept_,
                 const std::string &kind, const std::string &activation, const std::vector<int64_t> &closed, bool keep, int64_t threads) {
  Call call("dense_stack");
  const Array x = call.reads("x", x_), weight = call.reads("weight", weight_), bias = call.reads("bias", bias_);
  const Array y = call.writes("y", y_), t = call.may_write("t", t_), h = call.may_write("h", h_), kept = call.writes("kept", kept_);
  DenseStack s = stack_of("dense_stack", x, weight, kind, activation);
  check_bias(s, bias);
  y.must_be({s.rows, s.width}, "(rows, width)");
  if (t.given() && !h.given()) call.refuse_call("t is given without h: expected both, or none");
  t.must_be({s.kind == highway ? s.layers : 0, s.rows, s.width}, s.kind == highway ? "(layers, rows, width)" : "(0, rows, width)");
  h.must_be({s.layers, s.rows, s.width}, "(layers, rows, width)");
  const Closed mask("dense_stack", closed, s.layers);
  lay_out(s, kept, keep, h.given());
  s.closed = mask.bytes(), s.bias = bias.data<const float>(), s.x = x.data<const float>(), s.y = y.data<float>();
  s.t = s.kind == highway ? t.data<float>() : nullptr, s.h = h.data<float>();
  const int count = useful_threads(s, call.threads(threads));
  if (keep) std::fill_n(s.states + memory_of(s, true, false) - s.rows % active.dense_stack->lanes, s.rows % active.dense_stack->lanes, 0.0f);
  if (s.rows == 0 || s.width == 0) return;
  const int64_t blocks = pieces(s.rows, active.dense_stack->lanes), tiles = tiles_of(blocks, active.dense_stack->tile, count);
  const nb::gil_scoped_release free;
  divide(count, tiles, [&](int64_t i) { active.dense_stack->forward(s, blocks * i / tiles, blocks * (i + 1) / tiles); });
}

// The place of task i among `tasks`, such that tasks that are done at the same time do not write to neighbouring memory.
int64_t apart(int64_t i, int64_t tasks, int threads) {
  const int64_t rounds = pieces(tasks, threads), full = tasks - (rounds - 1) * threads;  // threads with a task in the last round
  const int64_t thread = i % threads;
  return thread * rounds - (thread > full ? thread - full : 0) + i / threads;
}

// How many floats the backward pass needs as scratch.
int64_t scratch_of(const DenseStack &s, int threads) {
  return layer_size(together(s.rows), s.width) * (1 + group_of(s, threads) * parts_of(s.kind));
}

int64_t dense_stack_scratch(nb::handle gy_, nb::handle weight_, nb::handle kept_, const std::string &kind, const std::string &activation,
                            int64_t threads) {
  Call call("dense_stack_backward");
  const Array gy = call.reads("gy", gy_), weight = call.reads("weight", weight_), kept = call.reads("kept", kept_);
  DenseStack s = stack_of("dense_stack_backward", gy, weight, kind, activation);
  lay_out(s, kept, true, false);
  return scratch_of(s, call.threads(threads));
}

// Computes gx, and gw and gb if they are given.
void dense_stack_backward(nb::handle gy_, nb::handle weight_, nb::handle kept_, nb::handle gx_, nb::handle gw_, nb::handle gb_,
                          nb::handle scratch_, const std::string &kind, const std::string &activation, const std::vector<int64_t> &closed,
                          int64_t threads_) {
  Call call("dense_stack_backward");
  const Array gy = call.reads("gy", gy_), weight = call.reads("weight", weight_), kept = call.reads("kept", kept_);
  const Array gx = call.writes("gx", gx_), gw = call.may_write("gw", gw_), gb = call.may_write("gb", gb_);
  const Array scratch = call.writes("scratch", scratch_);
  DenseStack s = stack_of("dense_stack_backward", gy, weight, kind, activation);
  lay_out(s, kept, true, false);
  const int64_t height = s.width * parts_of(s.kind);
  gx.must_be({s.rows, s.width}, "(rows, width)");
  if (gw.given() != gb.given()) call.refuse_call("only one of gw and gb is given: expected both, or none");
  gw.must_be({s.layers, height, s.width}, "(layers, parts·width, width)"), gb.must_be({s.layers, height}, "(layers, parts·width)");
  int threads = call.threads(threads_);
  scratch.must_be({scratch_of(s, threads)}, "scratch memory");
  const Closed mask("dense_stack_backward", closed, s.layers);
  if (s.width == 0) return;
  s.closed = mask.bytes(), s.gy = gy.data<const float>(), s.gx = gx.data<float>(), s.gw = gw.data<float>(), s.gb = gb.data<float>();
  s.stride = layer_size(together(s.rows), s.width);
  s.g = scratch.data<float>(), s.gz = s.g + s.stride;
  threads = useful_threads(s, threads);
  s.group = group_of(s, threads);
  const nb::gil_scoped_release free;
  const DenseStackKernels &kernels = *active.dense_stack;
  const int64_t blocks = pieces(s.rows, kernels.lanes), step = backward_rows_together / kernels.lanes;
  const int64_t tile = kernels.tile * (s.width < 512 ? 1 : 4);  // the weights of wide layers are copied for each tile
  const int64_t groups = s.layers > s.group ? pieces(s.layers, s.group) : 1, panels = kernels.panels(s);
  do {
    s.stop = s.start + step < blocks ? s.start + step : blocks;
    const int64_t count_blocks = s.stop - s.start, tiles = tiles_of(count_blocks, tile, threads);
    for (int64_t group = groups; group-- > 0;) {
      const int64_t first = s.layers * group / groups, last = s.layers * (group + 1) / groups, count = last - first;
      divide(threads, tiles, [&](int64_t i) {
        kernels.backward_rows(s, s.start + count_blocks * i / tiles, s.start + count_blocks * (i + 1) / tiles, first, last);
      });
      if (s.gw == nullptr || count == 0) continue;
      // Slices of a panel that stay in the second cache level; smaller ones if there are few layers and panels.
      const int64_t cached = pieces(height, 1024), needed = pieces((s.width < 96 ? 4 : 2) * threads, count * panels), smallest = pieces(height, 24);
      const int64_t slices = cached > needed ? cached : needed < smallest ? needed : smallest;
      divide(threads, count * panels * slices, [&](int64_t i) {
        const int64_t slice = i % slices, panel = apart(i / slices % panels, panels, threads);
        kernels.backward_weights(s, first + i / slices / panels, panel, height * slice / slices, height * (slice + 1) / slices);
      });
    }
    s.start = s.stop;
  } while (s.start < blocks);
}
