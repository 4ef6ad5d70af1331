// Scatter, scan, top-k, resample.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "check.h"
#include "ops/resize.h"
#include "support/error.h"

namespace tw::ops::test {
namespace {

const char* const kReductions[] = {"none", "add", "mul", "max", "min"};

TEST(Scatter, Elements) {
  for (const char* reduction : kReductions) {
    for (int64_t axis : {0, 1, -1}) {
      const Attrs attrs{{"axis", axis}, {"reduction", std::string(reduction)}};
      // Few rows for many updates: the same element is hit several times.
      check({.op = "scatter_elements",
             .inputs = {f32({3, 3}), i64({3, 3}), f32({3, 3})},
             .attrs = attrs,
             .ranges = {{}, {-3, 2}, {}}});
      check({.op = "scatter_elements",
             .inputs = {i32({3, 3}), i32({2, 1}), i32({2, 1})},
             .attrs = attrs,
             .ranges = {{-9, 9}, {-3, 2}, {-9, 9}}});
      check({.op = "scatter_elements",
             .inputs = {f32({3, 3}), i64({3, 3}), f32({3, 3})},
             .attrs = attrs,
             .ranges = {{}, {-9, 9}, {}}});
    }
    const Attrs long_axis{{"axis", int64_t{1}}, {"reduction", std::string(reduction)}};
    check({.op = "scatter_elements",
           .inputs = {f32({2, 3, 5}), i64({2, 7, 4}), f32({2, 7, 4})},
           .attrs = long_axis,
           .ranges = {{}, {-3, 2}, {}}});
    check({.op = "scatter_elements",
           .inputs = {f32({2, 3}), i64({0, 3}), f32({0, 3})},
           .attrs = {{"reduction", std::string(reduction)}}});
    check({.op = "scatter_elements",
           .inputs = {f16({4}), i64({5}), f16({5})},
           .attrs = {{"reduction", std::string(reduction)}},
           .ranges = {{}, {-4, 3}, {}}});
  }
  const auto y = run({.op = "scatter_elements", .inputs = {f32({4}), i64({3}), f32({3})}},
                     {floats({4}, {1, 2, 3, 4}), ints(DataType::i64(), {3}, {2, -1, 2}), floats({3}, {10, 20, 30})})[0];
  EXPECT_EQ(y.floats, (std::vector<double>{1, 2, 30, 20}));
  EXPECT_THROW(single({.op = "scatter_elements", .inputs = {f32({4}), i64({3}), f32({2})}}), UserError);
  EXPECT_THROW(single({.op = "scatter_elements", .inputs = {f32({4}), i64({3}), i32({3})}}), UserError);
  EXPECT_THROW(single({.op = "scatter_elements",
                       .inputs = {f32({4}), i64({3}), f32({3})},
                       .attrs = {{"reduction", std::string("sub")}}}),
               UserError);
}

TEST(Scatter, Nd) {
  for (const char* reduction : kReductions) {
    const Attrs attrs{{"reduction", std::string(reduction)}};
    const std::vector<Range> ranges{{}, {-3, 2}, {}};
    check({.op = "scatter_nd", .inputs = {f32({3, 5}), i64({7, 1}), f32({7, 5})}, .attrs = attrs, .ranges = ranges});
    check({.op = "scatter_nd", .inputs = {f32({3, 5}), i64({2, 4, 2}), f32({2, 4})}, .attrs = attrs, .ranges = ranges});
    check({.op = "scatter_nd",
           .inputs = {i32({3, 5}), i64({1}), i32({5})},
           .attrs = attrs,
           .ranges = {{-9, 9}, {-3, 2}, {-9, 9}}});
    check({.op = "scatter_nd",
           .inputs = {f32({3, 5}), i64({4, 2}), f32({4})},
           .attrs = attrs,
           .ranges = {{}, {-9, 9}, {}}});
    check({.op = "scatter_nd", .inputs = {f32({3}), i64({0, 1}), f32({0})}, .attrs = attrs});
  }
  const auto y = run(
      {.op = "scatter_nd", .inputs = {f32({3}), i64({2, 1}), f32({2})}, .attrs = {{"reduction", std::string("add")}}},
      {floats({3}, {1, 2, 3}), ints(DataType::i64(), {2, 1}, {1, 1}), floats({2}, {10, 20})})[0];
  EXPECT_EQ(y.floats, (std::vector<double>{1, 32, 3}));
  EXPECT_THROW(single({.op = "scatter_nd", .inputs = {f32({3, 5}), i64({7, 1}), f32({7, 4})}}), UserError);
  EXPECT_THROW(single({.op = "scatter_nd", .inputs = {f32({3}), i64({7, 2}), f32({7})}}), UserError);
}

void check_scan(const Attrs& attrs) {
  for (const char* op : {"cum_sum", "cum_prod"}) {
    for (const TensorType& type : {f32({3, 5, 2}), f16({1, 7}), i32({3, 5}), i64({2, 0})})
      check({.op = op, .inputs = {type}, .attrs = attrs});
  }
}

TEST(Scan, EveryDirection) {
  for (int64_t axis : {0, 1, -1}) {
    for (int64_t exclusive : {0, 1}) {
      for (int64_t reverse : {0, 1}) check_scan({{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}});
    }
  }
  const auto y = run({.op = "cum_sum",
                      .inputs = {f32({3})},
                      .attrs = {{"axis", int64_t{0}}, {"exclusive", int64_t{1}}, {"reverse", int64_t{1}}}},
                     {floats({3}, {1, 2, 4})})[0];
  EXPECT_EQ(y.floats, (std::vector<double>{6, 4, 0}));
  EXPECT_THROW(single({.op = "cum_sum", .inputs = {boolean({3})}, .attrs = {{"axis", int64_t{0}}}}), UserError);
}

TEST(TopK, AxesOrdersAndTies) {
  for (int64_t axis : {0, 1, -1}) {
    for (int64_t largest : {0, 1}) {
      for (int64_t k : {0, 1, 3}) {
        const Attrs attrs{{"axis", axis}, {"largest", largest}, {"k", k}};
        check({.op = "top_k", .inputs = {f32({3, 5})}, .attrs = attrs});
        check({.op = "top_k", .inputs = {i32({5, 7})}, .attrs = attrs});  // many ties
        check({.op = "top_k", .inputs = {f16({4, 3})}, .attrs = attrs});
      }
    }
  }
  const double nan = std::nan("");
  const auto y =
      run({.op = "top_k", .inputs = {f32({5})}, .attrs = {{"k", int64_t{4}}}}, {floats({5}, {1, nan, 7, 7, nan})});
  EXPECT_EQ(y[1].ints, (Ints{1, 4, 2, 3}));
  EXPECT_THROW(single({.op = "top_k", .inputs = {f32({3})}, .attrs = {{"k", int64_t{4}}}}), UserError);
}

TEST(Resample, AxesAndTypes) {
  for (int64_t axis : {0, 1, -1}) {
    check({.op = "resample",
           .inputs = {f32({3, 5, 2}), i64({7, 2}), f32({7, 2})},
           .attrs = {{"axis", axis}},
           .ranges = {{}, {-9, 9}, {}}});
    check({.op = "resample",
           .inputs = {f16({3, 5}), i32({1, 4}), f32({1, 4})},
           .attrs = {{"axis", axis}},
           .ranges = {{}, {0, 2}, {}}});
  }
  EXPECT_THROW(
      single({.op = "resample", .inputs = {f32({3}), i64({7, 2}), f32({7, 1})}, .attrs = {{"axis", int64_t{0}}}}),
      UserError);
}

std::vector<double> resized(const std::vector<double>& x, const ResizeAxis& axis) {
  const ResizeTable table = resize_table(axis);
  std::vector<double> y(axis.out, 0);
  for (int64_t o = 0; o < axis.out; ++o) {
    for (int64_t t = 0; t < table.taps; ++t)
      y[o] += table.weights[o * table.taps + t] * x[table.indices[o * table.taps + t]];
  }
  return y;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i;
}

// One row of the examples of ONNX's Resize, or worked out by hand from its formulas.
TEST(ResizeTable, KnownRows) {
  const std::vector<double> x{1, 2, 3, 4};
  expect_near(resized({1, 2}, {.in = 2, .out = 4, .scale = 2, .mode = "linear"}), {1, 1.25, 1.75, 2});
  expect_near(
      resized({1, 2},
              {.in = 2, .out = 4, .scale = 2, .mode = "linear", .coordinate_transformation_mode = "align_corners"}),
      {1, 4.0 / 3, 5.0 / 3, 2});
  expect_near(resized(x, {.in = 4, .out = 2, .scale = 0.6, .mode = "linear"}), {4.0 / 3, 3});
  expect_near(resized(x, {.in = 4,
                          .out = 2,
                          .scale = 0.6,
                          .mode = "linear",
                          .coordinate_transformation_mode = "half_pixel_symmetric"}),
              {1 + 2.0 / 3, 3 + 1.0 / 3});
  // The ONNX examples resize 1 + column + 4 row, so one row of their result gives the weights along both axes.
  expect_near(resized(x, {.in = 4, .out = 8, .scale = 2, .mode = "cubic"}),
              {0.89453125, 1.19140625, 1.66796875, 2.296875, 2.703125, 3.33203125, 3.80859375, 4.10546875});
  expect_near(resized(x, {.in = 4, .out = 2, .scale = 0.6, .mode = "linear", .antialias = true}), {1.375, 3});
  expect_near(resized(x, {.in = 4, .out = 2, .scale = 0.6, .mode = "cubic", .antialias = true}),
              {1.30361442, 3.07142862});
  expect_near(resized({1, 2}, {.in = 2, .out = 6, .scale = 3}), {1, 1, 1, 2, 2, 2});
  expect_near(
      resized(
          x,
          {.in = 4, .out = 1, .scale = 0.25, .mode = "linear", .coordinate_transformation_mode = "pytorch_half_pixel"}),
      {1});
  expect_near(resized(x, {.in = 4, .out = 2, .scale = 0.5, .mode = "linear", .antialias = true}), {1.625, 3.375});
}

TEST(ResizeTable, NearestModes) {
  const std::vector<double> x{0, 1, 2, 3};
  const auto with = [&](const char* mode) {
    return resized(
        x, {.in = 4, .out = 8, .scale = 2, .coordinate_transformation_mode = "asymmetric", .nearest_mode = mode});
  };
  expect_near(with("floor"), {0, 0, 1, 1, 2, 2, 3, 3});
  expect_near(with("ceil"), {0, 1, 1, 2, 2, 3, 3, 3});
  expect_near(with("round_prefer_floor"), {0, 0, 1, 1, 2, 2, 3, 3});
  expect_near(with("round_prefer_ceil"), {0, 1, 1, 2, 2, 3, 3, 3});
  EXPECT_THROW(with("up"), UserError);
}

void expect_sane(const ResizeAxis& axis) {
  const ResizeTable table = resize_table(axis);
  for (int64_t o = 0; o < axis.out; ++o) {
    double sum = 0;
    for (int64_t t = 0; t < table.taps; ++t) sum += table.weights[o * table.taps + t];
    EXPECT_NEAR(sum, 1, 1e-12);
  }
  for (int64_t index : table.indices) EXPECT_TRUE(index >= 0 && index < axis.in);
}

TEST(ResizeTable, WeightsSumToOneAndStayInside) {
  const std::vector<std::pair<int64_t, int64_t>> kExtents{{5, 3}, {3, 7}, {1, 4}, {6, 1}, {4, 4}};
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* coordinates : {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                    "asymmetric", "tf_crop_and_resize"}) {
      for (const auto& [in, out] : kExtents) {
        ResizeAxis axis{.in = in,
                        .out = out,
                        .scale = static_cast<double>(out) / static_cast<double>(in),
                        .mode = mode,
                        .coordinate_transformation_mode = coordinates};
        expect_sane(axis);
        axis.exclude_outside = axis.antialias = true;
        expect_sane(axis);
      }
    }
  }
  const ResizeTable crop = resize_table({.in = 4,
                                         .out = 3,
                                         .mode = "linear",
                                         .coordinate_transformation_mode = "tf_crop_and_resize",
                                         .roi_start = 0.5,
                                         .roi_end = 1.5});
  EXPECT_EQ(crop.outside, (std::vector<bool>{false, false, true}));
  EXPECT_THROW(resize_table({.mode = "area"}), UserError);
  EXPECT_THROW(resize_table({.coordinate_transformation_mode = "none"}), UserError);
  EXPECT_THROW(resize_table({.in = 0}), UserError);
}

}  // namespace
}  // namespace tw::ops::test
