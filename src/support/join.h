// Lists made of others.
#pragma once
#include <algorithm>
#include <functional>
#include <iterator>
#include <type_traits>
#include <vector>

namespace tw {

/// `first`, then the elements of the others, in their order.
template <typename T>
std::vector<T> joined(std::vector<T> first, const auto&... others) {
  (first.insert(first.end(), others.begin(), others.end()), ...);
  return first;
}

/// Puts `more` behind `list`.
template <typename T>
void append(std::vector<T>& list, std::vector<T> more) {
  list.insert(list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// What `f`, a function or a member, gives for each element, in order.
auto mapped(const auto& list, const auto& f) {
  std::vector<std::decay_t<decltype(std::invoke(f, *std::begin(list)))>> out;
  for (const auto& x : list) out.push_back(std::invoke(f, x));
  return out;
}

/// Whether every element is `wanted`.
bool all_are(const auto& list, const auto& wanted) {
  return std::all_of(std::begin(list), std::end(list), [&](const auto& x) { return x == wanted; });
}

}  // namespace tw
