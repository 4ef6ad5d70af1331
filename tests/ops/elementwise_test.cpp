#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "check.h"
#include "support/error.h"

namespace tw::ops::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

const std::vector<Shape> kShapes = {{}, {1}, {7}, {3, 5}, {2, 1, 3, 1}, {0, 4}};

TEST(Unary, EveryFloatOperator) {
  for (const char* op : {"exp",        "sin",      "cos",    "atan",       "sinh",
                         "cosh",       "asinh",    "erf",    "tanh",       "sigmoid",
                         "softplus",   "floor",    "ceil",   "round",      "gelu",
                         "gelu_tanh",  "softsign", "mish",   "hard_swish", "hard_sigmoid",
                         "elu",        "celu",     "selu",   "leaky_relu", "thresholded_relu",
                         "silu",       "shrink",   "clip",   "relu",       "neg",
                         "abs",        "sign",     "is_nan", "is_inf",     "identity",
                         "nan_to_zero"}) {
    for (const Shape& shape : kShapes) check({.op = op, .inputs = {f32(shape)}});
    check({.op = op, .inputs = {f16({3, 5})}});
  }
  for (const char* op : {"log", "sqrt", "reciprocal"}) check({.op = op, .inputs = {f32({3, 7})}, .ranges = {{0.1, 5}}});
  for (const char* op : {"asin", "acos", "atanh", "tan"})
    check({.op = op, .inputs = {f32({3, 7})}, .ranges = {{-0.9, 0.9}}});
  check({.op = "acosh", .inputs = {f32({11})}, .ranges = {{1.1, 9}}});
}

TEST(Unary, FarFromZero) {
  for (const char* op : {"sigmoid", "softplus", "mish", "gelu", "gelu_tanh", "silu", "elu", "selu", "celu", "tanh",
                         "erf", "hard_swish", "softsign"}) {
    check({.op = op, .inputs = {f32({101})}, .ranges = {{-60, 60}}, .tolerance = 1e-5});
  }
}

TEST(Unary, Attributes) {
  check({.op = "elu", .inputs = {f32({7})}, .attrs = {{"alpha", 1.5}}});
  check({.op = "celu", .inputs = {f32({7})}, .attrs = {{"alpha", 0.5}}});
  check({.op = "selu", .inputs = {f32({7})}, .attrs = {{"alpha", 2.0}, {"gamma", 3.0}}});
  check({.op = "leaky_relu", .inputs = {f32({7})}, .attrs = {{"alpha", 0.25}}});
  check({.op = "hard_sigmoid", .inputs = {f32({7})}, .attrs = {{"alpha", 0.5}, {"beta", 0.25}}});
  check({.op = "shrink", .inputs = {f32({31})}, .attrs = {{"lambd", 1.5}, {"bias", 1.5}}});
  check({.op = "shrink", .inputs = {i32({31})}, .attrs = {{"lambd", 2.5}, {"bias", 1.0}}, .ranges = {{-9, 9}}});
  EXPECT_EQ(run({.op = "clip", .inputs = {f32({4})}, .attrs = {{"min", -1.0}, {"max", 1.0}}},
                {floats({4}, {-3, -0.5, 0.5, 3})})[0]
                .floats,
            (std::vector<double>{-1, -0.5, 0.5, 1}));
  check({.op = "clip", .inputs = {f32({31})}, .attrs = {{"max", 0.0}}});
  check(
      {.op = "clip", .inputs = {i32({31})}, .attrs = {{"min", int64_t{-3}}, {"max", int64_t{4}}}, .ranges = {{-9, 9}}});
}

TEST(Unary, Integers) {
  for (const char* op : {"relu", "neg", "abs", "sign", "bitwise_not", "identity"}) {
    for (const TensorType& type : {i32({3, 5}), i64({7}), i8({7}), u8({7})})
      check({.op = op, .inputs = {type}, .ranges = {{-128, 127}}});
  }
  check({.op = "not", .inputs = {boolean({3, 5})}});
  EXPECT_EQ(run({.op = "not", .inputs = {boolean({2})}}, {ints(DataType::boolean(), {2}, {0, 1})})[0].ints,
            (Ints{1, 0}));
  const auto abs = run({.op = "abs", .inputs = {i8({2})}}, {ints(i8({}).type, {2}, {-128, -3})});
  EXPECT_EQ(abs[0].ints, (Ints{-128, 3}));
}

