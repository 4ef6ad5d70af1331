// What of an entry's steps may run at the same time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/format/manifest.h"

namespace tw::format {

/// Pre: steps wait for smaller numbers, in order. Error(kDamaged) where so many run side by side that nobody could
/// check them.
class StepOrder {
 public:
  struct Range {
    uint32_t begin = 0, end = 0;
  };

  explicit StepOrder(const Entry& entry);
  /// Steps before `step` that may still run when it starts, in order.
  std::span<const Range> open(size_t step) const { return open_[step]; }
  bool has_ended(size_t earlier, size_t step) const;

 private:
  std::vector<std::vector<Range>> open_;
};

}  // namespace tw::format
