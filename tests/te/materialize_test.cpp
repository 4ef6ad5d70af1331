// materialize against the plain definition of each primitive, for every element size and odd extents.
#include "te/materialize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "support/error.h"
#include "tests/te/samples.h"

namespace tw::te {
namespace {

using samples::Random;

std::vector<std::byte> random_bytes(size_t count, Random& random) {
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(samples::pick(random, 0, 255));
  return bytes;
}

// Element by element.
std::vector<std::byte> slow_transpose(const std::vector<std::byte>& data, size_t size, const Shape& shape,
                                      const std::vector<int64_t>& order) {
  const Shape strides = row_major_strides(shape);
  Shape out_shape;
  for (int64_t d : order) out_shape.push_back(shape[d]);
  std::vector<std::byte> out(data.size());
  for (int64_t k = 0; k < num_elements(shape); ++k) {
    int64_t rest = k, from = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      from += rest % out_shape[d] * strides[order[d]];
      rest /= out_shape[d];
    }
    std::memcpy(out.data() + k * size, data.data() + from * size, size);
  }
  return out;
}

TEST(Materialize, TransposesOfEveryElementSize) {
  const std::vector<Shape> shapes = {{1},          {7, 5},         {67, 131},      {16, 64},
                                     {3, 1, 5, 2}, {33, 3, 3, 17}, {2, 70, 2, 65}, {129, 2, 4}};
  for (size_t size : {1, 2, 3, 4, 8, 12, 16, 24}) {
    for (const Shape& shape : shapes) {
      Random random(size + shape.size());
      const std::vector<std::byte> data = random_bytes(num_elements(shape) * size, random);
      std::vector<int64_t> order;
      for (size_t d = 0; d < shape.size(); ++d) order.push_back(static_cast<int64_t>(d));
      do {
        ASSERT_EQ(materialize(data, size, shape, Layout().reorder(order)), slow_transpose(data, size, shape, order))
            << to_string(shape) << to_string(order);
      } while (std::next_permutation(order.begin(), order.end()));
    }
  }
}

TEST(Materialize, InverseBringsEverythingBack) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    Shape shape;
    for (int64_t d = samples::pick(random, 0, 4); d > 0; --d) shape.push_back(samples::pick(random, 1, 9));
    const size_t size = size_t{1} << samples::pick(random, 0, 3);
    const std::vector<std::byte> data = random_bytes(num_elements(shape) * size, random);
    const Layout layout = samples::random_layout(shape, random, samples::Padding::kAllowed);
    const Shape stored = layout.storage_shape(shape);
    const std::vector<std::byte> fill = random_bytes(size, random);
    const std::vector<std::byte> storage = materialize(data, size, shape, layout, {.fill = fill});
    ASSERT_EQ(storage.size(), num_elements(stored) * size) << to_string(layout);
    EXPECT_EQ(materialize(storage, size, stored, layout.inverse(shape)), data)
        << to_string(shape) << " " << to_string(layout);
  }
}

TEST(Materialize, PadWritesTheFillBeforeAndAfter) {
  const std::vector<uint16_t> data = {1, 2, 3, 4, 5, 6};  // [3, 2]
  const uint16_t fill = 0xabcd;
  const auto bytes = materialize(std::as_bytes(std::span(data)), 2, {3, 2}, Layout().pad(1, 1, 2),
                                 {.fill = std::as_bytes(std::span(&fill, 1))});
  std::vector<uint16_t> out(bytes.size() / 2);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  EXPECT_EQ(out, (std::vector<uint16_t>{fill, 1, 2, fill, fill, fill, 3, 4, fill, fill, fill, 5, 6, fill, fill}));
  const auto zeros = materialize(std::as_bytes(std::span(data)), 2, {3, 2}, Layout().pad(0, 1, 0));
  EXPECT_EQ(zeros[0], std::byte{0});
  EXPECT_EQ(zeros.size(), 16u);
}

TEST(Materialize, BlockedWeights) {
  // OIHW -> O/4 I/2 H W 2i 4o, each element checked by its definition.
  const Shape shape = {8, 6, 3, 3};
  std::vector<int32_t> data(num_elements(shape));
  for (size_t k = 0; k < data.size(); ++k) data[k] = static_cast<int32_t>(k);
  const Layout layout = Layout().split(0, {2, 4}).split(2, {3, 2}).reorder({0, 2, 4, 5, 3, 1});
  const auto bytes = materialize(std::as_bytes(std::span(data)), 4, shape, layout);
  std::vector<int32_t> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  const Shape stored = {2, 3, 3, 3, 2, 4};  // O/4, I/2, H, W, 2i, 4o
  for (size_t k = 0; k < out.size(); ++k) {
    std::array<int64_t, 6> at{};
    for (size_t d = 6, rest = k; d-- > 0; rest /= stored[d]) at[d] = static_cast<int64_t>(rest) % stored[d];
    EXPECT_EQ(out[k], data[(((at[0] * 4 + at[5]) * 6 + at[1] * 2 + at[4]) * 3 + at[2]) * 3 + at[3]]);
  }
}

TEST(Materialize, RefusesWhatDoesNotFit) {
  const std::vector<std::byte> data(24);
  EXPECT_THROW(materialize(data, 4, {2, 2}, Layout()), InternalError);
  EXPECT_THROW(materialize(data, 4, {2, 3}, Layout().split(1, {2, 2})), InternalError);
  EXPECT_THROW(materialize(data, 4, {2, 3}, Layout().pad(0, 1, 1), {.fill = std::vector<std::byte>(3)}), InternalError);
  EXPECT_TRUE(materialize({}, 4, {0, 3}, Layout().reorder({1, 0})).empty());
}

}  // namespace
}  // namespace tw::te
