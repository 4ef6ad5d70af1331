// Layouts that tests use.
#pragma once
#include "core/layout.h"

namespace tw {

/// NCHW -> N, C/block, H, W, block (any number of spatial dims; rank counts all logical dims). C must divide.
inline Layout channels_blocked(int rank, int64_t channels, int64_t block) {
  std::vector<int64_t> order(rank + 1);
  order[0] = 0;
  order[1] = 1;
  for (int d = 2; d < rank; ++d) order[d] = d + 1;
  order[rank] = 2;
  return Layout().split(1, {channels / block, block}).reorder(order);
}

}  // namespace tw
