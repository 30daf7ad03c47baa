// Recurrent highway layers: a part of module.cpp, which includes it after `divide` and `active`.

// Python passes sizes and addresses as lists, in the order of these fields.
Recurrent recurrent_of(const std::vector<int64_t> &sizes) {
  Recurrent s = {};
  s.steps = sizes.at(0), s.rows = sizes.at(1), s.total = sizes.at(2), s.inputs = sizes.at(3), s.width = sizes.at(4), s.depth = sizes.at(5);
  s.parts = sizes.at(6), s.activation = activation_of(static_cast<int>(sizes.at(7)));
  if (s.parts != 2 && s.parts != 3) throw std::invalid_argument("a recurrent highway layer has 2 or 3 parts");
  return s;
}

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

// How many floats the forward pass needs: in `kept`, and as scratch.
std::vector<int64_t> recurrent_memory(const std::vector<int64_t> &sizes, bool keep, bool masked) {
  const Recurrent s = recurrent_of(sizes);
  const int64_t one = s.rows * state_size(s);
  return {keep ? (1 + s.parts) * s.depth * s.total * state_size(s) : 2 * one,
          active.recurrent->packed_size(s, false) + (masked ? 2 * one : 0)};
}

// How many floats the backward pass needs as scratch.
int64_t recurrent_scratch(const std::vector<int64_t> &sizes, bool masked) {
  const Recurrent s = recurrent_of(sizes);
  const int64_t steps = chunk_steps(s), chunk = (steps < s.steps ? steps : s.steps) * s.rows, size = state_size(s);
  return active.recurrent->packed_size(s, true) + s.rows * size +
         s.depth * chunk * (s.parts * size + active.recurrent->lanes + (masked ? size : 0));
}

// Addresses: counts, offsets, closed, x, start, mask, input_weight, weight, bias, y, kept, scratch.
void recurrent_forward(const std::vector<int64_t> &sizes, const std::vector<uintptr_t> &addresses, bool keep, int threads) {
  Recurrent s = recurrent_of(sizes);
  const RecurrentKernels &kernels = *active.recurrent;
  s.counts = pointer<const int64_t>(addresses.at(0)), s.offsets = pointer<const int64_t>(addresses.at(1));
  s.closed = pointer<const uint8_t>(addresses.at(2)), s.x = pointer<const float>(addresses.at(3));
  s.start = pointer<const float>(addresses.at(4)), s.mask = pointer<const float>(addresses.at(5));
  s.input_weight = pointer<const float>(addresses.at(6)), s.weight = pointer<const float>(addresses.at(7));
  s.bias = pointer<const float>(addresses.at(8)), s.y = pointer<float>(addresses.at(9)), s.kept = pointer<float>(addresses.at(10));
  s.packed = pointer<float>(addresses.at(11)), s.fed = s.packed + kernels.packed_size(s, false), s.keep = keep;
  threads = useful_threads(s, threads);
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

// Addresses: counts, offsets, closed, x, mask, input_weight, weight, kept, gy, gx, gstart, giw, gw, gb, scratch; gx may be 0, and giw, gw
// and gb together.
void recurrent_backward(const std::vector<int64_t> &sizes, const std::vector<uintptr_t> &addresses, int threads) {
  Recurrent s = recurrent_of(sizes);
  const RecurrentKernels &kernels = *active.recurrent;
  s.counts = pointer<const int64_t>(addresses.at(0)), s.offsets = pointer<const int64_t>(addresses.at(1));
  s.closed = pointer<const uint8_t>(addresses.at(2)), s.x = pointer<const float>(addresses.at(3));
  s.mask = pointer<const float>(addresses.at(4)), s.input_weight = pointer<const float>(addresses.at(5));
  s.weight = pointer<const float>(addresses.at(6)), s.kept = pointer<float>(addresses.at(7)), s.gy = pointer<const float>(addresses.at(8));
  s.gx = pointer<float>(addresses.at(9)), s.gstart = pointer<float>(addresses.at(10)), s.giw = pointer<float>(addresses.at(11));
  s.gw = pointer<float>(addresses.at(12)), s.gb = pointer<float>(addresses.at(13)), s.packed = pointer<float>(addresses.at(14));
  s.keep = true, s.g = s.packed + kernels.packed_size(s, true), s.gz = s.g + s.rows * state_size(s);
  const int64_t together = chunk_steps(s);
  s.chunk = (together < s.steps ? together : s.steps) * s.rows;
  if (s.mask != nullptr) s.seen = s.gz + s.depth * s.chunk * (s.parts * state_size(s) + kernels.lanes);
  threads = useful_threads(s, threads);
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
