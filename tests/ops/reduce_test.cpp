#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "check.h"
#include "support/error.h"

namespace tw::ops::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

const char* const kReductions[] = {"reduce_sum",         "reduce_mean",      "reduce_max", "reduce_min",
                                   "reduce_prod",        "reduce_l1",        "reduce_l2",  "reduce_log_sum",
                                   "reduce_log_sum_exp", "reduce_sum_square"};

TEST(Reduce, AxesAndKeepdims) {
  for (const char* op : kReductions) {
    const Range range = std::string(op) == "reduce_log_sum" ? Range{0.1, 2} : Range{};
    for (int64_t keep : {0, 1}) {
      for (const Ints& axes : {Ints{0}, Ints{1}, Ints{-1}, Ints{0, 2}, Ints{2, 0}, Ints{0, 1, 2}, Ints{}}) {
        check({.op = op,
               .inputs = {f32({3, 5, 7})},
               .attrs = {{"axes", axes}, {"keepdims", keep}},
               .ranges = {range},
               .tolerance = 1e-5});
      }
      check({.op = op, .inputs = {f32({1, 5})}, .attrs = {{"keepdims", keep}}, .ranges = {range}});
      check({.op = op, .inputs = {f32({1})}, .attrs = {{"keepdims", keep}}, .ranges = {range}});
    }
    check({.op = op, .inputs = {f16({3, 5})}, .attrs = {{"axes", Ints{1}}}, .ranges = {range}, .tolerance = 1e-5});
    check({.op = op, .inputs = {f32({0, 3})}, .attrs = {{"axes", Ints{0}}}});
    check({.op = op, .inputs = {f32({2, 0})}, .attrs = {{"axes", Ints{0}}}});
    check({.op = op, .inputs = {f32({})}, .ranges = {range}});
  }
}

TEST(Reduce, MeanAndVariance) {
  for (const int64_t keep : {0, 1}) {
    for (const Ints& axes : {Ints{0}, Ints{1}, Ints{-1, 0}, Ints{0, 1, 2}, Ints{}})
      check({"mean_variance", {f32({3, 5, 7})}, {{"axes", axes}, {"keepdims", keep}}, {}, 1e-5});
  }
  check({"mean_variance", {f16({3, 5})}, {{"axes", Ints{1}}}, {}, 1e-3});
  check({"mean_variance", {f32({2, 0})}, {{"axes", Ints{0}}}});
  const std::vector<RefTensor> y = run({"mean_variance", {f32({2, 2})}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}},
                                       {floats({2, 2}, {1001, 1003, 5, 5})});
  EXPECT_EQ(y[0].floats, (std::vector<double>{1002, 5}));
  EXPECT_EQ(y[1].floats, (std::vector<double>{1, 0}));
  EXPECT_THROW(single({"mean_variance", {i32({5, 3})}}), UserError);
}

