#include "core/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/shape.h"
#include "support/error.h"
#include "support/math.h"
#include "tests/harness/layouts.h"

namespace tw {
namespace {

TEST(Math, RoundsTowardMinusInfinity) {
  for (int64_t a = -20; a <= 20; ++a) {
    for (int64_t b : {-7, -3, -1, 1, 2, 5}) {
      EXPECT_EQ(floor_div(a, b), static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b))));
      EXPECT_EQ(floor_div(a, b) * b + floor_mod(a, b), a);
    }
  }
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(9, 4), 3);
  EXPECT_EQ(round_up(9, 4), 12);
  EXPECT_EQ(round_up(8, 4), 8);
}

TEST(Shape, CountsStridesAndBroadcasts) {
  EXPECT_EQ(num_elements({}), 1);
  EXPECT_EQ(num_elements({2, 3, 5}), 30);
  EXPECT_EQ(num_elements({2, 0, 5}), 0);
  EXPECT_EQ(to_string(Shape{1, 3, 224}), "[1,3,224]");
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(row_major_strides({2, 3, 5}), (Shape{15, 5, 1}));
  EXPECT_EQ(row_major_strides({}), Shape{});
  Shape out;
  EXPECT_TRUE(broadcast_shapes({3, 1, 5}, {7, 5}, &out));
  EXPECT_EQ(out, (Shape{3, 7, 5}));
  EXPECT_TRUE(broadcast_shapes({}, {2}, &out));
  EXPECT_EQ(out, Shape{2});
  EXPECT_TRUE(broadcast_shapes({1}, {0}, &out));
  EXPECT_EQ(out, Shape{0});
  EXPECT_FALSE(broadcast_shapes({2}, {3}, &out));
  EXPECT_FALSE(broadcast_shapes({2, 4}, {4, 2}, &out));
}

TEST(Layout, GivesStorageShapes) {
  const Shape nchw = {1, 64, 7, 5};
  EXPECT_EQ(Layout().storage_shape(nchw), nchw);
  EXPECT_EQ(channels_blocked(4, 64, 16).storage_shape(nchw), (Shape{1, 4, 7, 5, 16}));
  EXPECT_EQ(channels_last(4).storage_shape(nchw), (Shape{1, 7, 5, 64}));
  EXPECT_EQ(channels_last(3).storage_shape({2, 3, 5}), (Shape{2, 5, 3}));
  EXPECT_EQ(Layout().fuse(1, 3).storage_shape(nchw), (Shape{1, 2240}));
  EXPECT_EQ(Layout().pad(3, 1, 2).storage_shape(nchw), (Shape{1, 64, 7, 8}));
  EXPECT_EQ(Layout().split(1, {2, 4, 8}).storage_shape(nchw), (Shape{1, 2, 4, 8, 7, 5}));
}

TEST(Layout, RejectsWhatDoesNotFit) {
  const Shape shape = {4, 6};
  EXPECT_THROW(Layout().split(0, {3, 2}).storage_shape(shape), InternalError);
  EXPECT_THROW(Layout().split(2, {1}).storage_shape(shape), InternalError);
  EXPECT_THROW(Layout().fuse(1, 2).storage_shape(shape), InternalError);
  EXPECT_THROW(Layout().reorder({0, 0}).storage_shape(shape), InternalError);
  EXPECT_THROW(Layout().reorder({0, 2}).storage_shape(shape), InternalError);
  EXPECT_THROW(Layout().reorder({0}).storage_shape(shape), InternalError);
  EXPECT_THROW(Layout().pad(0, -1, 0).storage_shape(shape), InternalError);
}

Layout random_layout(std::mt19937& random, const Shape& logical) {
  Layout layout;
  Shape shape = logical;
  for (int k = 0; k < 4; ++k) {
    const int d = static_cast<int>(random() % shape.size());
    switch (random() % 4) {
      case 0:
        for (int64_t f : {2, 3, 5, 7}) {
          if (shape[d] % f != 0) continue;
          layout = layout.split(d, {shape[d] / f, f});
          break;
        }
        break;
      case 1:
        if (d + 1 < static_cast<int>(shape.size())) layout = layout.fuse(d, 2);
        break;
      case 2:
        layout = layout.pad(d, random() % 3, random() % 3);
        break;
      default: {
        std::vector<int64_t> order(shape.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
        std::shuffle(order.begin(), order.end(), random);
        layout = layout.reorder(order);
      }
    }
    shape = layout.storage_shape(logical);
  }
  return layout;
}

TEST(Layout, InverseAndTextRoundTrip) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    const Shape logical = {1 + static_cast<int64_t>(random() % 7), 1 + static_cast<int64_t>(random() % 36),
                           1 + static_cast<int64_t>(random() % 5)};
    const Layout layout = random_layout(random, logical);
    const Shape storage = layout.storage_shape(logical);
    const Layout inverse = layout.inverse(logical);
    EXPECT_EQ(inverse.storage_shape(storage), logical) << to_string(layout);
    EXPECT_EQ(inverse.inverse(storage), layout) << to_string(layout);
    EXPECT_EQ(parse_layout(to_string(layout)), layout) << to_string(layout);
  }
  EXPECT_TRUE(parse_layout("").is_identity());
  EXPECT_EQ(to_string(channels_blocked(4, 64, 16)), "split(1, 4, 16) reorder(0, 1, 3, 4, 2)");
}

TEST(Layout, TextErrorsNameThePart) {
  for (const char* bad : {"splat(1, 2)", "split(1, x)", "split 1", "split(", "split)1(", "split()"}) {
    try {
      parse_layout(bad);
      FAIL() << bad;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(bad), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace tw
