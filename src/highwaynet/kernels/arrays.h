// Tensors that Python passes, checked before a kernel gets their addresses: type, shape, memory layout and device, and that nothing is
// written over what is read. A wrong one is refused with a sentence that names the operator, the argument, what it is and what it should be.
//
// A part of module.cpp. torch describes its tensors as DLPack does, so that neither its headers nor its libraries are needed.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>

namespace highwaynet {
namespace {

namespace nb = nanobind;

[[noreturn]] void refuse(const char *call, const std::string &sentence) {
  throw std::invalid_argument(std::string("highwaynet::") + call + ": " + sentence);
}

template <typename Sizes>
std::string listed(const Sizes &sizes) {
  std::string text = "(";
  for (const int64_t size : sizes) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + (sizes.size() == 1 ? ",)" : ")");
}

struct Type {
  nb::dlpack::dtype dtype;
  const char *name;
};
constexpr Type float32 = {{static_cast<uint8_t>(nb::dlpack::dtype_code::Float), 32, 1}, "float32"};
constexpr Type bfloat16 = {{static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1}, "bfloat16"};
constexpr Type int64 = {{static_cast<uint8_t>(nb::dlpack::dtype_code::Int), 64, 1}, "int64"};

// ----- torch's description of a tensor

// The table of functions that torch offers for this (DLPack's C exchange interface, in newer versions of torch): nothing is allocated.
struct Exchange {
  struct {
    uint32_t major, minor;
  } version;
  const Exchange *older;
  void *allocate, *to_managed, *from_managed;
  int (*to_borrowed)(void *tensor, nb::dlpack::dltensor *found);  // not 0 if it fails, with a Python error
};

struct Torch {
  nb::object tensor, to_dlpack, is_neg;
  const Exchange *exchange = nullptr;

  Torch()
      : tensor(nb::module_::import_("torch").attr("Tensor")),
        to_dlpack(nb::module_::import_("torch.utils.dlpack").attr("to_dlpack")),
        is_neg(nb::steal(PyUnicode_InternFromString("is_neg"))) {
    const nb::object table = nb::getattr(tensor, "__dlpack_c_exchange_api__", nb::none());
    if (!PyCapsule_IsValid(table.ptr(), "dlpack_exchange_api")) return;
    exchange = static_cast<const Exchange *>(PyCapsule_GetPointer(table.ptr(), "dlpack_exchange_api"));
    if (exchange->version.major != 1 || exchange->to_borrowed == nullptr) exchange = nullptr;
  }

  static const Torch &loaded() {
    static const Torch *const torch = new Torch;  // never freed: Python may end before us
    return *torch;
  }
};

// The tensor must outlive it.
struct Description {
  nb::dlpack::dltensor tensor;
  nb::object capsule;  // if torch has no such table: it owns shape and strides
  bool negated = false;

  // False if torch cannot describe it as dense memory, with a Python error.
  bool read(nb::handle object) {
    const Torch &torch = Torch::loaded();
    if (torch.exchange != nullptr) {
      if (torch.exchange->to_borrowed(object.ptr(), &tensor) != 0) return false;
    } else {
      capsule = nb::steal(PyObject_CallOneArg(torch.to_dlpack.ptr(), object.ptr()));  // unlike Tensor.__dlpack__, it also takes parameters
      const void *const found = capsule.is_valid() ? PyCapsule_GetPointer(capsule.ptr(), "dltensor") : nullptr;
      if (found == nullptr) return false;
      tensor = *static_cast<const nb::dlpack::dltensor *>(found);  // the first field of a managed tensor
    }
    const nb::object answer = nb::steal(PyObject_CallMethodNoArgs(object.ptr(), torch.is_neg.ptr()));
    negated = answer.ptr() == Py_True;
    return answer.is_valid();
  }
};

bool is_tensor(nb::handle object) {
  return PyObject_TypeCheck(object.ptr(), reinterpret_cast<PyTypeObject *>(Torch::loaded().tensor.ptr()));
}

// ----- One argument

constexpr int32_t on_cpu = 1;  // DLPack's number

// contiguous: as torch's default. rows: (rows, features) contiguous, or (N, C, H, W) in channels_last format, whose rows are the pixels.
enum class Layout { contiguous, rows };

// The tensor must outlive it, as arguments outlive the call. One that was left out (None) has no memory.
class Array {
 public:
  Array() = default;
  Array(const char *call, const char *name, nb::handle object) : call_(call), name_(name), given_(true) {
    if (!is_tensor(object))
      throw nb::type_error((std::string("highwaynet::") + call + ": " + name + " is of type " + Py_TYPE(object.ptr())->tp_name +
                            ": expected a tensor").c_str());
    if (!description_.read(object)) {
      const nb::python_error error;
      const std::string reason = nb::str(error.value()).c_str();
      refuse(call, std::string(name) + " cannot be read from memory: expected a dense tensor on the CPU (" +
                       reason.substr(0, reason.find('\n')) + ")");
    }
    if (description_.negated) refuse(call, std::string(name) + " is negated when it is read: expected its values in memory; use .resolve_neg()");
  }

