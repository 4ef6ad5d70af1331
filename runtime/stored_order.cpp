#include "runtime/stored_order.h"

#include <cstring>

namespace tw::runtime {
namespace {

/// Calls copy(place in the storage, place in the rows), both in elements, for each element of `state`, in the order of
/// the storage.
template <typename Copy>
void each_element(const format::State& state, const Copy& copy) {
  const std::vector<int64_t>& shape = state.tensor.shape;
  std::vector<int64_t> strides(shape.size(), 1);  // of rows
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  int64_t count = 1;
  std::vector<int64_t> extents, steps;
  for (const int64_t d : state.order) {
    extents.push_back(shape[static_cast<size_t>(d)]);
    steps.push_back(strides[static_cast<size_t>(d)]);
    count *= extents.back();
  }
  std::vector<int64_t> at(extents.size(), 0);
  int64_t row = 0;
  for (int64_t i = 0; i < count; ++i) {
    copy(static_cast<size_t>(i), static_cast<size_t>(row));
    for (size_t d = extents.size(); d-- > 0;) {
      row += steps[d];
      if (++at[d] < extents[d]) break;
      row -= steps[d] * extents[d];
      at[d] = 0;
    }
  }
}

/// each(size) with the size of an element as a constant, so that its copy is one instruction.
template <typename Each>
void with_size(const format::State& state, const Each& each) {
  switch (format::bytes_of(state.tensor.dtype)) {
    case 1:
      return each(std::integral_constant<size_t, 1>());
    case 2:
      return each(std::integral_constant<size_t, 2>());
    case 4:
      return each(std::integral_constant<size_t, 4>());
    default:
      return each(std::integral_constant<size_t, 8>());
  }
}

}  // namespace

std::vector<uint8_t> rows_of(const format::State& state, format::Bytes stored) {
  std::vector<uint8_t> rows(stored.begin(), stored.end());
  if (state.order.empty()) return rows;
  with_size(state, [&](auto size) {
    each_element(state, [&](size_t at, size_t row) { std::memcpy(&rows[row * size], &stored[at * size], size); });
  });
  return rows;
}

std::vector<uint8_t> stored_of(const format::State& state, format::Bytes rows) {
  std::vector<uint8_t> stored(rows.begin(), rows.end());
  if (state.order.empty()) return stored;
  with_size(state, [&](auto size) {
    each_element(state, [&](size_t at, size_t row) { std::memcpy(&stored[at * size], &rows[row * size], size); });
  });
  return stored;
}

}  // namespace tw::runtime
