// The gating of highway layers, maxout, single dense layers, and the loss: a part of module.cpp, which includes it after `divide` and `active`.

// Divides rows of `width` elements among threads.
template <typename Operands>
void run(void (*kernel)(const Operands &, int64_t, int64_t), const Operands &operands, int64_t rows, int64_t width, int threads) {
  constexpr int64_t smallest_split = 32768;  // elements; below, waking threads takes longer than the work
  constexpr int64_t parts_per_thread = 4;    // so that a delayed thread does not delay the others
  if (rows * width < smallest_split) threads = 1;
  const int64_t parts = threads > 1 && rows > parts_per_thread * threads ? parts_per_thread * threads : threads > 1 ? rows : 1;
  const nb::gil_scoped_release free;
  divide(threads, parts, [&](int64_t part) { kernel(operands, rows * part / parts, rows * (part + 1) / parts); });
}

// ----- Gating

// The shape of x, and of all that has as many channels; z and gz have twice as many.
struct GatedShape {
  GatedShape(const Call &call, const Array &x) : axes(x.dims()) {
    if (axes != 2 && axes != 4)
      call.refuse_call("x has shape " + x.shape() + ": expected (rows, channels), or (N, C, H, W) in channels_last format");
    for (int axis = 0; axis < axes; ++axis) size[axis] = x.size(axis);
    rows = size[0] * (axes == 4 ? size[2] * size[3] : 1);
  }

  void check(const Array &array, int64_t parts) const {
    if (axes == 2) return array.must_be({size[0], parts * size[1]}, parts == 1 ? "(rows, channels)" : "(rows, 2·channels)");
    array.must_be({size[0], parts * size[1], size[2], size[3]}, parts == 1 ? "(N, C, H, W)" : "(N, 2·C, H, W)");
  }

  int axes;
  int64_t rows, size[4];
};

void gate(nb::handle x_, nb::handle z_, nb::handle y_, const std::string &activation, int64_t threads) {
  Call call("gate");
  const Array x = call.reads_rows("x", x_), z = call.reads_rows("z", z_), y = call.writes_rows("y", y_);
  const GatedShape shape(call, x);
  shape.check(z, 2), shape.check(y, 1);
  const Gating gating{x.data<void>(), z.data<void>(), nullptr, y.data<void>(), nullptr, nullptr, shape.size[1],
                      activation_of("gate", activation)};
  const int count = call.threads(threads);
  const auto &kernels = call.is_bfloat16() ? active.gating->bfloat16 : active.gating->float32;
  if (x.count() > 0) run(kernels.forward, gating, shape.rows, shape.size[1], count);
}

void gate_backward(nb::handle gy_, nb::handle x_, nb::handle z_, nb::handle gx_, nb::handle gz_, const std::string &activation,
                   int64_t threads) {
  Call call("gate_backward");
  const Array gy = call.reads_rows("gy", gy_), x = call.reads_rows("x", x_), z = call.reads_rows("z", z_);
  const Array gx = call.writes_rows("gx", gx_), gz = call.writes_rows("gz", gz_);
  const GatedShape shape(call, x);
  shape.check(gy, 1), shape.check(z, 2), shape.check(gx, 1), shape.check(gz, 2);
  const Gating gating{x.data<void>(), z.data<void>(), gy.data<void>(), nullptr, gx.data<void>(),
                      gz.data<void>(), shape.size[1], activation_of("gate_backward", activation)};
  const int count = call.threads(threads);
  const auto &kernels = call.is_bfloat16() ? active.gating->bfloat16 : active.gating->float32;
  if (x.count() > 0) run(kernels.backward, gating, shape.rows, shape.size[1], count);
}

// ----- Maxout

// The shape of z, and of what has one piece of it.
struct MaxoutShape {
  MaxoutShape(const Call &call, const Array &z, int64_t pieces_) : axes(z.dims()), pieces(pieces_) {
    if (axes != 2 && axes != 4)
      call.refuse_call("z has shape " + z.shape() + ": expected (rows, pieces·width), or (N, pieces·C, H, W) in channels_last format");
    if (pieces < 2 || pieces > most_pieces)
      call.refuse_call("pieces = " + std::to_string(pieces) + ": expected a number from 2 to " + std::to_string(most_pieces));
    if (z.size(1) % pieces != 0)
      call.refuse_call("z has shape " + z.shape() + ": expected a multiple of pieces = " + std::to_string(pieces) + " in its second axis");
    for (int axis = 0; axis < axes; ++axis) size[axis] = z.size(axis);
    width = size[1] / pieces;
    rows = size[0] * (axes == 4 ? size[2] * size[3] : 1);
  }

