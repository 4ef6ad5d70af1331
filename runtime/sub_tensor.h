// A tensor at the extents of a run as the first rows of one of the entry's own size.
#pragma once
#include "runtime/extents.h"

namespace tw::runtime {

/// Both are row-major. Nothing here touches memory, or allocates: who knows where the tensors are makes the copies, of
/// bytes, by functions of where they go and come from, in bytes from the beginnings of the tensors, and how many they
/// are.
class SubTensor {
 public:
  SubTensor(const EntryShapes& shapes, TensorRole role, size_t tensor)
      : shapes_(shapes),
        role_(role),
        tensor_(tensor),
        spec_((role == TensorRole::kInput ? shapes.entry().inputs : shapes.entry().outputs)[tensor]) {}

  /// `copy` brings the rows that there are to the whole; those that it lacks are like the last one there, which
  /// `repeat` copies within the whole: no operator meets a value that the caller has not.
  void spread(const auto& copy, const auto& repeat) const { spread(0, whole(), part(), copy, repeat); }
  /// `copy` brings the rows that are wanted out of the whole.
  void gather(const auto& copy) const { gather(0, whole(), part(), copy); }

 private:
  struct Place {
    int64_t at = 0, bytes = 0;
    Place row(int64_t i, int64_t rows) const { return {at + i * (bytes / rows), bytes / rows}; }
  };

  void spread(size_t dim, Place whole, Place part, const auto& copy, const auto& repeat) const {
    if (whole.bytes == part.bytes) return copy(whole.at, part.at, part.bytes);
    const int64_t rows = spec_.shape[dim], given = shapes_.extent(role_, tensor_, dim);
    if (whole.bytes / rows == part.bytes / given) {
      copy(whole.at, part.at, part.bytes);
    } else {
      for (int64_t i = 0; i < given; ++i) spread(dim + 1, whole.row(i, rows), part.row(i, given), copy, repeat);
    }
    const Place last = whole.row(given - 1, rows);
    for (int64_t i = given; i < rows; ++i) repeat(whole.row(i, rows).at, last.at, last.bytes);
  }

  void gather(size_t dim, Place whole, Place part, const auto& copy) const {
    if (whole.bytes == part.bytes) return copy(part.at, whole.at, part.bytes);
    const int64_t rows = spec_.shape[dim], wanted = shapes_.extent(role_, tensor_, dim);
    if (whole.bytes / rows == part.bytes / wanted) return copy(part.at, whole.at, part.bytes);
    for (int64_t i = 0; i < wanted; ++i) gather(dim + 1, whole.row(i, rows), part.row(i, wanted), copy);
  }

  Place whole() const { return {0, format::tensor_bytes(spec_)}; }
  Place part() const { return {0, shapes_.bytes(role_, tensor_)}; }

  const EntryShapes& shapes_;
  TensorRole role_;
  size_t tensor_;
  const format::TensorSpec& spec_;
};

}  // namespace tw::runtime
