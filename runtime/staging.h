// Tensors of an entry's own size in the place of smaller ones that a caller has.
#pragma once
#include <vector>

#include "runtime/extents.h"
#include "runtime/memory.h"
#include "runtime/options.h"

namespace tw::runtime {

/// Of a CPU. Its memory is that of the largest entry; nothing is allocated after construction.
class Staging {
 public:
  Staging() = default;
  Staging(const format::Manifest& manifest, const Options& options);

  /// The caller's tensors, and copies of those that are smaller than the entry's (sub_tensor.h).
  void stage(const EntryShapes& shapes, const DLTensor* inputs, const DLTensor* outputs);
  const DLTensor* inputs() const { return inputs_.data(); }
  const DLTensor* outputs() const { return outputs_.data(); }
  /// Copies what the caller wants of the outputs to where they are wanted.
  void finish(const EntryShapes& shapes, const DLTensor* outputs) const;

 private:
  void point(DLTensor& tensor, const format::TensorSpec& spec, size_t& offset);

  Memory memory_;
  std::vector<DLTensor> inputs_, outputs_;
};

}  // namespace tw::runtime
