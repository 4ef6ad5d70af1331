// Lists made of numbers and of other lists, and what is found in lists and maps.
#pragma once
#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <iterator>
#include <numeric>
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

/// `list` with `others` in the place of `count` elements from number `first` on.
template <typename T>
std::vector<T> spliced(std::vector<T> list, std::ptrdiff_t first, std::ptrdiff_t count, const std::vector<T>& others) {
  const auto at = list.erase(list.begin() + first, list.begin() + first + count);
  list.insert(at, others.begin(), others.end());
  return list;
}

/// What `f`, a function or a member, gives for each element, in order.
auto mapped(const auto& list, const auto& f) {
  std::vector<std::decay_t<decltype(std::invoke(f, *std::begin(list)))>> out;
  out.reserve(std::size(list));
  for (const auto& x : list) out.push_back(std::invoke(f, x));
  return out;
}

/// What `f` gives for 0, 1, .. `count` - 1, in order.
template <std::integral Index>
auto by_index(Index count, const auto& f) {
  std::vector<std::decay_t<decltype(f(count))>> out;
  for (Index i = 0; i < count; ++i) out.push_back(f(i));
  return out;
}

/// The elements for which `is_wanted`, a function or a member, holds, in order.
template <typename T>
std::vector<T> filtered(const std::vector<T>& list, const auto& is_wanted) {
  std::vector<T> out;
  std::ranges::copy_if(list, std::back_inserter(out), is_wanted);
  return out;
}

/// `count` numbers: `first`, `first` + 1, ..
template <typename T = int64_t>
std::vector<T> sequence(std::integral auto count, std::type_identity_t<T> first = 0) {
  std::vector<T> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

/// Whether every element is `wanted`.
bool all_are(const auto& list, const auto& wanted) {
  return std::all_of(std::begin(list), std::end(list), [&](const auto& x) { return x == wanted; });
}

/// The number of the first element for which `is_wanted`, a function or a member, holds; -1 where there is none.
int64_t index_where(const auto& list, const auto& is_wanted) {
  const auto found = std::ranges::find_if(list, is_wanted);
  return found == std::ranges::end(list) ? -1 : found - std::ranges::begin(list);
}

/// The number of the first element that is `wanted`, or whose projection is; -1 where there is none.
template <typename Projection = std::identity>
int64_t index_of(const auto& list, const auto& wanted, const Projection& projection = {}) {
  return index_where(list, [&](const auto& x) { return std::invoke(projection, x) == wanted; });
}

/// The value of `key`, or `fallback` where the map has none.
template <typename Map>
typename Map::mapped_type value_or(const Map& map, const auto& key, const typename Map::mapped_type& fallback) {
  const auto found = map.find(key);
  return found == map.end() ? fallback : found->second;
}

}  // namespace tw
