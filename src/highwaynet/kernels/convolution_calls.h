// Convolutions: a part of module.cpp, which includes it after `divide` and `active`.

// A convolution as the calls get it: x is (N, in, H, W) and gy (N, out, H, W) in channels_last format, the weight is (out, in, 3, 3).
struct ConvolutionShape {
  ConvolutionShape(const Call &call, const Array &x, const Array &weight) {
    if (x.dims() != 4) call.refuse_call("x has shape " + x.shape() + ": expected (N, in, H, W) in channels_last format");
    if (weight.dims() != 4) call.refuse_call("weight has shape " + weight.shape() + ": expected (out, in, 3, 3)");
    samples = x.size(0), in = x.size(1), height = x.size(2), width = x.size(3), out = weight.size(0);
    weight.must_be({out, in, 3, 3}, "(out, in, 3, 3)");
    if (in < least_channels || out < least_channels)
      call.refuse_call("weight has shape " + weight.shape() + ": expected at least " + std::to_string(least_channels) + " channels");
    if (in > most_channels || out > most_channels)
      call.refuse_call("weight has shape " + weight.shape() + ": expected at most " + std::to_string(most_channels) + " channels");
    tiles = x.count() > 0 ? samples * pieces(height, 4) * pieces(width, 4) : 0;
  }

  // Outputs, and their gradients.
  void check(const Array &array) const { array.must_be({samples, out, height, width}, "(N, out, H, W)"); }

  Convolution operands() const {
    Convolution c = {};
    c.samples = samples, c.height = height, c.width = width, c.in = in, c.out = out;
    return c;
  }

  // Waking threads takes as long as some 100 000 multiplications and additions.
  int useful(int threads) const { return double(tiles) * double(in) * double(out) < 4e3 ? 1 : threads; }

  // How the gradients of the weights are summed: output channels in groups, and for each of them tiles in parts, whose sums are added up at the
  // end. Neither depends on the number of threads, and so do not the results.
  int64_t groups() const { return pieces(out, 64); }
  int64_t first_channel(int64_t group) const {
    return group == groups() ? out : pieces(out, least_channels) * group / groups() * least_channels;
  }
  int64_t parts() const {
    constexpr int64_t tasks = 16, least_blocks = 2;
    const int64_t most = tiles / (least_blocks * active.convolution->block(in, out));
    return std::max<int64_t>(1, std::min(pieces(tasks, groups()), most));
  }

  static constexpr int64_t most_channels = 1 << 16;
  int64_t samples, in, out, height, width, tiles;
};

// Rounded up to whole vectors of any instruction set.
int64_t whole(int64_t channels) { return pieces(channels, least_channels) * least_channels; }

int64_t prepared_size(const ConvolutionShape &s) {  // also of the turned weights
  return std::max(active.convolution->prepared(s.in, s.out), active.convolution->prepared(s.out, s.in));
}
int64_t sums_size(const ConvolutionShape &s) { return (36 * s.in + 1) * whole(s.out) * s.parts(); }

// Memory of one thread.
int64_t own_size(const ConvolutionShape &s) {
  return active.convolution->scratch(s.in, s.out);  // the same for the gradient of x, and enough for that of the weights
}

// How many floats of scratch memory a call needs. The gradients of x and of the weights are computed one after the other in the same memory.
int64_t convolution_scratch(nb::handle x_, nb::handle weight_, bool backward, int64_t threads) {
  Call call(backward ? "convolution_backward" : "convolution");
  const Array x = call.reads("x", x_, float32, Layout::rows), weight = call.reads("weight", weight_);
  const ConvolutionShape s(call, x, weight);
  const int64_t shared = backward ? std::max(prepared_size(s), sums_size(s)) : prepared_size(s);
  return shared + call.threads(threads) * own_size(s);
}

// function(task, own memory) for all tasks; each thread has memory of its own.
template <typename Function>
void divide_with_memory(int threads, int64_t tasks, float *memory, int64_t size, Function function) {
  std::atomic<int64_t> next{0};
  const int64_t most = threads < tasks ? threads : tasks;
  divide(threads, most, [&](int64_t thread) {
    for (int64_t task; (task = next.fetch_add(1)) < tasks;) function(task, memory + thread * size);
  });
}

void prepare_weight(const float *weight, const ConvolutionShape &s, bool turned, float *prepared, int threads) {
  constexpr int64_t channels = 8;
  const int64_t from = turned ? s.out : s.in;
  divide(threads, pieces(from, channels), [&](int64_t task) {
    active.convolution->prepare(weight, s.in, s.out, turned, prepared, task * channels, std::min(from, (task + 1) * channels));
  });
}

