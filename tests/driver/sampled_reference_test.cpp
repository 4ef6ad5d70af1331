// The sampled reference gives what the whole program gives at those points, and bounds that are neither zero nor huge.
#include "driver/tune/sampled_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "construct/construct.h"
#include "driver/tune/tolerance.h"
#include "expr/tf32.h"
#include "targets/registry.h"
#include "te/join_outputs.h"
#include "te/reads.h"
#include "tests/harness/te_evaluate.h"
#include "tests/harness/te_programs.h"

namespace tw::driver::test {
namespace {

// Numbers that are neither whole nor regular.
te::TensorValues numbers(const te::Tensor& tensor) {
  te::TensorValues values = te::zeros(tensor.type, tensor.shape);
  double x = 0.3 + static_cast<double>(tensor.name.size());
  for (double& f : values.floats) f = 2 * (x = std::fmod(x * 7.13 + 0.37, 1.0)) - 1;
  for (int64_t& i : values.ints) i = 1 + static_cast<int64_t>((x = std::fmod(x * 7.13 + 0.37, 1.0)) * 20);
  return values;
}

te::ValueMap inputs_of(const te::Program& program, const SampledReference& reference) {
  te::ValueMap inputs;
  for (const te::Tensor& t : program.inputs) inputs[t.name] = numbers(t);
  for (const auto& [name, values] : reference.indices) {
    inputs[name] = te::zeros(DataType::i64(), {static_cast<int64_t>(values.size())});
    inputs[name].ints = values;
  }
  for (const std::string& sign : reference.signs) {
    const te::Tensor& t = reference.program.tensor(sign);
    inputs[sign] = te::zeros(t.type, t.shape);
    for (size_t i = 0; i < inputs[sign].floats.size(); ++i)
      inputs[sign].floats[i] = (i * 5 + sign.size()) % 3 == 0 ? -1 : 1;
  }
  return inputs;
}

std::map<std::string, std::vector<int64_t>> elements_of(const te::Program& program, int64_t count) {
  std::map<std::string, std::vector<int64_t>> elements;
  for (const std::string& output : program.outputs)
    elements[output] = choose_elements(program.tensor(output).shape, {4, 16}, count);
  return elements;
}

void check(const te::Program& program) {
  const Result<SampledReference> reference = sample_reference(program, elements_of(program, 50));
  ASSERT_TRUE(reference.ok()) << reference.reason();
  ASSERT_NO_THROW(te::verify(reference->program)) << te::to_string(reference->program);
  const te::ValueMap inputs = inputs_of(program, *reference);
  const te::ValueMap whole = te::evaluate(program, inputs);
  const te::ValueMap sampled = te::evaluate(reference->program, inputs);
  for (const SampledOutput& output : reference->outputs) {
    const te::TensorValues& want = whole.at(output.tensor);
    const te::TensorValues& got = sampled.at(output.exact);
    for (size_t i = 0; i < output.elements.size(); ++i) {
      const auto e = static_cast<size_t>(output.elements[i]);
      if (!want.type.is_float()) {
        ASSERT_EQ(got.ints[i], want.ints[e]) << output.tensor << " " << e;
        continue;
      }
      ASSERT_NEAR(got.floats[i], want.floats[e], 1e-12 * (1 + std::fabs(want.floats[e]))) << output.tensor << " " << e;
      for (const std::string& trial : output.trials) {
        const double moved = sampled.at(trial).floats[i];
        ASSERT_NEAR(moved, want.floats[e], 1e-4 * (1 + std::fabs(want.floats[e]))) << trial;
      }
    }
  }
}

TEST(SampledReference, EqualsTheWholeProgramAtItsPoints) {
  for (const testing::NamedProgram& p : testing::odd_programs()) {
    SCOPED_TRACE(p.name);
    check(p.program);
  }
}

// What is computed for all points has fewer places than they have: those that nobody reads are inside, too.
TEST(SampledReference, PartsBesideEachOtherAreReadInside) {
  check(te::parse_program(R"(te parts
input w: f32[6, 8]
input v: f32[6, 4]
left: f32[6, 4] (i0, i1) = w[i0, (i1 + 4)]
right: f32[6, 4] (i0, i1) = -(w[i0, i1])
y: f32[6, 12] (i0, i1) = select((i1 < 4), left[i0, i1], select((i1 < 8), right[i0, (i1 - 4)], v[i0, (i1 - 8)]))
output y
)"));
}

TEST(SampledReference, RoundsOperandsToTf32) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {20, 30}), w = b.placeholder("w", DataType::f32(), {30, 9});
  const te::Tensor y = b.reduce("y", {20, 9}, {30}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return to_tf32(x({i[0], r[0]})) * to_tf32(w({r[0], i[1]}));
  });
  check(b.finish("rounded", {y}));
}

