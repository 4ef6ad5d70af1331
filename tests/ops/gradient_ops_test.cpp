// Operators that gradients and scatters are made of: te against reference, and what the definition says.
#include <gtest/gtest.h>

#include <limits>

#include "check.h"
#include "support/error.h"

namespace tw::ops::test {
namespace {

TEST(ScatterSum, MatchesReference) {
  for (const Range range : {Range{0, 2}, Range{-3, 2}, Range{-9, 9}}) {
    for (const auto type : {f32, f16}) {
      const double tolerance = type == &f16 ? 2e-3 : 2e-6;
      const auto run = [&](Shape x, TensorType indices, Attrs attrs) {
        check({"scatter_sum", {type(std::move(x)), std::move(indices)}, std::move(attrs), {{}, range}, tolerance});
      };
      run({5, 4}, i64({5}), {{"axis", int64_t{0}}, {"extent", int64_t{3}}});
      run({2, 7, 3}, i32({7}), {{"axis", int64_t{1}}, {"extent", int64_t{3}}});
      run({2, 2, 3, 2}, i64({2, 3}), {{"axis", int64_t{1}}, {"extent", int64_t{5}}});
      run({4}, i64({}), {{"axis", int64_t{0}}, {"extent", int64_t{3}}});
      run({0, 4}, i64({0}), {{"axis", int64_t{0}}, {"extent", int64_t{3}}});
      run({3, 0}, i64({3}), {{"axis", int64_t{0}}, {"extent", int64_t{2}}});
    }
  }
}

TEST(ScatterSum, AddsWhatMeets) {
  const std::vector<RefTensor> y =
      run({"scatter_sum", {f32({4}), i64({4})}, {{"axis", int64_t{0}}, {"extent", int64_t{3}}}},
          {floats({4}, {1, 2, 4, 8}), ints(DataType::i64(), {4}, {1, -1, 1, 7})});
  EXPECT_EQ(y[0].floats, (std::vector<double>{0, 5, 10}));  // -1 is the last one, 7 is clamped to it
}

TEST(ScatterSum, Rejects) {
  EXPECT_THROW(single({"scatter_sum", {f32({4}), i64({3})}, {{"axis", int64_t{0}}, {"extent", int64_t{3}}}}),
               UserError);
  EXPECT_THROW(single({"scatter_sum", {f32({4}), f32({4})}, {{"axis", int64_t{0}}, {"extent", int64_t{3}}}}),
               UserError);
  EXPECT_THROW(single({"scatter_sum", {f32({4}), i64({4})}, {{"axis", int64_t{0}}, {"extent", int64_t{0}}}}),
               UserError);
  EXPECT_THROW(
      single({"scatter_sum", {{DataType::boolean(), {4}}, i64({4})}, {{"axis", int64_t{0}}, {"extent", int64_t{3}}}}),
      UserError);
}

TEST(ScatterReductions, MatchTheirReferences) {
  for (const char* op : {"scatter_sum", "scatter_prod", "scatter_min", "scatter_max"}) {
    SCOPED_TRACE(op);
    const Attrs first = {{"axis", int64_t{0}}, {"extent", int64_t{3}}};
    for (const TensorType& x : {f32({5, 4}), i64({5, 4}), i32({5, 4}), f16({5, 4})})
      check({op, {x, i64({5})}, first, {{}, {-3, 2}}, x.type == DataType::f16() ? 2e-3 : 2e-6});
    check({op, {f32({2, 2, 3, 2}), i32({2, 3})}, {{"axis", int64_t{1}}, {"extent", int64_t{9}}}, {{}, {0, 8}}});
    check({op, {i64({}), i64({})}, first, {{}, {0, 2}}});
    check({op, {f32({0, 4}), i64({0})}, first});
  }
}

TEST(ScatterReductions, AreNeutralWhereNothingMeets) {
  const auto met = [](const char* op, const DataType& type, std::vector<int64_t> x) {
    return run({op, {{type, {3}}, i64({3})}, {{"axis", int64_t{0}}, {"extent", int64_t{3}}}},
               {ints(type, {3}, std::move(x)), ints(DataType::i64(), {3}, {2, 0, 2})})[0]
        .ints;
  };
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(met("scatter_max", DataType::i64(), {0, 1, 2}), (std::vector<int64_t>{1, kLeast, 2}));
  EXPECT_EQ(met("scatter_min", DataType::i64(), {7, 1, 2}), (std::vector<int64_t>{1, kMost, 2}));
  EXPECT_EQ(met("scatter_prod", DataType::i32(), {3, 5, -2}), (std::vector<int64_t>{5, 1, -6}));
  constexpr int64_t kMostOfI32 = std::numeric_limits<int32_t>::max(), kLeastOfI32 = std::numeric_limits<int32_t>::min();
  EXPECT_EQ(met("scatter_sum", DataType::i32(), {kMostOfI32, 7, 1}), (std::vector<int64_t>{7, 0, kLeastOfI32}));
  const DataType u64(ScalarType::kU64);  // -1 stands for its largest number
  EXPECT_EQ(met("scatter_max", u64, {-1, 1, 2}), (std::vector<int64_t>{1, 0, -1}));
  EXPECT_EQ(met("scatter_min", u64, {-1, 1, 2}), (std::vector<int64_t>{1, -1, 2}));
}

TEST(ScatterElementsSum, MatchesReference) {
  for (const Range range : {Range{0, 2}, Range{-5, 5}}) {
    check({"scatter_elements_sum", {f32({5, 4}), i64({5, 4})}, {{"shape", Ints{3, 4}}}, {{}, range}});
    check({"scatter_elements_sum",
           {f32({2, 3}), i32({2, 3})},
           {{"axis", int64_t{1}}, {"shape", Ints{4, 3}}},
           {{}, range}});
    check({"scatter_elements_sum",
           {f32({2, 0}), i64({2, 0})},
           {{"axis", int64_t{1}}, {"shape", Ints{2, 3}}},
           {{}, range}});
    check({"scatter_elements_sum", {f16({2, 3, 2}), i64({2, 3, 2})}, {{"shape", Ints{3, 3, 5}}}, {{}, range}, 2e-3});
  }
  EXPECT_THROW(single({"scatter_elements_sum", {f32({5, 4}), i64({5, 4})}, {{"shape", Ints{3, 3}}}}), UserError);
  EXPECT_THROW(single({"scatter_elements_sum", {f32({5, 4}), i64({5, 3})}, {{"shape", Ints{3, 4}}}}), UserError);
}

double places_of(const Attrs& attrs) {
  return static_cast<double>(num_elements(std::get<Ints>(attrs.at("kernel_shape"))));
}

TEST(Unpool, MatchesReference) {
  const auto each = [](Shape x, Attrs attrs) {
    check({"unpool", {f32(x)}, attrs});
    check({"unpool", {f32(x), i32(x)}, attrs, {{}, {0, places_of(attrs)}}});
    check({"unpool", {f16(x)}, attrs, {}, 2e-3});
  };
  each({2, 3, 4}, {{"extents", Ints{5}}, {"kernel_shape", Ints{2}}});
  each({1, 2, 3, 2}, {{"extents", Ints{6, 4}}, {"kernel_shape", Ints{2, 3}}, {"strides", Ints{2, 2}}});
  each({1, 2, 4}, {{"extents", Ints{8}}, {"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1}}});
  each({1, 1, 9}, {{"extents", Ints{9}}, {"kernel_shape", Ints{3}}, {"dilations", Ints{2}}, {"pads", Ints{1}}});
  each({1, 2, 3}, {{"extents", Ints{9}}, {"kernel_shape", Ints{2}}, {"strides", Ints{3}}});
  each({1, 2, 4, 5},
       {{"extents", Ints{8, 10}}, {"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1}}});
  each({1, 1, 5, 2},
       {{"extents", Ints{12, 6}}, {"kernel_shape", Ints{5, 4}}, {"strides", Ints{3, 3}}, {"pads", Ints{4, 2}}});
  each({1, 2, 3, 4},
       {{"extents", Ints{5, 6}}, {"kernel_shape", Ints{2, 2}}, {"dilations", Ints{2, 3}}, {"pads", Ints{0, 1}}});
  each({1, 1, 2, 2, 1}, {{"extents", Ints{3, 4, 2}}, {"kernel_shape", Ints{2, 3, 2}}});
}

TEST(Unpool, NamedElementsOnly) {
  const Attrs pool{{"extents", Ints{4}}, {"kernel_shape", Ints{2}}};
  const std::vector<RefTensor> y = run({"unpool", {f32({1, 1, 3}), i32({1, 1, 3})}, pool},
                                       {floats({1, 1, 3}, {1, 2, 4}), ints(DataType::i32(), {1, 1, 3}, {1, 0, 2})});
  EXPECT_EQ(y[0].floats, (std::vector<double>{0, 3, 0, 0}));
  EXPECT_THROW(single({"unpool", {f32({1, 3})}, pool}), UserError);
  const Attrs strided{{"extents", Ints{5}}, {"kernel_shape", Ints{2}}, {"strides", Ints{2}}};
  EXPECT_THROW(single({"unpool", {f32({1, 1, 2})}, strided}), UserError);
  EXPECT_THROW(single({"unpool", {f32({1, 1, 3}), i64({1, 1, 3})}, pool}), UserError);
}

TEST(MaxPlaces, AreThoseOfMaxPool) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const RefTensor x = floats({1, 2, 3, 4}, {1, 2, 2, 0, 3, 2, 1, 1, -inf, -inf, 4,   nan,  //
                                            0, 0, 0, 0, 0, 0, 5, 5, nan,  1,    nan, -1});
  const std::pair<Attrs, std::vector<int64_t>> cases[] = {
      {{{"kernel_shape", Ints{2, 2}}}, {2, 0, 0, 0, 3, 3, 0, 3, 2, 2, 3, 2}},
      {{{"kernel_shape", Ints{2, 3}}, {"strides", Ints{3, 2}}, {"pads", Ints{0, 1, 0, 0}}}, {4, 0, 1, 4}}};
  for (const auto& [attrs, places] : cases) {
    const RefTensor y = run({"max_pool", {x.type}, attrs}, {x})[0];
    EXPECT_EQ(run({"max_places", {x.type, y.type}, attrs}, {x, y})[0].ints, places);
  }
}

TEST(MaxPlaces, MatchesReference) {
  const auto each = [](Shape x, Shape y, const Attrs& attrs) {
    for (const auto type : {f32, f16}) check({"max_places", {type(x), type(y)}, attrs});
  };
  each({2, 3, 5}, {2, 3, 4}, {{"kernel_shape", Ints{2}}});
  each({1, 2, 7, 6}, {1, 2, 4, 5}, {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 1, 1, 0}}});
  each({2, 1, 9}, {2, 1, 4},
       {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"dilations", Ints{2}}, {"pads", Ints{1, 2}}});
  EXPECT_THROW(single({"max_places", {f32({2, 3, 5}), f32({2, 3, 5})}, {{"kernel_shape", Ints{2}}}}), UserError);
  EXPECT_THROW(single({"max_places", {i32({2, 3, 5}), i32({2, 3, 4})}, {{"kernel_shape", Ints{2}}}}), UserError);
}

}  // namespace
}  // namespace tw::ops::test