  void check(const Array &array, int64_t parts) const {
    if (axes == 2) return array.must_be({size[0], parts * width}, parts == 1 ? "(rows, width)" : "(rows, pieces·width)");
    array.must_be({size[0], parts * width, size[2], size[3]}, parts == 1 ? "(N, C, H, W)" : "(N, pieces·C, H, W)");
  }

  int axes;
  int64_t pieces, width, rows, size[4];
};

void maxout(nb::handle z_, nb::handle y_, int64_t pieces, int64_t threads) {
  Call call("maxout");
  const Array z = call.reads_rows("z", z_), y = call.writes_rows("y", y_);
  const MaxoutShape shape(call, z, pieces);
  shape.check(y, 1);
  const Maxout operands{z.data<void>(), nullptr, y.data<void>(), nullptr, pieces, shape.width};
  const int count = call.threads(threads);
  const auto &kernels = call.is_bfloat16() ? active.maxout->bfloat16 : active.maxout->float32;
  if (y.count() > 0) run(kernels.forward, operands, shape.rows, shape.width, count);
}

void maxout_backward(nb::handle gy_, nb::handle z_, nb::handle gz_, int64_t pieces, int64_t threads) {
  Call call("maxout_backward");
  const Array gy = call.reads_rows("gy", gy_), z = call.reads_rows("z", z_), gz = call.writes_rows("gz", gz_);
  const MaxoutShape shape(call, z, pieces);
  shape.check(gy, 1), shape.check(gz, pieces);
  const Maxout operands{z.data<void>(), gy.data<void>(), nullptr, gz.data<void>(), pieces, shape.width};
  const int count = call.threads(threads);
  const auto &kernels = call.is_bfloat16() ? active.maxout->bfloat16 : active.maxout->float32;
  if (gy.count() > 0) run(kernels.backward, operands, shape.rows, shape.width, count);
}

// ----- Single dense layers, and the loss

void activate(nb::handle z_, nb::handle bias_, const std::string &activation) {
  Call call("activate");
  const Array z = call.writes("z", z_), bias = call.reads("bias", bias_);
  z.must_have(2, "(rows, width)");
  const int64_t rows = z.size(0), width = z.size(1);
  bias.must_be({width}, "(width,)");
  const Activation number = activation_of("activate", activation);
  const nb::gil_scoped_release free;
  if (rows > 0) active.dense_layer->activate(z.data<float>(), bias.data<const float>(), rows, width, number);
}

// gz may be gy, and for a single row it may be gb.
void activation_gradient(nb::handle gy_, nb::handle y_, nb::handle gz_, nb::handle gb_, const std::string &activation) {
  Call call("activation_gradient");
  const Array gy = call.reads("gy", gy_), y = call.reads("y", y_);
  gy.must_have(2, "(rows, width)");
  const int64_t rows = gy.size(0), width = gy.size(1);
  const Array gz = call.writes("gz", gz_, Layout::contiguous, &gy);
  const Array gb = call.writes("gb", gb_, Layout::contiguous, rows == 1 ? &gz : nullptr);
  y.must_be({rows, width}, "(rows, width)"), gz.must_be({rows, width}, "(rows, width)"), gb.must_be({width}, "(width,)");
  const Activation number = activation_of("activation_gradient", activation);
  const nb::gil_scoped_release free;
  active.dense_layer->gradient(gy.data<const float>(), y.data<const float>(), gz.data<float>(), gb.data<float>(), rows, width, number);
}

float cross_entropy(nb::handle logits_, nb::handle targets_, nb::handle gradient_) {
  Call call("cross_entropy");
  const Array logits = call.reads("logits", logits_), targets = call.reads("targets", targets_, int64);
  const Array gradient = call.writes("gradient", gradient_);
  logits.must_have(2, "(rows, classes)");
  const int64_t rows = logits.size(0), classes = logits.size(1);
  if (rows == 0 || classes == 0) call.refuse_call("logits has shape " + logits.shape() + ": expected at least one row and one class");
  targets.must_be({rows}, "(rows,)"), gradient.must_be({rows, classes}, "(rows, classes)");
  const int64_t *const numbers = targets.data<const int64_t>();
  for (int64_t row = 0; row < rows; ++row)
    if (numbers[row] < 0 || numbers[row] >= classes)
      call.refuse_call("targets[" + std::to_string(row) + "] = " + std::to_string(numbers[row]) +
                       ": expected a class number from 0 to " + std::to_string(classes - 1));
  const nb::gil_scoped_release free;
  return active.dense_layer->cross_entropy(logits.data<const float>(), numbers, gradient.data<float>(), rows, classes);
}