TEST(Unary, SpecialValues) {
  const RefTensor x = floats({5}, {kNan, kInf, -kInf, 0, -0.5});
  const auto with = [&](const char* op, Attrs attrs = {}) {
    return run({.op = op, .inputs = {f32({5})}, .attrs = attrs}, {x})[0];
  };
  EXPECT_TRUE(std::isnan(with("relu").floats[0]));
  EXPECT_TRUE(std::isnan(with("clip", {{"min", 0.0}}).floats[0]));
  EXPECT_TRUE(std::isnan(with("sign").floats[0]));
  EXPECT_EQ(with("is_nan").ints, (Ints{1, 0, 0, 0, 0}));
  EXPECT_EQ(with("nan_to_zero").floats[0], 0);
  EXPECT_EQ(with("is_inf").ints, (Ints{0, 1, 1, 0, 0}));
  EXPECT_EQ(with("is_inf", {{"detect_negative", int64_t{0}}}).ints, (Ints{0, 1, 0, 0, 0}));
  EXPECT_EQ(with("is_inf", {{"detect_negative", int64_t{0}}, {"detect_positive", int64_t{0}}}).ints,
            (Ints{0, 0, 0, 0, 0}));
  EXPECT_EQ(run({.op = "round", .inputs = {f32({4})}}, {floats({4}, {0.5, 1.5, 2.5, -2.5})})[0].floats,
            (std::vector<double>{0, 2, 2, -2}));
}

// Numbers worked out by hand: te and reference could share a mistake.
TEST(Unary, KnownValues) {
  const auto at = [](const char* op, double x) {
    return run({.op = op, .inputs = {f32({1})}}, {floats({1}, {x})})[0].floats[0];
  };
  EXPECT_NEAR(at("gelu", 1), 0.8413447460685429, 1e-12);
  EXPECT_NEAR(at("gelu_tanh", 1), 0.8411919906082768, 1e-7);
  EXPECT_NEAR(at("silu", 1), 0.7310585786300049, 1e-12);
  EXPECT_NEAR(at("mish", 1), 0.8650983882673103, 1e-12);
  EXPECT_NEAR(at("hard_swish", 1), 2.0 / 3, 1e-12);
  EXPECT_NEAR(at("hard_sigmoid", 1), 0.7, 1e-7);
  EXPECT_NEAR(at("selu", -1), -1.1113307, 1e-6);
  EXPECT_NEAR(at("softsign", -3), -0.75, 1e-12);
  EXPECT_NEAR(at("leaky_relu", -1), -0.01, 1e-8);
}

TEST(Unary, RejectsTypes) {
  EXPECT_THROW(single({.op = "exp", .inputs = {i32({3})}}), UserError);
  EXPECT_THROW(single({.op = "not", .inputs = {f32({3})}}), UserError);
  EXPECT_THROW(single({.op = "relu", .inputs = {boolean({3})}}), UserError);
  EXPECT_THROW(single({.op = "bitwise_not", .inputs = {f32({3})}}), UserError);
  EXPECT_THROW(single({.op = "relu", .inputs = {f32({3}), f32({3})}}), UserError);
}

const std::vector<std::pair<Shape, Shape>> kBroadcasts = {{{3, 5}, {3, 5}}, {{3, 5}, {5}},       {{5}, {3, 5}},
                                                          {{3, 1}, {1, 7}}, {{2, 3, 5}, {3, 1}}, {{}, {7}},
                                                          {{7}, {}},        {{1}, {2, 3}},       {{0, 3}, {1}}};

TEST(Binary, BroadcastsBothWays) {
  for (const char* op : {"add", "sub", "mul", "div", "min", "max", "fmod", "prelu", "equal", "less", "less_equal",
                         "greater", "greater_equal"}) {
    for (const auto& [a, b] : kBroadcasts) check({.op = op, .inputs = {f32(a), f32(b)}});
    check({.op = op, .inputs = {f16({3, 5}), f16({5})}});
  }
  for (const char* op : {"and", "or", "xor", "equal"}) {
    for (const auto& [a, b] : kBroadcasts) check({.op = op, .inputs = {boolean(a), boolean(b)}});
  }
}

TEST(Binary, Integers) {
  for (const char* op : {"add", "sub", "mul", "div", "mod", "fmod", "min", "max", "bitwise_and", "bitwise_or",
                         "bitwise_xor", "equal", "less", "less_equal", "greater", "greater_equal"}) {
    for (const TensorType& type : {i32({53}), i64({53}), i8({53}), u8({53})}) {
      check({.op = op, .inputs = {type, type}, .ranges = {{-120, 120}, {-4, 4}}});
    }
  }
  for (const char* op : {"shift_left", "shift_right"}) {
    for (const TensorType& type : {i32({53}), i64({53}), i8({53}), u8({53})})
      check({.op = op, .inputs = {type, type}, .ranges = {{-100, 100}, {-3, 70}}});
  }
}

