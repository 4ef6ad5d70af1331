// The functions of docs/internals/vector-math.md as machine code, against f64 references and the bounds that the table
// states: every operand of f16 and bf16, every exponent of f32.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <numbers>
#include <random>

#include "expr/elementary.h"
#include "tests/math/compiled_function.h"
#include "tests/math/documented_bounds.h"
#include "tests/math/ulp.h"

namespace tw::testing {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Operators that are made of elementary functions.
struct CompositeReference {
  const char* name;
  double (*reference)(double x);
};
constexpr CompositeReference kComposites[] = {
    {"gelu", [](double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }},
    {"gelu_tanh", [](double x) { return x * sigmoid(std::sqrt(8 / std::numbers::pi) * (x + 0.044715 * x * x * x)); }},
    {"silu", [](double x) { return x * sigmoid(x); }},
    {"mish", [](double x) { return x * std::tanh(std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x)))); }},
};

double reference(const std::string& name, double x, double y) {
  const double operands[] = {x, y};
  if (const ElementaryFunction* f = find_elementary(name)) return f->reference(operands);
  for (const CompositeReference& c : kComposites) {
    if (name == c.name) return c.reference(x);
  }
  throw std::invalid_argument(name);
}

double value_of(ScalarType type, uint32_t bits) {
  if (type == ScalarType::kF16) return f16_value(static_cast<uint16_t>(bits));
  if (type == ScalarType::kBF16) return bf16_value(static_cast<uint16_t>(bits));
  return std::bit_cast<float>(bits);
}

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

struct Worst {
  double ulp = 0;
  double x = 0, y = 0, got = 0, exact = 0;
};

struct Exact {
  double value;
  double scale;  // its ULP is the unit of the bound
};

std::vector<Exact> exact_values(const DocumentedBound& bound, ScalarType type, const std::vector<Point>& points) {
  std::vector<Exact> out;
  out.reserve(points.size());
  for (const Point& p : points) {
    const double x = value_of(type, p.x);
    const double exact = reference(bound.name, x, value_of(type, p.y));
    const double min = bound.unit == BoundUnit::kOperand  ? std::fabs(x)
                       : bound.unit == BoundUnit::kFactor ? std::fabs(x) * 0x1p-126
                                                          : 0;
    out.push_back({exact, std::fmax(std::fabs(exact), min)});
  }
  return out;
}

void expect_bound(const DocumentedBound& bound, ScalarType type, const std::vector<Point>& points) {
  const std::vector<Exact> exact = exact_values(bound, type, points);
  for (const char* target : {"cpu:x86-64-v3", "cpu:x86-64-v4"}) {
    if (!CompiledFunction::runs_here(target)) continue;
    const std::vector<uint32_t> got = CompiledFunction(bound.name, DataType(type), target)(points);
    Worst worst;
    for (size_t i = 0; i < points.size(); ++i) {
      const double y = value_of(type, got[i]);
      const double ulp = f32_ulp_error(type, y, exact[i].value, exact[i].scale);
      if (ulp > worst.ulp) worst = {ulp, value_of(type, points[i].x), value_of(type, points[i].y), y, exact[i].value};
    }
    ::testing::Test::RecordProperty(std::string("worst_ulp_") + target, std::to_string(worst.ulp));
    EXPECT_LE(worst.ulp, bound.ulp) << bound.name << " on " << target << " at " << worst.x << ", " << worst.y << ": "
                                    << worst.got << ", exact " << worst.exact;
  }
}

// Neighbours of x within two units, both signs.
void add_around(std::vector<Point>& points, float x) {
  for (int step = -2; step <= 2; ++step) {
    const uint32_t bits = bits_of(x) + static_cast<uint32_t>(step);
    points.push_back({bits, 0});
    points.push_back({bits ^ 0x80000000u, 0});
  }
}

constexpr float kThresholds[] = {
    // ends of the format, and where results overflow, vanish, become subnormal or saturate
    0,          0x1p-149F, 0x1p-126F,   1,          2,           0x1.fffffep127F, INFINITY,   88.722839F, 87.336544F,
    103.97208F, 128,       126,         149,        150,         89.415985F,      9.02F,      3.92F,      3.9235025F,
    17.3287F,   16.6355F,  0.41421357F, 2.4142137F, 0.70710677F, 1.4142135F,      0.6666667F, 1.3333334F, 0x1p-12F,
    0x1p-27F,   0x1p28F,   0x1p16F,     0x1p22F,    0x1p23F,     0x1p24F};

// Next to multiples of pi/2: small ones, and far ones of every size.
void add_quarter_turns(std::vector<Point>& points, std::mt19937_64& random) {
  constexpr double kHalfPi = std::numbers::pi / 2;
  for (int n = 1; n <= 4096; ++n) add_around(points, static_cast<float>(n * kHalfPi));
  for (int exponent = 12; exponent < 126; ++exponent) {
    for (int k = 0; k < 8; ++k) {
      const double n = std::ldexp(1 + static_cast<double>(random() >> 11) * 0x1p-53, exponent);
      add_around(points, static_cast<float>(std::nearbyint(n) * kHalfPi));
    }
  }
  for (const float hard : {0x1.fe2b3ep+120F, 16367173.0F * 0x1p72F, 0x1.6ac5b2p+1F, 10367.258F, 71476.0F})
    add_around(points, hard);
}