void convolve_tiles(const Convolution &c, int64_t tiles, float *memory, int64_t size, int threads) {
  constexpr int64_t tasks_per_thread = 4;  // so that a delayed thread does not delay the others
  const int64_t block = active.convolution->block(c.in, c.out), blocks = pieces(tiles, block);
  const int64_t tasks = threads > 1 ? std::min(blocks, tasks_per_thread * threads) : 1;
  divide_with_memory(threads, tasks, memory, size, [&](int64_t task, float *own) {
    active.convolution->forward(c, blocks * task / tasks * block, std::min(tiles, blocks * (task + 1) / tasks * block), own);
  });
}

void convolution(nb::handle x_, nb::handle weight_, nb::handle bias_, nb::handle y_, nb::handle scratch_, int64_t threads) {
  Call call("convolution");
  const Array x = call.reads("x", x_, float32, Layout::rows), weight = call.reads("weight", weight_), bias = call.may_read("bias", bias_);
  const Array y = call.writes("y", y_, Layout::rows), scratch = call.writes("scratch", scratch_);
  const ConvolutionShape s(call, x, weight);
  bias.must_be({s.out}, "(out,)"), s.check(y);
  const int asked = call.threads(threads), count = s.useful(asked);
  const int64_t own = own_size(s), shared = prepared_size(s);
  scratch.must_be({shared + asked * own}, "(convolution_scratch(…),)");
  if (y.count() == 0) return;
  float *const prepared = scratch.data<float>();
  Convolution c = s.operands();
  c.x = x.data<const float>(), c.bias = bias.data<const float>(), c.prepared = prepared, c.y = y.data<float>();
  const nb::gil_scoped_release free;
  prepare_weight(weight.data<const float>(), s, false, prepared, count);
  convolve_tiles(c, s.tiles, prepared + shared, own, count);
}

// The gradients of x, and of the weights and the bias; gx may be missing, and so may gb, or gw and gb.
void convolution_backward(nb::handle gy_, nb::handle x_, nb::handle weight_, nb::handle gx_, nb::handle gw_, nb::handle gb_,
                          nb::handle scratch_, int64_t threads) {
  Call call("convolution_backward");
  const Array gy = call.reads("gy", gy_, float32, Layout::rows), x = call.reads("x", x_, float32, Layout::rows);
  const Array weight = call.reads("weight", weight_);
  const Array gx = gx_.is_none() ? Array() : call.writes("gx", gx_, Layout::rows);
  const Array gw = call.may_write("gw", gw_), gb = call.may_write("gb", gb_), scratch = call.writes("scratch", scratch_);
  const ConvolutionShape s(call, x, weight);
  s.check(gy), gx.must_be({s.samples, s.in, s.height, s.width}, "(N, in, H, W)");
  gw.must_be({s.out, s.in, 3, 3}, "(out, in, 3, 3)"), gb.must_be({s.out}, "(out,)");
  if (gb.given() && !gw.given()) call.refuse_call("gb is given without gw: expected both");
  const int asked = call.threads(threads), count = s.useful(asked);
  const int64_t own = own_size(s), shared = std::max(prepared_size(s), sums_size(s));
  scratch.must_be({shared + asked * own}, "(convolution_scratch(…),)");
  float *const common = scratch.data<float>(), *const memory = common + shared;
  const nb::gil_scoped_release free;
  if (gx.given() && s.tiles > 0) {
    prepare_weight(weight.data<const float>(), s, true, common, count);
    Convolution c = s.operands();
    c.x = gy.data<const float>(), c.prepared = common, c.y = gx.data<float>(), c.in = s.out, c.out = s.in;
    convolve_tiles(c, s.tiles, memory, own, count);
  }
  if (!gw.given()) return;
  Convolution c = s.operands();
  c.x = x.data<const float>(), c.gy = gy.data<const float>();
  const int64_t groups = s.groups(), parts = s.parts(), block = active.convolution->block(s.in, s.out), blocks = pieces(s.tiles, block);
  const auto sums_of = [&](int64_t group) { return common + (36 * s.in + 1) * s.first_channel(group) * parts; };
  const auto size_of = [&](int64_t group) { return s.first_channel(group + 1) - s.first_channel(group); };
  divide_with_memory(count, groups * parts, memory, own, [&](int64_t task, float *mine) {
    const int64_t group = task / parts, part = task % parts, chunk = size_of(group), size = (36 * s.in + 1) * whole(chunk);
    active.convolution->gradient(c, blocks * part / parts * block, std::min(s.tiles, blocks * (part + 1) / parts * block),
                                 s.first_channel(group), chunk, sums_of(group) + part * size, mine);
  });
  divide(count, groups, [&](int64_t group) {
    const int64_t chunk = size_of(group);
    active.convolution->finish(sums_of(group), parts, (36 * s.in + 1) * whole(chunk), s.in, s.first_channel(group), chunk, gw.data<float>(),
                               gb.given() ? gb.data<float>() : nullptr);
  });
}