TEST(Binary, ShiftsOfTheWidthAndMore) {
  const TensorType t = u8({4}), s = i8({4});
  const RefTensor a = ints(t.type, {4}, {16, 4, 255, 255}), amount = ints(t.type, {4}, {16, 8, 7, 255});
  EXPECT_EQ(run({.op = "shift_left", .inputs = {t, t}}, {a, amount})[0].ints, (Ints{0, 0, 128, 0}));
  EXPECT_EQ(run({.op = "shift_right", .inputs = {t, t}}, {a, amount})[0].ints, (Ints{0, 0, 1, 0}));
  const RefTensor b = ints(s.type, {4}, {-16, 4, -1, 127}), by = ints(s.type, {4}, {16, 8, -1, 7});
  EXPECT_EQ(run({.op = "shift_left", .inputs = {s, s}}, {b, by})[0].ints, (Ints{0, 0, 0, -128}));
  EXPECT_EQ(run({.op = "shift_right", .inputs = {s, s}}, {b, by})[0].ints, (Ints{-1, 0, -1, 0}));
}

TEST(Binary, DivisionEdges) {
  const TensorType t = i32({6});
  const RefTensor a = ints(t.type, {6}, {7, -7, 7, -7, INT32_MIN, 5});
  const RefTensor b = ints(t.type, {6}, {2, 2, -2, -2, -1, 0});
  EXPECT_EQ(run({.op = "div", .inputs = {t, t}}, {a, b})[0].ints, (Ints{3, -3, -3, 3, INT32_MIN, 0}));
  EXPECT_EQ(run({.op = "mod", .inputs = {t, t}}, {a, b})[0].ints, (Ints{1, 1, -1, -1, 0, 0}));
  EXPECT_EQ(run({.op = "fmod", .inputs = {t, t}}, {a, b})[0].ints[1], -1);
  const RefTensor x = floats({4}, {5.3, -5.3, 6, 1}), y = floats({4}, {2, 2, -3, kInf});
  const auto rest = run({.op = "fmod", .inputs = {f32({4}), f32({4})}}, {x, y})[0];
  EXPECT_NEAR(rest.floats[1], -1.3, 1e-6);
  EXPECT_EQ(rest.floats[2], 0);
  EXPECT_EQ(rest.floats[3], 1);
}

// Far more than 2^53 divisors: what is left is exact all the same.
TEST(Binary, RemaindersOfLargeQuotients) {
  const std::vector<double> a = {1e20F, 3e38F, 1e10F, -1e20F, -0.0, kInf, 1, kNan};
  const std::vector<double> b = {3, 0.7F, 3, 3, 2, 3, 0, 1};
  const auto rest = run({.op = "fmod", .inputs = {f32({8}), f32({8})}}, {floats({8}, a), floats({8}, b)})[0];
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(rest.floats[i], std::fmod(a[i], b[i])) << i;
  EXPECT_EQ(rest.floats[0], 2);
  EXPECT_TRUE(std::signbit(rest.floats[4]));
  for (size_t i = 5; i < 8; ++i) EXPECT_TRUE(std::isnan(rest.floats[i])) << i;
}

TEST(Binary, UnsignedOrder) {
  const DataType u64(ScalarType::kU64);
  const RefTensor a = ints(u64, {2}, {-1, 1}), b = ints(u64, {2}, {1, -1});
  EXPECT_EQ(run({.op = "less", .inputs = {{u64, {2}}, {u64, {2}}}}, {a, b})[0].ints, (Ints{0, 1}));
  EXPECT_EQ(run({.op = "max", .inputs = {{u64, {2}}, {u64, {2}}}}, {a, b})[0].ints, (Ints{-1, -1}));
}

TEST(Binary, MinAndMaxKeepNan) {
  const RefTensor a = floats({2}, {kNan, 1}), b = floats({2}, {1, kNan});
  for (const char* op : {"min", "max"}) {
    const auto y = run({.op = op, .inputs = {f32({2}), f32({2})}}, {a, b})[0];
    EXPECT_TRUE(std::isnan(y.floats[0]) && std::isnan(y.floats[1]));
  }
}

