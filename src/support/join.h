// Lists made of several parts.
#pragma once
#include <vector>

namespace tw {

/// `first`, then the elements of the others, in their order.
template <typename T>
std::vector<T> joined(std::vector<T> first, const auto&... others) {
  (first.insert(first.end(), others.begin(), others.end()), ...);
  return first;
}

}  // namespace tw