// A compute with two values is sampled at the points of each: nothing is left of the other one's errors.
TEST(SampledReference, OfSeveralOutputsEveryComputeIsRead) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {20, 30}), w = b.placeholder("w", DataType::f32(), {30, 9});
  const te::Tensor sum = b.reduce("sum", {20, 9}, {30}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]}) * w({r[0], i[1]});
  });
  const te::Tensor pre = b.compute("pre", {20, 9}, [&](const auto& i) { return sum(i) + float_imm(3); });
  const te::Tensor y = b.compute("y", {20, 9}, [&](const auto& i) { return max(pre(i), float_imm(0)); });
  const te::Program program = te::join_outputs(b.finish("two", {pre, y}));
  check(program);
  const te::Program reference = sample_reference(program, elements_of(program, 50))->program;
  std::set<std::string> read(reference.outputs.begin(), reference.outputs.end());
  for (const te::Compute& c : reference.computes)
    te::visit_reads(c, [&](const Expr& load) { read.insert(load->name); });
  for (const te::Compute& c : reference.computes)
    EXPECT_TRUE(std::ranges::any_of(c.outputs, [&](const te::Tensor& t) { return read.contains(t.name); })) << c.name();
  for (const char* target : {"cpu:x86-64-v3", "cuda:sm_80"}) {
    const construct::Candidates plain = *construct::construct_point({reference, {}}, targets::find_target(target).info);
    EXPECT_NO_THROW(schedule::apply(reference, plain.front().schedule)) << te::to_string(reference);
  }
}

TEST(SampledReference, OfSeveralSumsEachHasItsOwnErrors) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {30, 9});
  const te::Tensor half = b.compute("half", {30, 9}, [&](const auto& i) { return cast(DataType::f16(), x(i)); });
  const auto sum = [&](const char* name, double factor) {
    return b.reduce(name, {9}, {30}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return cast(DataType::f32(), half({r[0], i[0]})) * float_imm(factor);
    });
  };
  const te::Tensor small = sum("small", 1), large = sum("large", 64);
  const te::Program program = te::join_sums(b.finish("sums", {small, large}));
  ASSERT_EQ(program.computes.back().outputs.size(), 2U);
  const Result<SampledReference> reference = sample_reference(program, elements_of(program, 9));
  const te::ValueMap values = te::evaluate(reference->program, inputs_of(program, *reference));
  std::vector<double> largest(2, 0.0);
  for (size_t o = 0; o < 2; ++o) {
    const SampledOutput& output = reference->outputs[o];
    for (const std::string& trial : output.trials) {
      for (size_t i = 0; i < 9; ++i)
        largest[o] = std::max(largest[o], std::fabs(values.at(trial).floats[i] - values.at(output.exact).floats[i]));
    }
  }
  EXPECT_NEAR(largest[1] / largest[0], 64, 1);
}

TEST(SampledReference, ComputesOnlyWhatThePointsNeed) {
  const te::Program program = testing::matmul_relu(300, 200, 50);
  const Result<SampledReference> reference = sample_reference(program, elements_of(program, 64));
  ASSERT_TRUE(reference.ok());
  EXPECT_LT(count_points(reference->program), 64 * (2 * 50 + 20));
}