TEST(Binary, Rejects) {
  EXPECT_THROW(single({.op = "add", .inputs = {f32({3}), f32({4})}}), UserError);
  EXPECT_THROW(single({.op = "add", .inputs = {f32({3}), i32({3})}}), UserError);
  EXPECT_THROW(single({.op = "add", .inputs = {boolean({3}), boolean({3})}}), UserError);
  EXPECT_THROW(single({.op = "and", .inputs = {f32({3}), f32({3})}}), UserError);
  EXPECT_THROW(single({.op = "add", .inputs = {f32({3})}}), UserError);
  EXPECT_THROW(single({.op = "add", .inputs = {f32({3}), absent()}}), UserError);
}

TEST(Pow, EveryMixOfTypes) {
  for (const auto& [a, b] : kBroadcasts)
    check({.op = "pow", .inputs = {f32(a), f32(b)}, .ranges = {{0.1, 3}, {-3, 3}}, .tolerance = 1e-5});
  check({.op = "pow", .inputs = {f32({17}), i64({17})}, .ranges = {{-3, 3}, {-3, 5}}});
  check({.op = "pow", .inputs = {i32({53}), i32({53})}, .ranges = {{-9, 9}, {-2, 13}}});
  check({.op = "pow", .inputs = {i64({53}), i64({53})}, .ranges = {{-2, 2}, {-2, 70}}});
  check({.op = "pow", .inputs = {i32({5, 3}), f32({3})}, .ranges = {{1, 9}, {0, 3}}});
  const auto y = run({.op = "pow", .inputs = {i32({3}), f32({3})}},
                     {ints(DataType::i32(), {3}, {3, 2, 7}), floats({3}, {6, 0.5, 3})});
  EXPECT_EQ(y[0].ints, (Ints{729, 1, 343}));
  const auto z = run({.op = "pow", .inputs = {i64({4}), i64({4})}},
                     {ints(DataType::i64(), {4}, {2, -1, 0, 3}), ints(DataType::i64(), {4}, {62, -3, 0, -1})});
  EXPECT_EQ(z[0].ints, (Ints{int64_t{1} << 62, -1, 1, 0}));
}

TEST(Where, BroadcastsThreeWays) {
  check({.op = "where", .inputs = {boolean({3, 5}), f32({3, 5}), f32({3, 5})}});
  check({.op = "where", .inputs = {boolean({3, 1}), f32({5}), f32({2, 1, 1})}});
  check({.op = "where", .inputs = {boolean({}), i64({5}), i64({1})}});
  EXPECT_THROW(single({.op = "where", .inputs = {boolean({3}), f32({3}), i32({3})}}), UserError);
}

TEST(Band, CausalWindowsAndAll) {
  check({.op = "band", .inputs = {f32({2, 5, 7})}, .attrs = {{"fill", -1e30}, {"upper", int64_t{0}}}});
  check(
      {.op = "band", .inputs = {f32({6, 4})}, .attrs = {{"fill", 0.0}, {"lower", int64_t{-2}}, {"upper", int64_t{1}}}});
  check({.op = "band", .inputs = {f32({3, 3})}, .attrs = {{"fill", 2.0}, {"lower", int64_t{-9}}}});
  for (const DataType type : {DataType::boolean(), DataType::i64(), DataType::f16()})
    check({.op = "band", .inputs = {{type, {2, 5, 3}}}, .attrs = {{"lower", int64_t{-1}}}});
  EXPECT_THROW(single({.op = "band", .inputs = {f32({3})}, .attrs = {{"fill", 2.0}}}), UserError);
  EXPECT_THROW(single({.op = "where", .inputs = {f32({3}), f32({3}), f32({3})}}), UserError);
  EXPECT_THROW(single({.op = "where", .inputs = {boolean({3}), f32({4}), f32({1})}}), UserError);
}

