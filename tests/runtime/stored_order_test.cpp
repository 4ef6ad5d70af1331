// States whose dims are stored in another order: elements of every size, brought to rows and back.
#include "runtime/stored_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tw::runtime {
namespace {

using format::DataType;

format::State state_of(DataType type, const std::vector<int64_t>& shape, const std::vector<int64_t>& order) {
  return {{"s", type, shape}, "s.next", 0, order};
}

// Element i is the number i, in all its bytes.
std::vector<uint8_t> numbered(const format::State& state) {
  std::vector<uint8_t> bytes(static_cast<size_t>(format::tensor_bytes(state.tensor)));
  const auto size = static_cast<size_t>(format::bytes_of(state.tensor.dtype));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i / size);
  return bytes;
}

TEST(StoredOrder, ElementsOfEverySizeMove) {
  for (const DataType type : {DataType::kBool, DataType::kF16, DataType::kF32, DataType::kI64, DataType::kF64}) {
    const format::State state = state_of(type, {2, 3, 5}, {2, 0, 1});
    const auto size = static_cast<size_t>(format::bytes_of(type));
    const std::vector<uint8_t> rows = numbered(state), stored = stored_of(state, rows);
    for (size_t at = 0; at < stored.size(); ++at) {
      const size_t element = at / size, k = element / 6, i = element / 3 % 2, j = element % 3;
      ASSERT_EQ(stored[at], (i * 3 + j) * 5 + k) << size;
    }
    EXPECT_EQ(rows_of(state, stored), rows);
  }
}

TEST(StoredOrder, AllOrdersGoBack) {
  std::vector<int64_t> order = {0, 1, 2, 3};
  while (std::ranges::next_permutation(order).found) {
    const format::State state = state_of(DataType::kU8, {3, 1, 5, 7}, order);
    const std::vector<uint8_t> rows = numbered(state);
    EXPECT_EQ(rows_of(state, stored_of(state, rows)), rows);
  }
}

TEST(StoredOrder, NothingMovesInRowsAndWithoutElements) {
  const format::State scalar = state_of(DataType::kF32, {}, {}), empty = state_of(DataType::kF32, {3, 0, 2}, {2, 1, 0}),
                      rows = state_of(DataType::kF32, {3, 4}, {});
  for (const format::State& state : {scalar, empty, rows}) {
    EXPECT_EQ(stored_of(state, numbered(state)), numbered(state));
    EXPECT_EQ(rows_of(state, numbered(state)), numbered(state));
  }
}

}  // namespace
}  // namespace tw::runtime