// Rounding to f32 after every operation stays below a few times the deviations; an error of one product does not.
TEST(SampledReference, TrialsMoveByTheSizeOfRoundingErrors) {
  const te::Program program = testing::matmul_relu(40, 40, 100);
  const Result<SampledReference> reference = sample_reference(program, elements_of(program, 2000));
  ASSERT_TRUE(reference.ok());
  ASSERT_EQ(reference->outputs[0].trials.size(), static_cast<size_t>(kSampledTrials));
  const te::ValueMap values = te::evaluate(reference->program, inputs_of(program, *reference));
  double largest = 0;
  const te::TensorValues& exact = values.at(reference->outputs[0].exact);
  for (const std::string& trial : reference->outputs[0].trials) {
    for (size_t i = 0; i < exact.floats.size(); ++i)
      largest = std::max(largest, std::fabs(values.at(trial).floats[i] - exact.floats[i]));
  }
  const double unit = std::ldexp(1.0, -24);
  EXPECT_GT(largest, unit);
  EXPECT_LT(largest, 100 * 100 * unit);
}

// What is element-wise inside a sum is computed in its place, and rounded all the same: the scores of attention.
TEST(SampledReference, TrialsKnowWhatIsRoundedInsideOfSums) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {30, 100});
  const te::Tensor half = b.compute("half", {30, 100}, [&](const auto& i) { return cast(DataType::f16(), x(i)); });
  const te::Tensor y = b.reduce("y", {30}, {100}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return cast(DataType::f32(), half({i[0], r[0]}));
  });
  const te::Program program = b.finish("halves", {y});
  const Result<SampledReference> reference = sample_reference(program, elements_of(program, 30));
  ASSERT_TRUE(reference.ok());
  ASSERT_NO_THROW(te::verify(reference->program)) << te::to_string(reference->program);
  const te::ValueMap inputs = inputs_of(program, *reference);
  const te::ValueMap values = te::evaluate(reference->program, inputs);
  const te::TensorValues& exact = values.at(reference->outputs[0].exact);
  for (const std::string& trial : reference->outputs[0].trials) {
    double largest = 0;
    for (size_t i = 0; i < exact.floats.size(); ++i)
      largest = std::max(largest, std::fabs(values.at(trial).floats[i] - exact.floats[i]));
    EXPECT_GT(largest, std::ldexp(1.0, -11));
    EXPECT_LT(largest, 100 * std::ldexp(1.0, -11));
  }
  // No element is one that the random signs of all trials happen to spare.
  const te::TensorValues& terms = inputs.at("x");
  for (size_t i = 0; i < exact.floats.size(); ++i) {
    double seen = 0, squares = 0;
    for (const std::string& trial : reference->outputs[0].trials)
      seen = std::max(seen, std::fabs(values.at(trial).floats[i] - exact.floats[i]));
    for (size_t k = 0; k < 100; ++k) squares += terms.floats[i * 100 + k] * terms.floats[i * 100 + k];
    EXPECT_GT(seen, .9 * std::sqrt(squares) * std::ldexp(1.0, -12)) << i;
  }
}

// What a mask hides is minus infinity in every trial: else a row of which anything is hidden would have no bound.
TEST(SampledReference, InfinitiesHaveNoError) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {30, 30});
  const te::Tensor half = b.compute("half", {30, 30}, [&](const auto& i) {
    return select(i[1] < i[0] + int_imm(1), cast(DataType::f16(), x(i)),
                  float_imm(-std::numeric_limits<double>::infinity(), DataType::f16()));
  });
  const te::Tensor y = b.reduce("y", {30}, {30}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return call("exp", {cast(DataType::f32(), half({i[0], r[0]}))});
  });
  const te::Program program = b.finish("masked", {y});
  const Result<SampledReference> reference = sample_reference(program, elements_of(program, 30));
  ASSERT_TRUE(reference.ok());
  const te::ValueMap values = te::evaluate(reference->program, inputs_of(program, *reference));
  const te::TensorValues& exact = values.at(reference->outputs[0].exact);
  for (const std::string& trial : reference->outputs[0].trials) {
    for (size_t i = 0; i < exact.floats.size(); ++i) {
      EXPECT_TRUE(std::isfinite(exact.floats[i]) && std::isfinite(values.at(trial).floats[i])) << trial << ' ' << i;
      EXPECT_NE(values.at(trial).floats[i], exact.floats[i]) << trial << ' ' << i;
    }
  }
}