TEST(Pick, OneElementOfEachRow) {
  check({.op = "pick",
         .inputs = {i64({3, 1}), f32({3, 5})},
         .attrs = {{"axis", int64_t{1}}, {"extent", int64_t{5}}},
         .ranges = {{-2, 6}, {}}});
  check({.op = "pick",
         .inputs = {i32({2, 1, 4}), f32({1, 1, 1})},
         .attrs = {{"axis", int64_t{1}}, {"extent", int64_t{3}}},
         .ranges = {{0, 2}, {}}});
  check({.op = "pick",
         .inputs = {i64({}), i64({4})},
         .attrs = {{"axis", int64_t{0}}, {"extent", int64_t{4}}},
         .ranges = {{0, 3}, {}}});
  const auto y =
      run({.op = "pick", .inputs = {i64({3, 1}), f32({3, 1})}, .attrs = {{"axis", int64_t{1}}, {"extent", int64_t{2}}}},
          {ints(DataType::i64(), {3, 1}, {1, -1, 2}), floats({3, 1}, {3, INFINITY, NAN})});
  EXPECT_EQ(y[0].floats, (std::vector<double>{0, 3, 0, 0, 0, 0})) << "nothing but what is picked is multiplied";
  const graph::Attrs wrong = {{"axis", int64_t{1}}, {"extent", int64_t{4}}};
  EXPECT_THROW(single({.op = "pick", .inputs = {i64({3, 1}), f32({3, 5})}, .attrs = wrong}), UserError);
  EXPECT_THROW(single({.op = "pick", .inputs = {f32({3, 1}), f32({3, 4})}, .attrs = wrong}), UserError);
}

TEST(Cast, EveryPair) {
  for (const char* to : {"bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"}) {
    for (const TensorType& from : {f32({31}), f16({31}), i32({31}), i64({31}), u8({31}), i8({31}), boolean({31})}) {
      // The reference rounds to narrow floats, the te evaluator does not.
      const double tolerance = std::string(to) == "bf16" ? 4e-3 : std::string(to) == "f16" ? 5e-4 : 1e-7;
      const Range range = from.type.is_bool() ? Range{0, 1} : Range{-120, 120};
      check({.op = "cast",
             .inputs = {from},
             .attrs = {{"to", std::string(to)}},
             .ranges = {range},
             .tolerance = tolerance});
    }
  }
}

TEST(Cast, Saturates) {
  const RefTensor x = floats({6}, {300, -300, kNan, 1.9, -1.9, kInf});
  const auto to = [&](const char* type) {
    return run({.op = "cast", .inputs = {f32({6})}, .attrs = {{"to", std::string(type)}}}, {x})[0].ints;
  };
  EXPECT_EQ(to("i8"), (Ints{127, -128, 0, 1, -1, 127}));
  EXPECT_EQ(to("u8"), (Ints{255, 0, 0, 1, 0, 255}));
  EXPECT_EQ(to("bool"), (Ints{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(to("i64")[5], INT64_MAX);
  EXPECT_EQ(to("u64")[5], -1);
  EXPECT_THROW(single({.op = "cast", .inputs = {f32({6})}, .attrs = {{"to", std::string("f31")}}}), UserError);
}

TEST(Bitcast, EveryWidth) {
  const std::vector<std::pair<TensorType, const char*>> pairs = {{i8({31}), "u8"},   {boolean({31}), "u8"},
                                                                 {f16({31}), "u16"}, {f16({31}), "i16"},
                                                                 {f32({31}), "i32"}, {f32({31}), "u32"},
                                                                 {i32({31}), "u32"}, {u8({31}), "bool"},
                                                                 {i64({31}), "u64"}, {{DataType::f64(), {31}}, "i64"}};
  for (const auto& [from, to] : pairs) {
    const Range range = from.type.is_bool() ? Range{0, 1} : Range{-120, 120};
    check({.op = "bitcast", .inputs = {from}, .attrs = {{"to", std::string(to)}}, .ranges = {range}});
  }
  for (const Shape& shape : kShapes)
    check({.op = "bitcast", .inputs = {f32(shape)}, .attrs = {{"to", std::string("i32")}}});
}

TEST(Bitcast, KnownBits) {
  const auto bits = [](TensorType from, const char* to, const RefTensor& x) {
    return run({.op = "bitcast", .inputs = {std::move(from)}, .attrs = {{"to", std::string(to)}}}, {x})[0];
  };
  EXPECT_EQ(bits(f32({2}), "i32", floats({2}, {1, -2})).ints, (Ints{0x3f800000, -0x40000000}));
  EXPECT_EQ(bits(i32({2}), "f32", ints(DataType::i32(), {2}, {0x3f800000, 0x7f800000})).floats,
            (std::vector<double>{1, kInf}));
  EXPECT_EQ(bits(u8({3}), "bool", ints(DataType(ScalarType::kU8), {3}, {0, 1, 6})).ints, (Ints{0, 1, 1}));
  EXPECT_THROW(single({.op = "bitcast", .inputs = {f32({3})}, .attrs = {{"to", std::string("f64")}}}), UserError);
}

}  // namespace
}  // namespace tw::ops::test