// Every sign and exponent, `each` random mantissas; where functions bend, evenly; thresholds; multiples of pi/2; NaN.
std::vector<Point> stratified_f32(int each) {
  std::mt19937_64 random(11);
  std::vector<Point> points = {{0x7fc00000u, 0}, {0xffc00000u, 0}, {0x7f800001u, 0}};
  for (const float x : kThresholds) add_around(points, x);
  add_quarter_turns(points, random);
  for (uint32_t top = 0; top < 512; ++top) {
    for (int k = 0; k < each; ++k) points.push_back({(top << 23) | static_cast<uint32_t>(random() & 0x7fffff), 0});
  }
  for (const float range : {1.0F, 10.0F, 110.0F}) {
    std::uniform_real_distribution<float> value(-range, range);
    for (int k = 0; k < 50'000; ++k) points.push_back({bits_of(value(random)), 0});
  }
  return points;
}

std::vector<Point> every_half() {
  std::vector<Point> points;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) points.push_back({bits, 0});
  return points;
}

// Pairs: any two; every exponent of x with results over the whole range, near 1 too; whole exponents; thresholds.
std::vector<Point> pow_pairs_f32(int each) {
  std::mt19937_64 random(13);
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<Point> points;
  for (const float x : kThresholds) {
    for (const float y : kThresholds) {
      for (const uint32_t signs : {0, 1, 2, 3})
        points.push_back({bits_of(x) ^ (signs & 1) << 31, bits_of(y) ^ (signs >> 1) << 31});
    }
  }
  const auto in_range = [&](double x) { return bits_of(static_cast<float>(unit(random) * 105 / std::log(x))); };
  for (uint32_t top = 0; top < 512; ++top) {
    for (int k = 0; k < each; ++k) {
      const uint32_t x = (top << 23) | static_cast<uint32_t>(random() & 0x7fffff);
      const auto whole = static_cast<float>(static_cast<int>(random() % 41) - 20);
      points.push_back({x, static_cast<uint32_t>(random())});
      points.push_back({x, bits_of(whole)});
      points.push_back({x & 0x7fffffff, in_range(std::fabs(value_of(ScalarType::kF32, x)))});
      const auto near_one = static_cast<float>(1 + unit(random) * std::ldexp(1.0, -static_cast<int>(random() % 20)));
      points.push_back({bits_of(near_one), in_range(near_one)});
    }
  }
  return points;
}

// Each x with random y, and with y for results within the range of the type.
std::vector<Point> pow_pairs_half(ScalarType type) {
  std::mt19937_64 random(17);
  std::uniform_real_distribution<double> unit(-1, 1);
  const double limit = type == ScalarType::kF16 ? 18 : 93;
  std::vector<Point> points;
  for (uint32_t x = 0; x < 0x10000; ++x) {
    const double y = unit(random) * limit / std::log(std::fabs(value_of(type, x)));
    points.push_back({x, static_cast<uint32_t>(random() & 0xffff)});
    points.push_back({x, type == ScalarType::kF16 ? f16_bits(y) : bf16_bits(y)});
  }
  return points;
}

class VectorMath : public ::testing::TestWithParam<DocumentedBound> {
 protected:
  bool takes_pairs() const { return GetParam().name == "pow" || GetParam().name == "fmod"; }
};

TEST_P(VectorMath, F32StaysWithinItsBound) {
  expect_bound(GetParam(), ScalarType::kF32, takes_pairs() ? pow_pairs_f32(500) : stratified_f32(2000));
}

TEST_P(VectorMath, EveryF16StaysWithinItsBound) {
  expect_bound(GetParam(), ScalarType::kF16, takes_pairs() ? pow_pairs_half(ScalarType::kF16) : every_half());
}

TEST_P(VectorMath, EveryBF16StaysWithinItsBound) {
  expect_bound(GetParam(), ScalarType::kBF16, takes_pairs() ? pow_pairs_half(ScalarType::kBF16) : every_half());
}

INSTANTIATE_TEST_SUITE_P(All, VectorMath, ::testing::ValuesIn(documented_bounds()),
                         [](const auto& info) { return info.param.name; });

// The table holds every elementary function, with the bound that the code states.
TEST(VectorMathTable, IsThatOfTheCode) {
  const std::vector<DocumentedBound> table = documented_bounds();
  for (const ElementaryFunction& f : elementary_functions()) {
    const auto row = std::ranges::find(table, f.name, &DocumentedBound::name);
    ASSERT_NE(row, table.end()) << f.name;
    EXPECT_EQ(row->ulp, f.max_ulp) << f.name;
    EXPECT_EQ(row->unit, BoundUnit::kResult) << f.name;
  }
  EXPECT_EQ(table.size(), elementary_functions().size() + std::size(kComposites));
}

}  // namespace
}  // namespace tw::testing