  bool given() const { return given_; }
  int dims() const { return description_.tensor.ndim; }
  int64_t size(int axis) const { return description_.tensor.shape[axis]; }
  std::string shape() const { return listed(nb_span{description_.tensor.shape, description_.tensor.ndim}); }
  const char *name() const { return name_; }
  // bfloat16, or else float32, which others are expected to be.
  Type number() const { return description_.tensor.dtype == bfloat16.dtype ? bfloat16 : float32; }

  int64_t count() const {
    for (int axis = 0; axis < dims(); ++axis)
      if (size(axis) == 0) return 0;  // whatever the other sizes are: their product may overflow
    int64_t product = 1;
    for (int axis = 0; axis < dims(); ++axis) product *= size(axis);
    return product;
  }

  template <typename T>
  T *data() const {
    return !given_ ? nullptr : reinterpret_cast<T *>(static_cast<char *>(description_.tensor.data) + description_.tensor.byte_offset);
  }

  void must_have(int dims, const char *meaning) const {
    if (description_.tensor.ndim != dims) refuse(call_, std::string(name_) + " has shape " + shape() + ": expected " + meaning);
  }

  void must_be(std::initializer_list<int64_t> expected, const char *meaning) const {
    if (!given_) return;
    bool equal = description_.tensor.ndim == static_cast<int>(expected.size());
    for (int axis = 0; equal && axis < dims(); ++axis) equal = size(axis) == expected.begin()[axis];
    if (!equal) refuse(call_, std::string(name_) + " has shape " + shape() + ": expected " + meaning + " = " + listed(expected));
  }

 private:
  friend class Call;

  struct nb_span {
    const int64_t *first;
    int count;
    const int64_t *begin() const { return first; }
    const int64_t *end() const { return first + count; }
    size_t size() const { return static_cast<size_t>(count); }
  };

  std::string type() const {
    const char *kinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
    const uint8_t code = description_.tensor.dtype.code;
    if (code == static_cast<uint8_t>(nb::dlpack::dtype_code::Bool)) return "bool";
    return (code < 7 ? kinds[code] : "a number of ") + std::to_string(description_.tensor.dtype.bits) + (code < 7 ? "" : " bits");
  }

  // Whether numbers lie one after the other if the axes are taken in this order; strides of axes of size 1 mean nothing.
  bool lies(std::initializer_list<int> from_innermost) const {
    int64_t expected = 1;
    for (const int axis : from_innermost) {
      if (size(axis) != 1 && description_.tensor.strides != nullptr && description_.tensor.strides[axis] != expected) return false;
      expected *= size(axis);
    }
    return true;
  }

  bool lies_contiguous() const {
    int64_t expected = 1;
    for (int axis = dims(); axis-- > 0; expected *= size(axis))
      if (size(axis) != 1 && description_.tensor.strides != nullptr && description_.tensor.strides[axis] != expected) return false;
    return true;
  }

  void check(Type type_wanted, Layout layout) const {
    constexpr int64_t most = int64_t(1) << 40;  // so that no size that is computed from sizes overflows; also of tensors without numbers
    if (description_.tensor.device.device_type != on_cpu) refuse(call_, std::string(name_) + " is not on the CPU: expected a CPU tensor; move it with .cpu()");
    if (description_.tensor.dtype != type_wanted.dtype)
      refuse(call_, std::string(name_) + " has type " + type() + ": expected " + type_wanted.name + "; convert it with .to(torch." +
                        type_wanted.name + ")");
    bool empty = false;
    for (int axis = 0; axis < dims(); ++axis) {
      empty = empty || size(axis) == 0;
      if (size(axis) > most) refuse(call_, std::string(name_) + " has shape " + shape() + ": expected at most 2^40 along an axis");
    }
    if (empty) return;
    const auto address = reinterpret_cast<uintptr_t>(data<char>());
    if (address == 0) refuse(call_, std::string(name_) + " has no memory: expected a tensor with values; copy it with .clone()");
    if (address % (type_wanted.dtype.bits / 8) != 0)
      refuse(call_, std::string(name_) + " begins between two numbers: expected an aligned address; copy it with .clone()");
    if (layout == Layout::rows && dims() == 4 ? lies({1, 3, 2, 0}) : lies_contiguous()) return;
    const std::string strides = listed(nb_span{description_.tensor.strides, description_.tensor.ndim});
    refuse(call_, std::string(name_) + " has shape " + shape() + " and strides " + strides + ": expected " +
                      (layout == Layout::rows && dims() == 4 ? "channels_last format; use .contiguous(memory_format=torch.channels_last)"
                                                             : "contiguous memory; use .contiguous()"));
  }

