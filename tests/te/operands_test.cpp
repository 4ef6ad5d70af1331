// One value as several operands of products: each of them becomes an input of its own, and the meaning stays.
#include "te/operands.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "expr/word_product.h"
#include "tests/harness/te_programs.h"
#include "tests/te/samples.h"

namespace tw::te {
namespace {

using testing::NamedProgram;

const DataType kF32 = DataType::f32();

// Both programs on the same values give the same.
void expect_same(const Program& before, const SeparateOperands& after) {
  EXPECT_NO_THROW(verify(after.program));
  ASSERT_EQ(after.sources.size(), after.program.inputs.size());
  samples::Random random(11);
  const ValueMap given = samples::random_inputs(before, random, 4);
  ValueMap same;
  for (size_t i = 0; i < after.sources.size(); ++i)
    same[after.program.inputs[i].name] = given.at(before.inputs[after.sources[i]].name);
  const ValueMap want = evaluate(before, given), got = evaluate(after.program, same);
  for (const std::string& output : before.outputs)
    EXPECT_TRUE(samples::same(want.at(output), got.at(output))) << to_string(before) << to_string(after.program);
}

std::vector<size_t> sources_of(const Program& program) {
  const SeparateOperands out = separate_operands(program);
  expect_same(program, out);
  return out.sources;
}

using Sources = std::vector<size_t>;

TEST(SeparateOperands, BothOfAProduct) {
  EXPECT_EQ(sources_of(testing::square(7)), (Sources{0, 0}));
  EXPECT_EQ(sources_of(testing::gram(5, 9)), (Sources{0, 0}));
  // The same text as that of a product of two values: equal groups are compiled once.
  Builder b;
  const Tensor x = b.placeholder("x", kF32, {7, 7});
  const Tensor z = b.placeholder("x", kF32, {7, 7});
  const Tensor y = b.reduce("y", {7, 7}, {7}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]}) * z({r[0], i[1]});
  });
  EXPECT_EQ(to_string(separate_operands(testing::square(7)).program), to_string(b.finish("square", {y})));
}

TEST(SeparateOperands, QueriesKeysAndValues) {
  EXPECT_EQ(sources_of(testing::attention_of_itself(6, 5)), (Sources{0, 0, 0}));
}

// x is an operand on both sides of `double`, which is computed once and belongs to neither.
TEST(SeparateOperands, WhatIsComputedStays) {
  Builder b;
  const Tensor x = b.placeholder("x", kF32, {6, 6});
  const Tensor twice = b.compute("twice", {6, 6}, [&](const auto& i) { return x(i) + x(i); });
  const Tensor y = b.reduce("y", {6, 6}, {6}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return twice({i[0], r[0]}) * twice({r[0], i[1]});
  });
  const Program p = b.finish("computed", {y});
  EXPECT_EQ(sources_of(p), (Sources{0}));
  EXPECT_EQ(to_string(separate_operands(p).program), to_string(p));
}

// A transpose that both operands read is repeated; one that leaves the program is not.
TEST(SeparateOperands, WhatRearrangesIsRepeated) {
  const auto program = [](bool leaves) {
    Builder b;
    const Tensor x = b.placeholder("x", kF32, {6, 6});
    const Tensor t = b.compute("t", {6, 6}, [&](const auto& i) { return x({i[1], i[0]}); });
    const Tensor y = b.reduce("y", {6, 6}, {6}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return t({i[0], r[0]}) * t({r[0], i[1]});
    });
    return leaves ? b.finish("turned", {y, t}) : b.finish("turned", {y});
  };
  EXPECT_EQ(sources_of(program(false)), (Sources{0, 0}));
  EXPECT_EQ(separate_operands(program(false)).program.computes.size(), 3u);
  EXPECT_EQ(sources_of(program(true)), (Sources{0}));
}

TEST(SeparateOperands, AnOperandThatIsAddedToItsProduct) {
  Builder b;
  const Tensor x = b.placeholder("x", kF32, {6, 6});
  const Tensor w = b.placeholder("w", kF32, {6, 6});
  const Tensor y = b.reduce("y", {6, 6}, {6}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]}) * w({r[0], i[1]});
  });
  const Tensor z = b.compute("z", {6, 6}, [&](const auto& i) { return y(i) + x(i) * w(i); });
  EXPECT_EQ(sources_of(b.finish("residual", {z})), (Sources{0, 0, 1, 1}));
}

// Elements of a row are multiplied with each other, and each is read once: nothing is gained by reading them twice.
TEST(SeparateOperands, RowsStayTogether) {
  Builder b;
  const Tensor x = b.placeholder("x", kF32, {6, 9});
  const Tensor z = b.placeholder("z", kF32, {6, 9});
  const Tensor squares = b.reduce("squares", {6}, {9}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]}) * x({i[0], r[0]});
  });
  const Tensor products = b.reduce("products", {6}, {9}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]}) * z({i[0], r[0]});
  });
  const Tensor y = b.compute("y", {6, 9}, [&](const auto& i) { return x(i) * products({i[0]}) - squares({i[0]}); });
  EXPECT_EQ(sources_of(b.finish("cosine", {y})), (Sources{0, 1}));
}

TEST(SeparateOperands, PaddedAndConvolvedWithItself) {
  EXPECT_EQ(sources_of(testing::conv_with_itself(3, 5)), (Sources{0, 0}));
}

TEST(SeparateOperands, WordsAndLookUps) {
  Builder words;
  const Tensor w = words.placeholder("w", DataType::i32(), {5, 5});
  const Tensor sums = words.reduce("sums", {5, 5}, {5}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return word_product(WordFormat::kPairs, w({i[0], r[0]}), w({r[0], i[1]}));
  });
  EXPECT_EQ(sources_of(words.finish("words", {sums})), (Sources{0, 0}));
  Builder b;
  const Tensor x = b.placeholder("x", kF32, {5, 5});
  const Tensor index = b.placeholder("index", DataType::i64(), {4});
  const Tensor y = b.reduce("y", {4, 4}, {5}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({index({i[0]}), r[0]}) * x({index({i[1]}), r[0]});
  });
  EXPECT_EQ(sources_of(b.finish("looked_up", {y})), (Sources{0, 0, 1, 1}));
}

TEST(SeparateOperands, NothingElseChanges) {
  const std::vector<NamedProgram> one_value = testing::one_value_programs();
  for (const NamedProgram& p : testing::odd_programs()) {
    if (std::ranges::find(one_value, p.name, &NamedProgram::name) != one_value.end()) continue;
    EXPECT_EQ(to_string(separate_operands(p.program).program), to_string(p.program)) << p.name;
  }
}

}  // namespace
}  // namespace tw::te