// x + b rounds alike in every row of a column: its sum is off by much more than independent roundings would be.
TEST(SampledReference, TrialsKnowThatRoundingsMayBeAlike) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {500, 9}),
                   bias = b.placeholder("bias", DataType::f32(), {9});
  const te::Tensor half =
      b.compute("half", {500, 9}, [&](const auto& i) { return cast(DataType::f16(), x(i) + bias({i[1]})); });
  const te::Tensor y = b.reduce("y", {9}, {500}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return cast(DataType::f32(), half({r[0], i[0]}));
  });
  const te::Program program = b.finish("columns", {y});
  const Result<SampledReference> reference = sample_reference(program, elements_of(program, 9));
  ASSERT_TRUE(reference.ok());
  te::ValueMap inputs = inputs_of(program, *reference);
  for (double& f : inputs["x"].floats) f = 1 + std::floor(std::fabs(f) * 32) / 64;
  for (double& f : inputs["bias"].floats) f = std::ldexp(1.0, -12) + std::ldexp(1.0, -13);  // the same digits are cut
  const te::ValueMap sampled = te::evaluate(reference->program, inputs);
  const SampledOutput& output = reference->outputs[0];
  std::vector<double> bounds(9, 0.0);
  for (const std::string& trial : output.trials) {
    for (size_t i = 0; i < bounds.size(); ++i)
      bounds[i] = std::max(bounds[i], std::fabs(sampled.at(trial).floats[i] - sampled.at(output.exact).floats[i]));
  }
  finish_bounds(output.rounded, sampled.at(output.exact).floats, bounds);
  for (size_t i = 0; i < bounds.size(); ++i) {
    double rounded = 0;
    for (size_t k = 0; k < 500; ++k) {
      const double sum = inputs.at("x").floats[k * 9 + i] + inputs.at("bias").floats[i];
      rounded += std::nearbyint(sum * 1024) / 1024;
    }
    const double want = sampled.at(output.exact).floats[i];
    EXPECT_GT(std::fabs(rounded - want), 4 * std::sqrt(500) * std::ldexp(1.0, -12)) << "not alike";
    EXPECT_LT(std::fabs(rounded - want), bounds[i]);
    EXPECT_LT(bounds[i], 2) << "two terms of 500";
  }
}

TEST(SampledReference, MathsOnTheBitsOfFloatsIsDeclined) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {8});
  const te::Tensor y = b.compute("y", {8}, [&](const auto& i) { return bitcast(DataType::i32(), x({i[0]})); });
  const te::Program program = b.finish("bits", {y});
  EXPECT_FALSE(sample_reference(program, elements_of(program, 8)).ok());
}

TEST(ChooseElements, TakesAllOfASmallTensor) {
  EXPECT_EQ(choose_elements({2, 3}, {}, 10), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(choose_elements({4, 0}, {}, 10).empty());
  EXPECT_EQ(choose_elements({}, {}, 10), std::vector<int64_t>{0});
}

TEST(ChooseElements, HasCornersEdgesAndEnoughOfTheRest) {
  const Shape shape = {37, 130, 65};
  const std::vector<int64_t> elements = choose_elements(shape, {24}, 4096);
  EXPECT_EQ(elements.size(), 4096u);
  EXPECT_TRUE(std::ranges::is_sorted(elements));
  EXPECT_EQ(std::ranges::adjacent_find(elements), elements.end());
  EXPECT_EQ(elements.front(), 0);
  EXPECT_EQ(elements.back(), 37 * 130 * 65 - 1);
  int beside_a_cut = 0;
  for (const int64_t e : elements) beside_a_cut += (e / 65 % 130) % 24 >= 23 || (e / 65 % 130) % 24 == 0 ? 1 : 0;
  EXPECT_GT(beside_a_cut, 4096 / 10);
}

}  // namespace
}  // namespace tw::driver::test
