#include "runtime/stored_order.h"

#include <cstring>
#include <utility>

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

enum class To : uint8_t { kRows, kStorage };

std::vector<uint8_t> moved(const format::State& state, format::Bytes from, To to) {
  std::vector<uint8_t> out(from.begin(), from.end());
  if (state.order.empty()) return out;
  with_size(state, [&](auto size) {
    each_element(state, [&](size_t stored, size_t row) {
      const auto [target, source] = to == To::kRows ? std::pair(row, stored) : std::pair(stored, row);
      std::memcpy(&out[target * size], &from[source * size], size);
    });
  });
  return out;
}

}  // namespace

std::vector<uint8_t> rows_of(const format::State& state, format::Bytes stored) {
  return moved(state, stored, To::kRows);
}

std::vector<uint8_t> stored_of(const format::State& state, format::Bytes rows) {
  return moved(state, rows, To::kStorage);
}

}  // namespace tw::runtime
