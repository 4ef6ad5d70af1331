// A tensor at the extents of a run as the first rows of one of the entry's own size.
#pragma once
#include <functional>

#include "runtime/extents.h"

namespace tw::runtime {

/// Both are row-major. Nothing here touches memory: copies are made by who knows where the tensors are.
class SubTensor {
 public:
  /// Bytes, and where they go and come from, in bytes from the beginnings of the tensors.
  using Copy = std::function<void(int64_t to, int64_t from, int64_t bytes)>;

  SubTensor(const EntryShapes& shapes, TensorRole role, size_t tensor)
      : shapes_(shapes),
        role_(role),
        tensor_(tensor),
        spec_((role == TensorRole::kInput ? shapes.entry().inputs : shapes.entry().outputs)[tensor]) {}

  /// `copy` brings the rows that there are to the whole; those that it lacks are like the last one there, which
  /// `repeat` copies within the whole: no operator meets a value that the caller has not.
  void spread(const Copy& copy, const Copy& repeat) const;
  /// `copy` brings the rows that are wanted out of the whole.
  void gather(const Copy& copy) const;

 private:
  struct Place {
    int64_t at = 0, bytes = 0;
    Place row(int64_t i, int64_t rows) const { return {at + i * (bytes / rows), bytes / rows}; }
  };
  void spread(size_t dim, Place whole, Place part, const Copy& copy, const Copy& repeat) const;
  void gather(size_t dim, Place whole, Place part, const Copy& copy) const;
  Place whole() const { return {0, format::tensor_bytes(spec_)}; }
  Place part() const { return {0, shapes_.bytes(role_, tensor_)}; }

  const EntryShapes& shapes_;
  TensorRole role_;
  size_t tensor_;
  const format::TensorSpec& spec_;
};

}  // namespace tw::runtime
