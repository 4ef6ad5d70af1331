#include "core/shape.h"

#include <fmt/format.h>

#include <algorithm>

namespace tw {

int64_t num_elements(const Shape& shape) {
  int64_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

bool broadcast_shapes(const Shape& a, const Shape& b, Shape* out) {
  const size_t rank = std::max(a.size(), b.size());
  out->assign(rank, 1);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t x = d < rank - a.size() ? 1 : a[d - (rank - a.size())];
    const int64_t y = d < rank - b.size() ? 1 : b[d - (rank - b.size())];
    if (x != y && x != 1 && y != 1) return false;
    (*out)[d] = x == 1 ? y : x;
  }
  return true;
}

}  // namespace tw