TEST(Reduce, Integers) {
  for (const char* op :
       {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_l1", "reduce_sum_square"}) {
    for (const TensorType& type : {i32({5, 3}), i64({5, 3}), i8({5, 3}), u8({5, 3})}) {
      check({.op = op, .inputs = {type}, .attrs = {{"axes", Ints{0}}}, .ranges = {{-100, 100}}});
    }
  }
  check({.op = "reduce_max", .inputs = {boolean({5, 3})}, .attrs = {{"axes", Ints{0}}}});
  check({.op = "reduce_min", .inputs = {boolean({5, 3})}, .attrs = {{"axes", Ints{1}}}});
  check({.op = "reduce_l2", .inputs = {i32({5, 3})}, .attrs = {{"axes", Ints{1}}}, .ranges = {{-9, 9}}});
  EXPECT_THROW(single({.op = "reduce_sum", .inputs = {boolean({5, 3})}}), UserError);
  EXPECT_THROW(single({.op = "reduce_sum", .inputs = {f32({5, 3})}, .attrs = {{"axes", Ints{2}}}}), UserError);
}

TEST(Reduce, KnownValues) {
  const RefTensor x = floats({2, 2}, {1, 2, 3, 4});
  const auto of = [&](const char* op) {
    return run({.op = op, .inputs = {f32({2, 2})}, .attrs = {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}}, {x})[0]
        .floats;
  };
  EXPECT_EQ(of("reduce_sum"), (std::vector<double>{3, 7}));
  EXPECT_EQ(of("reduce_mean"), (std::vector<double>{1.5, 3.5}));
  EXPECT_EQ(of("reduce_prod"), (std::vector<double>{2, 12}));
  EXPECT_NEAR(of("reduce_l2")[1], 5, 1e-12);
  EXPECT_NEAR(of("reduce_log_sum_exp")[0], 2.313261687518223, 1e-12);
}

TEST(Reduce, LogSumExpOfExtremes) {
  const RefTensor x = floats({3, 2}, {1000, 1000, -kInf, -kInf, kInf, 0});
  const auto y =
      run({.op = "reduce_log_sum_exp", .inputs = {f32({3, 2})}, .attrs = {{"axes", Ints{1}}}}, {x})[0].floats;
  EXPECT_NEAR(y[0], 1000 + std::log(2.0), 1e-9);
  EXPECT_EQ(y[1], -kInf);
  EXPECT_EQ(y[2], kInf);
}

TEST(ArgReduce, AxesTiesAndTypes) {
  for (const char* op : {"arg_max", "arg_min"}) {
    for (int64_t axis : {0, 1, -1}) {
      for (int64_t last : {0, 1}) {
        const Attrs attrs{{"axis", axis}, {"keepdims", int64_t{last}}, {"select_last_index", last}};
        check({.op = op, .inputs = {f32({3, 5, 7})}, .attrs = attrs});
        // Integers of a narrow range: many ties.
        check({.op = op, .inputs = {i32({3, 5, 7})}, .attrs = attrs});
        check({.op = op, .inputs = {f16({1, 2, 1})}, .attrs = attrs});
      }
    }
  }
  EXPECT_THROW(single({.op = "arg_max", .inputs = {f32({3, 0})}, .attrs = {{"axis", int64_t{1}}}}), UserError);
}

TEST(ArgReduce, KnownValues) {
  const RefTensor x = floats({6}, {2, 5, 5, -kInf, std::nan(""), std::nan("")});
  const Case c{.op = "arg_max", .inputs = {f32({6})}};
  EXPECT_EQ(run(c, {x})[0].ints, (Ints{4}));
  Case last = c;
  last.attrs["select_last_index"] = int64_t{1};
  EXPECT_EQ(run(last, {x})[0].ints, (Ints{5}));
  EXPECT_EQ(run(c, {floats({6}, {2, 5, 5, 1, 0, 0})})[0].ints, (Ints{1}));
  EXPECT_EQ(run(last, {floats({6}, {2, 5, 5, 1, 0, 0})})[0].ints, (Ints{2}));
  EXPECT_EQ(run(c, {floats({6}, std::vector<double>(6, -kInf))})[0].ints, (Ints{0}));
}

TEST(Softmax, Axes) {
  for (const char* op : {"softmax", "log_softmax", "hardmax"}) {
    for (int64_t axis : {0, 1, 2, -1})
      check(
          {.op = op, .inputs = {f32({3, 5, 7})}, .attrs = {{"axis", axis}}, .ranges = {{-20, 20}}, .tolerance = 1e-5});
    check({.op = op, .inputs = {f32({4, 1})}});
    check({.op = op, .inputs = {f16({2, 5})}});
  }
  EXPECT_THROW(single({.op = "softmax", .inputs = {i32({3})}}), UserError);
  EXPECT_THROW(single({.op = "softmax", .inputs = {f32({3})}, .attrs = {{"axis", int64_t{1}}}}), UserError);
  const auto y = run({.op = "softmax", .inputs = {f32({2})}}, {floats({2}, {1000, 1001})})[0].floats;
  EXPECT_NEAR(y[1], 0.7310585786300049, 1e-12);
}

TEST(Normalization, Statistics) {
  const Range positive{0.2, 2};
  for (const Shape& shape : {Shape{2, 3}, Shape{2, 3, 5}, Shape{1, 3, 5, 7}}) {
    check({.op = "batch_norm",
           .inputs = {f32(shape), f32({3}), f32({3}), f32({3}), f32({3})},
           .attrs = {{"epsilon", 1e-3}},
           .ranges = {{}, {}, {}, {}, positive},
           .tolerance = 1e-5});
  }
  for (const Shape& shape : {Shape{2, 3, 5}, Shape{1, 3, 5, 7}}) {
    check({.op = "instance_norm", .inputs = {f32(shape), f32({3}), f32({3})}, .tolerance = 1e-5});
  }
  for (int64_t groups : {1, 2, 3, 6}) {
    check({.op = "group_norm",
           .inputs = {f32({2, 6, 5, 3}), f32({6}), f32({6})},
           .attrs = {{"num_groups", groups}},
           .tolerance = 1e-5});
    check({.op = "group_norm",
           .inputs = {f32({2, 6, 5}), f32({groups}), f32({groups})},
           .attrs = {{"num_groups", groups}},
           .tolerance = 1e-5});
  }
  EXPECT_THROW(
      single(
          {.op = "group_norm", .inputs = {f32({2, 6, 5}), f32({4}), f32({4})}, .attrs = {{"num_groups", int64_t{4}}}}),
      UserError);
  EXPECT_THROW(single({.op = "batch_norm", .inputs = {f32({2, 3}), f32({2}), f32({3}), f32({3}), f32({3})}}),
               UserError);
  check({.op = "mean_variance_norm", .inputs = {f32({2, 3, 5, 7})}, .tolerance = 1e-5});
  check({.op = "mean_variance_norm", .inputs = {f32({2, 3, 5})}, .attrs = {{"axes", Ints{0, 2}}}, .tolerance = 1e-5});
}

TEST(Normalization, OverTrailingAxes) {
  for (int64_t axis : {0, 1, 2, -1, -2}) {
    const Shape x{3, 5, 7};
    const Shape tail(x.begin() + (axis < 0 ? axis + 3 : axis), x.end());
    for (int64_t outputs : {1, 2, 3}) {
      check({.op = "layer_norm",
             .inputs = {f32(x), f32(tail), f32(tail)},
             .attrs = {{"axis", axis}, {"outputs", outputs}},
             .tolerance = 1e-5});
      check({.op = "layer_norm",
             .inputs = {f32(x), f32(tail)},
             .attrs = {{"axis", axis}, {"outputs", outputs}},
             .tolerance = 1e-5});
    }
    check({.op = "rms_norm",
           .inputs = {f32(x), f32(tail)},
           .attrs = {{"axis", axis}, {"epsilon", 1e-3}},
           .tolerance = 1e-5});
  }
  check({.op = "layer_norm", .inputs = {f16({3, 5}), f16({5}), f16({1})}, .tolerance = 1e-5});
  EXPECT_THROW(single({.op = "layer_norm", .inputs = {f32({3, 5}), f32({3})}}), UserError);
  const auto y = run({.op = "layer_norm", .inputs = {f32({1, 2}), f32({2})}, .attrs = {{"epsilon", 0.0}}},
                     {floats({1, 2}, {1, 3}), floats({2}, {1, 10})})[0];
  EXPECT_EQ(y.floats, (std::vector<double>{-1, 10}));
}

TEST(Normalization, Local) {
  for (int64_t size : {1, 2, 3, 5}) {
    check({.op = "lrn",
           .inputs = {f32({2, 4, 3, 5})},
           .attrs = {{"size", size}, {"alpha", 0.5}, {"beta", 0.6}, {"bias", 2.0}},
           .tolerance = 1e-5});
  }
  // Channel 0 of size 3 sees channels 0 and 1: 1 / (1 + 3 / 3 * (1 + 4)).
  const auto y =
      run({.op = "lrn", .inputs = {f32({1, 3, 1})}, .attrs = {{"size", int64_t{3}}, {"alpha", 3.0}, {"beta", 1.0}}},
          {floats({1, 3, 1}, {1, 2, 3})})[0];
  EXPECT_NEAR(y.floats[0], 1.0 / 6, 1e-6);
  EXPECT_NEAR(y.floats[1], 2.0 / 15, 1e-6);
  for (int64_t p : {1, 2}) {
    for (int64_t axis : {0, 1, -1})
      check({.op = "lp_norm", .inputs = {f32({3, 5, 2})}, .attrs = {{"axis", axis}, {"p", p}}});
  }
  EXPECT_EQ(run({.op = "lp_norm", .inputs = {f32({2})}}, {floats({2}, {0, 0})})[0].floats, (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace tw::ops::test
