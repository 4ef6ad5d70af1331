// Arrays between Python and DLTensor, without a copy.
#pragma once
#include <dlpack/dlpack.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace tw::python {

/// Whose arrays a run returns; the numbers are those of tilewright/_arrays.py.
enum class Kind : int { kNumpy = 0, kTorch = 1, kJax = 2, kMemoryView = 3, kDLPack = 4 };

/// kRead: for one run. kKeep: what a caller writes there later is read, too. kWrite: results go there.
enum class Access : int { kRead = 0, kKeep = 1, kWrite = 2 };

/// An array of a caller, seen as a tensor; keeps it alive. Needs the GIL, to be destroyed, too.
class Array {
 public:
  /// Views `object`: anything with __dlpack__ or the buffer protocol. What cannot be viewed as it is (strided, foreign
  /// byte order, a gradient attached) goes through tilewright._arrays.adapt(name, object, access), which copies it with
  /// a warning where it is only read, or raises with the reason.
  Array(nanobind::handle object, const std::string& name, Access access);

  const DLTensor& tensor() const { return tensor_; }

 private:
  bool view(nanobind::handle object, Access access);

  nanobind::ndarray<nanobind::ro> owner_;
  DLTensor tensor_{};
};

/// Tensors of consecutive arrays, as the C interface takes them.
std::vector<DLTensor> tensors_of(const std::vector<Array>& arrays);

/// Memory for one result: its address is a multiple of 64, like that of a cache line.
class Result {
 public:
  Result(DLDataType dtype, const int64_t* shape, int32_t ndim);

  const DLTensor& tensor() const { return tensor_; }

  /// The memory becomes an array of that kind, which frees it. bfloat16 becomes uint16 where the kind has none
  /// (tilewright/_arrays.py views it as what it is).
  nanobind::object release(Kind kind);

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  std::vector<int64_t> shape_;
  DLTensor tensor_{};
};

/// "float32", "int64", "bool", "bfloat16": the name that numpy and torch have for the type.
std::string dtype_name(DLDataType dtype);

}  // namespace tw::python
