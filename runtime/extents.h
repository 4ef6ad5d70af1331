// The shapes that an entry takes: one where it has no extents, else those of all extents in its ranges.
#pragma once
#include <dlpack/dlpack.h>

#include <array>

#include "runtime/format/manifest.h"

namespace tw::runtime {

/// How large the extents of an entry are in a run, in their order.
using Extents = std::array<int64_t, format::Extent::kMost>;

enum class TensorRole : uint8_t { kInput, kOutput };

/// An entry at certain extents. Nothing here allocates.
class EntryShapes {
 public:
  /// At its bounds.
  explicit EntryShapes(const format::Entry& entry);
  EntryShapes(const format::Entry& entry, const Extents& extents) : entry_(entry), extents_(extents) {}
  /// Whether more rows than there is room for are taken where the entry can run in parts.
  enum class Parts : uint8_t { kNo, kYes };
  /// At the extents that inputs of the entry's ranks say. False where it has no such shapes.
  bool read(const DLTensor* inputs, Parts parts);

  const format::Entry& entry() const { return entry_; }
  const Extents& extents() const { return extents_; }
  bool is_at_bounds() const;
  /// The first extent that is more than its bound, which read() took in parts; -1: none is.
  int beyond_bounds() const;
  int64_t extent(TensorRole role, size_t tensor, size_t dim) const;
  int64_t bytes(TensorRole role, size_t tensor) const;
  bool has_shape(TensorRole role, size_t tensor, const DLTensor& given) const;
  std::vector<int64_t> shape(TensorRole role, size_t tensor) const;
  /// Whether the tensor is smaller than the entry's own.
  bool is_smaller(TensorRole role, size_t tensor) const;

 private:
  const std::vector<format::TensorSpec>& specs(TensorRole role) const {
    return role == TensorRole::kInput ? entry_.inputs : entry_.outputs;
  }

  const format::Entry& entry_;
  Extents extents_ = {};
};

/// "x[1..8,3]": the shapes of a tensor of an entry.
std::string shapes_text(const format::Entry& entry, size_t input);

}  // namespace tw::runtime
