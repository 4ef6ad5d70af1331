#include "expr/expand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "expansion_check.h"
#include "expr/elementary.h"
#include "tape.h"

namespace tw {
namespace {

using namespace testing;

// Every exponent, both signs, `each` random mantissas; and the special values.
std::vector<std::array<float, 2>> all_exponents(int each, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::array<float, 2>> points;
  for (float x : special_values<float>()) points.push_back({x, 0});
  for (uint32_t top = 0; top < 512; ++top) {
    for (int k = 0; k < each; ++k) {
      points.push_back({std::bit_cast<float>((top << 23) | static_cast<uint32_t>(random() & 0x7fffff)), 0});
    }
  }
  return points;
}

// The part of the line where a function is neither 0, 1 nor infinite, evenly.
void add_uniform(std::vector<std::array<float, 2>>& points, float range, int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> value(-range, range);
  for (int k = 0; k < count; ++k) points.push_back({value(random), 0});
}

class ElementaryF32 : public ::testing::TestWithParam<std::string> {};

TEST_P(ElementaryF32, StaysWithinItsBound) {
  const ElementaryFunction& f = *find_elementary(GetParam());
  auto points = all_exponents(1400, 1);
  for (float range : {1.0f, 12.0f, 110.0f, 70000.0f}) add_uniform(points, range, 100000, 2);
  const Expr e = expanded(GetParam(), 1, DataType::f32());
  const Worst worst = worst_error<float, double>(e, points, [&](const auto& p) {
    const double x = p[0];
    return f.reference(&x);
  });
  RecordProperty("worst_ulp", std::to_string(worst.ulp));
  RecordProperty("nodes", static_cast<int>(Tape(e, {"x"}).steps()));
  std::printf("%-9s %.3f ulp at %a (%g), %zu nodes\n", GetParam().c_str(), worst.ulp, worst.at[0], worst.at[0],
              Tape(e, {"x"}).steps());
  EXPECT_LE(worst.ulp, f.max_ulp) << GetParam() << "(" << worst.at[0] << ") = " << worst.got << ", exact "
                                  << worst.wanted;
}

std::vector<std::string> names_of_arity(int arity) {
  std::vector<std::string> names;
  for (const ElementaryFunction& f : elementary_functions()) {
    if (f.arity == arity) names.emplace_back(f.name);
  }
  return names;
}
const auto kName = [](const auto& info) { return info.param; };
INSTANTIATE_TEST_SUITE_P(All, ElementaryF32, ::testing::ValuesIn(names_of_arity(1)), kName);

template <typename T>
std::vector<std::array<T, 2>> pow_points(int count) {
  std::mt19937_64 random(3);
  std::vector<std::array<T, 2>> points;
  for (T x : special_values<T>()) {
    for (T y : special_values<T>()) points.push_back({x, y});
  }
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  std::uniform_real_distribution<double> unit(-1, 1);
  const double limit = sizeof(T) == 4 ? 105 : 750;
  for (int k = 0; k < count; ++k) {
    const T any = std::bit_cast<T>(static_cast<Bits>(random()));
    const T other = std::bit_cast<T>(static_cast<Bits>(random()));
    points.push_back({any, other});
    points.push_back({any, static_cast<T>(static_cast<int>(random() % 41) - 20)});
    // The result anywhere between the smallest and the largest number.
    const T x = std::fabs(any);
    points.push_back({x, static_cast<T>(unit(random) * limit / std::log(static_cast<double>(x)))});
    const T near_one = static_cast<T>(1 + unit(random) * std::ldexp(1.0, -static_cast<int>(random() % 20)));
    points.push_back({near_one, static_cast<T>(unit(random) * limit / std::log(static_cast<double>(near_one)))});
  }
  return points;
}

TEST(ElementaryF32, PowStaysWithinItsBound) {
  const ElementaryFunction& f = *find_elementary("pow");
  const Worst worst =
      worst_error<float, double>(expanded("pow", 2, DataType::f32()), pow_points<float>(250000), [&](const auto& p) {
        const double x[2] = {p[0], p[1]};
        return f.reference(x);
      });
  std::printf("pow       %.3f ulp at %g, %g\n", worst.ulp, worst.at[0], worst.at[1]);
  EXPECT_LE(worst.ulp, f.max_ulp) << "pow(" << worst.at[0] << ", " << worst.at[1] << ") = " << worst.got << ", exact "
                                  << worst.wanted;
}

// Without logarithm and exponential.
TEST(ElementaryF32, PowersOfWholeNumbersAreProducts) {
  for (const double n : {1, 2, 3, 4, 7, 11, 16}) {
    const Expr e = expand_elementary(call("pow", {var("x", DataType::f32()), imm(DataType::f32(), n)}));
    EXPECT_LT(Tape(e, {"x"}).steps(), 12U);
    auto points = all_exponents(100, 3);
    add_uniform(points, 12, 10000, 4);
    const Worst worst =
        worst_error<float, double>(e, points, [&](const auto& p) { return std::pow(static_cast<double>(p[0]), n); });
    EXPECT_LE(worst.ulp, find_elementary("pow")->max_ulp)
        << "pow(" << worst.at[0] << ", " << n << ") = " << worst.got << ", exact " << worst.wanted;
  }
}

class ElementaryF64 : public ::testing::TestWithParam<std::string> {};

TEST_P(ElementaryF64, StaysWithinEightUlp) {
  std::mt19937_64 random(5);
  std::vector<std::array<double, 2>> points;
  for (double x : special_values<double>()) points.push_back({x, 0});
  for (uint64_t top = 0; top < 4096; ++top) {
    for (int k = 0; k < 20; ++k)
      points.push_back({std::bit_cast<double>((top << 52) | (random() & 0xfffffffffffff)), 0});
  }
  for (double range : {1.0, 12.0, 750.0, 1e6, 1e15}) {
    std::uniform_real_distribution<double> value(-range, range);
    for (int k = 0; k < 20000; ++k) points.push_back({value(random), 0});
  }
  const Worst worst = worst_error<double, long double>(expanded(GetParam(), 1, DataType::f64()), points,
                                                       [&](const auto& p) { return long_reference(GetParam(), p[0]); });
  std::printf("%-9s %.3f ulp at %a (%g)\n", GetParam().c_str(), worst.ulp, worst.at[0], worst.at[0]);
  EXPECT_LE(worst.ulp, 8) << GetParam() << "(" << worst.at[0] << ") = " << worst.got << ", exact " << worst.wanted;
}

INSTANTIATE_TEST_SUITE_P(All, ElementaryF64, ::testing::ValuesIn(names_of_arity(1)), kName);

TEST(ElementaryF64, PowStaysWithinEightUlp) {
  const Worst worst = worst_error<double, long double>(
      expanded("pow", 2, DataType::f64()), pow_points<double>(30000),
      [&](const auto& p) { return std::pow(static_cast<long double>(p[0]), static_cast<long double>(p[1])); });
  std::printf("pow       %.3f ulp at %g, %g\n", worst.ulp, worst.at[0], worst.at[1]);
  EXPECT_LE(worst.ulp, 8) << "pow(" << worst.at[0] << ", " << worst.at[1] << ") = " << worst.got << ", exact "
                          << worst.wanted;
}

// Arguments as close to a multiple of pi/2 as f32 comes, and huge ones.
TEST(ElementaryF32, SineReducesHugeArguments) {
  std::vector<std::array<float, 2>> points;
  for (float x : {0x1.fe2b3ep+120f, 16367173.0f * 0x1p72f, 0x1.6ac5b2p+1f, 10367.258f, 71476.0f, 65535.996f, 65536.0f,
                  3.4e38f, 1e20f, 6381956970095103.0f * 0x1p30f}) {
    points.push_back({x, 0});
    points.push_back({-x, 0});
  }
  for (const char* name : {"sin", "cos", "tan"}) {
    const ElementaryFunction& f = *find_elementary(name);
    const Worst worst = worst_error<float, double>(expanded(name, 1, DataType::f32()), points, [&](const auto& p) {
      const double x = p[0];
      return f.reference(&x);
    });
    EXPECT_LE(worst.ulp, f.max_ulp) << name << "(" << worst.at[0] << ")";
  }
}

// Saturating functions end at exactly 1 and never pass it.
TEST(ElementaryF32, SaturatesAtOne) {
  for (const char* name : {"tanh", "erf", "sigmoid"}) {
    auto points = all_exponents(10, 4);
    for (float x = 3.5f; x < 9.5f; x = std::nextafter(x, 10.0f) + 2e-6f) points.push_back({x, 0});
    Tape tape(expanded(name, 1, DataType::f32()), {"x"});
    std::vector<Tape::Block> in(1);
    Tape::Block out;
    for (size_t begin = 0; begin < points.size(); begin += Tape::kBlock) {
      for (size_t i = 0; i < Tape::kBlock; ++i) {
        in[0][i] = std::bit_cast<uint32_t>(points[std::min(begin + i, points.size() - 1)][0]);
      }
      tape.eval(in, &out);
      for (size_t i = 0; i < Tape::kBlock; ++i) {
        const float x = std::bit_cast<float>(static_cast<uint32_t>(in[0][i]));
        const float y = std::bit_cast<float>(static_cast<uint32_t>(out[i]));
        ASSERT_FALSE(std::fabs(y) > 1) << name << "(" << x << ")";
        ASSERT_TRUE(y == 1 || !(x > 20)) << name << "(" << x << ")";
      }
    }
  }
}

TEST(Expand, VectorsGiveWhatScalarsGive) {
  for (const ElementaryFunction& f : elementary_functions()) {
    const std::string name(f.name);
    const Expr scalar = expanded(name, f.arity, DataType::f32());
    const Expr vector = expanded(name, f.arity, DataType::f32().with_lanes(8));
    ASSERT_EQ(vector.type(), DataType::f32().with_lanes(8)) << name;
    visit(vector, [&](const Expr& e) { EXPECT_TRUE(e.op() != Op::kCall || e->name == "sqrt") << name; });
    Tape a(scalar, {"x", "y"}), b(vector, {"x", "y"});
    std::vector<Tape::Block> in(2);
    std::mt19937_64 random(9);
    for (auto& block : in) {
      for (uint64_t& x : block) x = static_cast<uint32_t>(random());
    }
    Tape::Block left, right;
    a.eval(in, &left);
    b.eval(in, &right);
    EXPECT_EQ(left, right) << name;
  }
}

TEST(Expand, HalfTypesComputeInF32) {
  for (DataType type : {DataType::f16(), DataType::bf16()}) {
    for (const char* name : {"exp", "sqrt", "tan"}) {
      const Expr e = expand_elementary(call(name, {var("x", type)}));
      ASSERT_EQ(e.type(), type);
      ASSERT_EQ(e.op(), Op::kCast);
      visit(e, [&](const Expr& x) { EXPECT_TRUE(x.op() == Op::kCast || x.is_var() || x.type() != type); });
    }
  }
}

// A function of 16-bit floats as its approximate form gives it. The unit is half an ulp of the type around the result,
// of f16 no less than half its smallest number; GELU of bf16 gets no better than that either.
struct Rounded {
  std::string name;
  Expr value;  // of x
  double (*exact)(double);
  double smallest = 0x1p-127;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<Rounded> rounded_functions() {
  const Expr x = var("x", DataType::f32());
  std::vector<Rounded> out;
  for (const char* name : {"erf", "exp", "log", "sigmoid", "softplus", "tanh"})
    out.push_back({name, call(name, {x}), nullptr});
  const Expr half = float_imm(0.5) * x, inner = float_imm(1) + call("erf", {x * float_imm(std::numbers::sqrt2 / 2)});
  out.push_back({"gelu", half * inner, [](double v) { return v / 2 * std::erfc(-v / std::numbers::sqrt2); }, 0x1p-25});
  out.push_back({"gelu of a rough erf", half * (float_imm(1) + call(std::string(kRough), {inner.arg(1)})),
                 out.back().exact, 0x1p-25});
  out.push_back({"a softmax's weight", call("exp", {x * float_imm(0.125) - float_imm(3)}),
                 [](double v) { return std::exp(v / 8 - 3); }});
  out.push_back({"one of large scores", call("exp", {x * float_imm(0.3f) - float_imm(60)}),
                 [](double v) { return std::exp(v * double{0.3f} - 60); }});
  out.push_back({"silu", x * call("sigmoid", {x}), [](double v) { return v * sigmoid(v); }});
  return out;
}

void expect_hidden(const Rounded& f, DataType type, int direction) {
  const bool f16 = type == DataType::f16();
  Tape tape(expand_approximate(f.value), {"x"});
  tape.err(direction);
  std::vector<Tape::Block> in(1);
  Tape::Block out;
  for (uint32_t begin = 0; begin < 0x10000; begin += Tape::kBlock) {
    for (uint32_t i = 0; i < Tape::kBlock; ++i) {
      const auto bits = static_cast<uint16_t>(begin + i);
      in[0][i] = f16 ? std::bit_cast<uint32_t>(static_cast<float>(f16_value(bits))) : uint32_t{bits} << 16;
    }
    tape.eval(in, &out);
    for (uint32_t i = 0; i < Tape::kBlock; ++i) {
      const double x = std::bit_cast<float>(static_cast<uint32_t>(in[0][i]));
      const double y = std::bit_cast<float>(static_cast<uint32_t>(out[i]));
      const double exact = f.exact ? f.exact(x) : find_elementary(f.name)->reference(&x);
      const double largest = f16 ? 65520 : 3.3895e38;
      if (std::isnan(exact) || std::fabs(exact) >= largest) {
        ASSERT_TRUE(std::isnan(exact) ? std::isnan(y) : std::fabs(y) >= largest * (1 - 0x1p-12))
            << f.name << "(" << x << ") = " << y;
        continue;
      }
      const double unit = std::max(std::ldexp(1.0, std::ilogb(exact == 0 ? 0x1p-200 : exact) - (f16 ? 11 : 8)),
                                   f16 ? 0x1p-25 : f.smallest);
      ASSERT_LE(std::fabs(y - exact), std::max(unit * 0.4, std::max(1.0, std::fabs(x)) * 0x1p-126))
          << f.name << "(" << x << ") = " << y << ", exact " << exact;
    }
  }
}

TEST(Expand, ApproximationsHideInTheRoundingTo16Bits) {
  for (const Rounded& f : rounded_functions()) {
    for (const DataType type : {DataType::f16(), DataType::bf16()}) {
      for (const int direction : {-1, 0, 1}) expect_hidden(f, type, direction);
    }
  }
}

// A row of which a mask leaves nothing has the same large score everywhere: all weights are 1.
TEST(Expand, WeightsOfTheLargestScoresAreOne) {
  for (const float c : {0.125F, 0.6931F, 0.7071F, 1.5F}) {
    const Expr x = var("x", DataType::f32()), m = var("m", DataType::f32());
    Tape tape(expand_approximate(call("exp", {x * float_imm(c) - m})), {"x", "m"});
    const float score = -std::numeric_limits<float>::max() * std::min(1.0F, 1 / c);
    std::vector<Tape::Block> in(2);
    in[0].fill(std::bit_cast<uint32_t>(score));
    in[1].fill(std::bit_cast<uint32_t>(score * c));
    Tape::Block out;
    tape.eval(in, &out);
    EXPECT_EQ(std::bit_cast<float>(static_cast<uint32_t>(out[0])), 1) << c;
  }
}

TEST(Expand, LeavesTheRestAlone) {
  const Expr x = var("x", DataType::f32());
  const Expr plain = select(x < float_imm(0), x * x, call("sqrt", {x}));
  EXPECT_TRUE(expand_elementary(plain).same(plain));
  EXPECT_TRUE(expand_conversions(plain).same(plain));
}

class Shared {
 public:
  Expr add(const Expr& e) {
    values.push_back(e);
    return var("t" + std::to_string(values.size()), e.type());
  }
  Share share() {
    return [this](const Expr& e) { return add(e); };
  }
  size_t with_loads() const {
    return static_cast<size_t>(std::ranges::count_if(values, [](const Expr& value) {
      bool found = false;
      visit(value, [&](const Expr& e) { found = found || e.op() == Op::kLoad; });
      return found;
    }));
  }
  std::vector<Expr> values;
};

TEST(Expand, SharesValuesWithTheirLoadsBehindTheirGuards) {
  const Expr i = var("i");
  const Expr x = load("A", DataType::f32(), {i});
  Shared free;
  const Expr all = expand_elementary(call("exp", {x}), free.share());
  EXPECT_GT(free.values.size(), 3U);
  visit(all, [](const Expr& e) { EXPECT_NE(e.op(), Op::kLoad); });
  Shared then, otherwise, nested;
  const Expr zero = float_imm(0);
  expand_elementary(select(i < 4, call("exp", {x}), zero), then.share());
  EXPECT_EQ(then.values.size(), free.values.size());
  EXPECT_EQ(then.with_loads(), 1U);
  EXPECT_EQ(to_string(then.values[0]), "select((i < 4), A[i], 0:f32)");
  expand_elementary(select(i < 4, zero, call("exp", {x})), otherwise.share());
  EXPECT_EQ(to_string(otherwise.values[0]), "select(!((i < 4)), A[i], 0:f32)");
  expand_elementary(select(i < 4, select(0 < i, call("exp", {x}), zero), zero), nested.share());
  EXPECT_EQ(to_string(nested.values[0]), "select((i < 4), select((0 < i), A[i], 0:f32), 0:f32)");
}

TEST(Expand, AScalarLoadBehindGuardsOfLanesIsDoneWhereAnyLaneWantsIt) {
  const Expr lanes = ramp(var("i"), int_imm(1), 4);
  const Expr wide = broadcast(call("exp", {load("A", DataType::f32(), {var("j")})}), 4);
  Shared shared;
  expand_elementary(select(lanes < broadcast(int_imm(9), 4), wide, imm(wide.type(), 0)), shared.share());
  EXPECT_EQ(to_string(shared.values.at(0)), "select(reduce_or((ramp(i, 1, 4) < broadcast(9, 4))), A[j], 0:f32)");
  EXPECT_EQ(shared.with_loads(), 1U);
}

// What a condition has computed is known in its branches, and functions of functions stay short behind guards, too.
TEST(Expand, FunctionsOfFunctionsStayShort) {
  const Expr x = load("A", DataType::f32(), {var("i")});
  Expr value = x;
  for (int n = 0; n < 6; ++n) {
    value = call("tanh", {value});
    value = select(value < float_imm(0), call("expm1", {value}), value);
  }
  for (const Expr& e : {value, select(var("i") < 4, value, float_imm(0))}) {
    Shared shared;
    size_t text = to_string(expand_elementary(e, shared.share())).size();
    for (const Expr& one : shared.values) text += to_string(one).size();
    EXPECT_LT(text, 60'000U);
  }
}

TEST(Expand, UsualOperandsNeedNoF64) {
  std::vector<Expr> conditions;
  const Usual usual = [&](const Expr& condition) { conditions.push_back(condition); };
  const Expr x = var("x", DataType::f32());
  const auto uses_f64 = [](const Expr& e) {
    bool found = false;
    visit(e, [&](const Expr& part) { found = found || part.type() == DataType::f64(); });
    return found;
  };
  EXPECT_FALSE(uses_f64(expand_elementary(call("sin", {x}), {}, usual)));
  ASSERT_EQ(conditions.size(), 1u);
  EXPECT_TRUE(conditions[0].type().is_bool());
  EXPECT_TRUE(uses_f64(expand_elementary(call("sin", {x}))));
  // A condition is asked before the statement, where a guarded load may not be performed.
  const Expr guarded = select(var("i") < 4, call("sin", {load("A", DataType::f32(), {var("i")})}), float_imm(0));
  EXPECT_TRUE(uses_f64(expand_elementary(guarded, {}, usual)));
  EXPECT_EQ(conditions.size(), 1u);
}

// A nest of calls stays a graph: far fewer nodes than its tree has.
TEST(Expand, NestsStaySmall) {
  Expr e = var("x", DataType::f32());
  for (int k = 0; k < 8; ++k) e = call(k % 2 ? "tanh" : "softplus", {e});
  const Expr out = expand_elementary(e);
  EXPECT_LT(Tape(out, {"x"}).steps(), 600u);
  EXPECT_FALSE(uses_var(out, "z"));
  EXPECT_TRUE(equal(out, expand_elementary(e)));
}

}  // namespace
}  // namespace tw
