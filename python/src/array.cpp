#include "array.h"

#include <nanobind/stl/string.h>

#include <new>

namespace nb = nanobind;

namespace tw::python {
namespace {

constexpr size_t kAlignment = 64;

bool is_compact(const DLTensor& tensor) {
  int64_t expected = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

bool is_aligned(const DLTensor& tensor) {
  const uintptr_t element = tensor.dtype.bits / 8u;
  return element == 0 || reinterpret_cast<uintptr_t>(tensor.data) % element == 0;
}

template <typename... Framework>
nb::object as_array(const DLTensor& tensor, DLDataType dtype, const nb::capsule& owner) {
  return nb::cast(nb::ndarray<Framework...>(tensor.data, static_cast<size_t>(tensor.ndim),
                                            reinterpret_cast<const size_t*>(tensor.shape), owner, nullptr,
                                            nb::dlpack::dtype{dtype.code, static_cast<uint8_t>(dtype.bits), 1}));
}

}  // namespace

bool Array::view(nb::handle object, Access access) {
  if (access != Access::kWrite) {
    if (!nb::try_cast(object, owner_, false)) return false;
  } else {
    nb::ndarray<> writable;
    if (!nb::try_cast(object, writable, false)) return false;
    owner_ = nb::ndarray<nb::ro>(writable);
  }
  const nb::dlpack::dtype dtype = owner_.dtype();
  tensor_.data = const_cast<void*>(owner_.data());
  tensor_.device = {static_cast<DLDeviceType>(owner_.device_type()), owner_.device_id()};
  tensor_.ndim = static_cast<int32_t>(owner_.ndim());
  tensor_.dtype = {dtype.code, dtype.bits, dtype.lanes};
  tensor_.shape = const_cast<int64_t*>(owner_.shape_ptr());
  tensor_.strides = const_cast<int64_t*>(owner_.stride_ptr());
  return is_compact(tensor_) && is_aligned(tensor_);
}

Array::Array(nb::handle object, const std::string& name, Access access) {
  if (view(object, access)) return;
  const nb::object adapt = nb::module_::import_("tilewright._arrays").attr("adapt");
  const nb::object adapted = adapt(name, object, static_cast<int>(access));
  if (!view(adapted[0], access)) {
    throw nb::type_error(("the array for '" + name + "' cannot be viewed through DLPack").c_str());
  }
  if (nb::cast<bool>(adapted[1])) tensor_.dtype = {kDLBfloat, 16, 1};
}

std::vector<DLTensor> tensors_of(const std::vector<Array>& arrays) {
  std::vector<DLTensor> tensors;
  tensors.reserve(arrays.size());
  for (const Array& array : arrays) tensors.push_back(array.tensor());
  return tensors;
}

Result::Result(DLDataType dtype, const int64_t* shape, int32_t ndim) : shape_(shape, shape + ndim) {
  size_t bytes = dtype.bits / 8u;
  for (const int64_t extent : shape_) bytes *= static_cast<size_t>(extent);
  memory_.reset(std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment));
  if (memory_ == nullptr) throw std::bad_alloc();
  tensor_.data = memory_.get();
  tensor_.device = {kDLCPU, 0};
  tensor_.ndim = ndim;
  tensor_.dtype = dtype;
  tensor_.shape = shape_.data();
}

nb::object Result::release(Kind kind) {
  DLDataType dtype = tensor_.dtype;
  if (dtype.code == kDLBfloat && (kind == Kind::kNumpy || kind == Kind::kMemoryView)) dtype.code = kDLUInt;
  tensor_.shape = shape_.data();  // the result may have moved since it was made
  const nb::capsule owner(memory_.release(), [](void* memory) noexcept { std::free(memory); });
  switch (kind) {
    case Kind::kNumpy:
      return as_array<nb::numpy>(tensor_, dtype, owner);
    case Kind::kTorch:
      return as_array<nb::pytorch>(tensor_, dtype, owner);
    case Kind::kJax:
      return as_array<nb::jax>(tensor_, dtype, owner);
    case Kind::kMemoryView:
      return as_array<nb::memview>(tensor_, dtype, owner);
    case Kind::kDLPack:
      break;
  }
  return as_array<>(tensor_, dtype, owner);
}

std::string dtype_name(DLDataType dtype) {
  const std::string bits = std::to_string(int{dtype.bits});
  switch (dtype.code) {
    case kDLInt:
      return "int" + bits;
    case kDLUInt:
      return "uint" + bits;
    case kDLBfloat:
      return "bfloat" + bits;
    case kDLBool:
      return "bool";
    default:
      return "float" + bits;
  }
}

}  // namespace tw::python