  const char *call_ = "", *name_ = "";
  bool given_ = false;
  Description description_;
};

// ----- A call

// The arguments of one call, in the order in which they are asked for. What a kernel writes must not overlap anything else.
class Call {
 public:
  explicit Call(const char *name) : name_(name) {}

  Array reads(const char *name, nb::handle tensor, Type type = float32, Layout layout = Layout::contiguous) {
    return taken(name, tensor, type, layout, false);
  }
  // With `same`, the memory may be exactly that of another argument.
  Array writes(const char *name, nb::handle tensor, Layout layout = Layout::contiguous, const Array *same = nullptr, Type type = float32) {
    return taken(name, tensor, type, layout, true, same);
  }
  // Rows of float32 or bfloat16; the first argument decides which.
  Array reads_rows(const char *name, nb::handle tensor) { return rows(Array(name_, name, tensor), false); }
  Array writes_rows(const char *name, nb::handle tensor) { return rows(Array(name_, name, tensor), true); }
  bool is_bfloat16() const { return rows_.name == bfloat16.name; }
  Array may_read(const char *name, nb::handle tensor) { return tensor.is_none() ? Array() : reads(name, tensor); }
  Array may_write(const char *name, nb::handle tensor) { return tensor.is_none() ? Array() : writes(name, tensor); }

  int threads(int64_t count) const {
    if (count < 1 || count > 1 << 20) refuse(name_, "threads = " + std::to_string(count) + ": expected at least 1");
    return static_cast<int>(count);
  }

  [[noreturn]] void refuse_call(const std::string &sentence) const { refuse(name_, sentence); }

 private:
  struct Range {
    const char *name;
    uintptr_t first, last;
    bool written;
  };

  Array rows(const Array &array, bool written) {
    if (count_ == 0) rows_ = array.number();
    return checked(array, rows_, Layout::rows, written);
  }

  Array taken(const char *name, nb::handle tensor, Type type, Layout layout, bool written, const Array *same = nullptr) {
    return checked(Array(name_, name, tensor), type, layout, written, same);
  }

  Array checked(const Array &array, Type type, Layout layout, bool written, const Array *same = nullptr) {
    const char *const name = array.name();
    array.check(type, layout);
    const auto first = reinterpret_cast<uintptr_t>(array.data<char>());
    const Range own = {name, first, first + static_cast<uintptr_t>(array.count()) * (type.dtype.bits / 8), written};
    for (int i = 0; i < count_; ++i) {
      const Range &other = ranges_[i];
      if (same != nullptr && other.name == same->name() && other.first == own.first && other.last == own.last) continue;
      if ((own.written || other.written) && own.first < other.last && other.first < own.last)
        refuse(name_, std::string(own.written ? name : other.name) + " shares memory with " + (own.written ? other.name : name) +
                          ": expected memory of its own");
    }
    ranges_[count_++] = own;
    return array;
  }

  const char *name_;
  Type rows_ = float32;
  Range ranges_[16];
  int count_ = 0;
};

// Whether kernels can read all of these tensors: dense memory on the CPU, without lazy negation or lazy zeros, at aligned addresses.
bool readable(nb::args tensors) {
  for (const nb::handle object : tensors) {
    Description found;
    if (!is_tensor(object)) return false;
    if (!found.read(object)) {
      PyErr_Clear();
      return false;
    }
    const auto address = reinterpret_cast<uintptr_t>(found.tensor.data) + found.tensor.byte_offset;
    bool empty = false;
    for (int axis = 0; axis < found.tensor.ndim; ++axis) empty = empty || found.tensor.shape[axis] == 0;
    if (found.tensor.device.device_type != on_cpu || found.negated) return false;
    if (!empty && (found.tensor.data == nullptr || address % (found.tensor.dtype.bits > 8 ? found.tensor.dtype.bits / 8 : 1) != 0)) return false;
  }
  return true;
}

}  // namespace
}  // namespace highwaynet
