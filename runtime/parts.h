// More rows than an entry has room for, a part at a time.
#pragma once
#include <vector>

#include "runtime/extents.h"

namespace tw::runtime {

/// Rows [first, first + count) of tensors at the extents `shapes`, along their extent `extent`; tensors that do not
/// have it are whole.
class PartOfTensors {
 public:
  PartOfTensors(const EntryShapes& shapes, size_t extent, const DLTensor* inputs, const DLTensor* outputs);

  void take(int64_t first, int64_t count);
  const DLTensor* inputs() const { return inputs_.tensors.data(); }
  const DLTensor* outputs() const { return outputs_.tensors.data(); }

 private:
  struct Side {
    std::vector<DLTensor> tensors;
    std::vector<std::vector<int64_t>> shapes;
    std::vector<uint64_t> begin;     // byte offsets of the caller's
    std::vector<int64_t> row_bytes;  // of one row of the extent; 0: the tensor does not have it
    std::vector<int64_t> times;
  };
  static Side side_of(const EntryShapes& shapes, TensorRole role, size_t extent, const DLTensor* tensors);
  static void take(Side& side, int64_t first, int64_t count);

  Side inputs_, outputs_;
};

}  // namespace tw::runtime
