// Scatter, scan, top-k.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "check.h"
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

}  // namespace
}  // namespace tw::ops::test
