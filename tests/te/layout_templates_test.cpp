// ALT's operators under their layout templates: random factors, one level and two, odd sizes.
#include "te/layout_templates.h"

#include <gtest/gtest.h>

#include "expr/analyzer.h"
#include "ops/list.h"
#include "support/join.h"
#include "te/merge_axes.h"
#include "te/reads.h"
#include "te/rewrite.h"
#include "tests/harness/alt_operators.h"
#include "tests/harness/graph_evaluate.h"
#include "tests/harness/loop_check.h"
#include "tests/te/samples.h"

namespace tw::te {
namespace {

using samples::Random;

const LayoutTemplate& row_of(std::string_view name) {
  return layout_templates()[index_of(layout_templates(), name, &LayoutTemplate::name)];
}

class LayoutTemplates : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

// Against the f64 reference of the operator, through the layouts of its inputs and outputs.
TEST_P(LayoutTemplates, EqualTheReference) {
  const auto [name, levels] = GetParam();
  const graph::OpTable ops = ops::all_ops();
  for (uint64_t seed = 0; seed < 25; ++seed) {
    Random random(seed);
    const graph::Graph graph = testing::alt_operator(name, random);
    const auto [program, layouts, tiled] = testing::tiled_operator(graph, row_of(name), levels, random);
    const ValueMap inputs = testing::whole_inputs(program);
    ValueMap stored;
    for (const Tensor& t : program.inputs)
      stored[t.name] = samples::in_layout(inputs.at(t.name), value_or(layouts, t.name, Layout()), 777);
    std::vector<graph::RefTensor> values;
    for (size_t k = 0; k < program.inputs.size(); ++k) {
      values.push_back(graph::RefTensor::zeros(graph.value(graph.inputs[k]).type));
      values.back().floats = inputs.at(program.inputs[k].name).floats;
    }
    const std::string& out = program.outputs[0];
    const TensorValues want{DataType::f32(),
                            program.tensor(out).shape,  // groups are an axis, of the same elements
                            graph::evaluate(graph, ops, values, graph::Rounding::kNone)[graph.outputs[0]].floats,
                            {}};
    const TensorValues got = evaluate(tiled, stored).at(out);
    ASSERT_TRUE(samples::same(got, samples::in_layout(want, layouts.at(out), 0)))
        << "seed " << seed << "\n"
        << to_string(program) << to_string(tiled);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LayoutTemplates,
                         ::testing::Combine(::testing::Values("C1D", "C2D", "C3D", "DIL", "GRP", "DEP", "T2D", "T3D",
                                                              "GMM"),
                                            ::testing::Values(1, 2)));

// The paper's layouts, written out.
TEST(LayoutTemplateRows, C2dAsInThePaper) {
  const graph::OpTable ops = ops::all_ops();
  graph::Graph g;
  const graph::ValueId x = g.add_input("x", {DataType::f32(), {1, 64, 58, 58}}),
                       w = g.add_input("w", {DataType::f32(), {32, 64, 3, 3}});
  g.outputs = graph::append_node(
      g, ops, {.op = "conv", .name = "y", .attrs = {}, .inputs = {x, w}, .outputs = {}, .body = nullptr});
  const Program program = graph::to_te(g, ops).program;
  const auto layouts = template_layouts(program, row_of("C2D"),
                                        {{'h', {4}}, {'w', {14}}, {'o', {16}}, {'i', {8}}, {'p', {16}}, {'q', {4}}});
  ASSERT_TRUE(layouts.ok()) << layouts.reason();
  const Program tiled = split_reductions(apply_layouts(program, *layouts));
  EXPECT_EQ(tiled.tensor(program.outputs[0]).shape, (Shape{1, 14, 4, 2, 4, 14, 16}));
  EXPECT_EQ(tiled.tensor("x0").shape, (Shape{1, 14, 4, 8, 6, 16, 8}));
  EXPECT_EQ(tiled.tensor("x1").shape, (Shape{2, 16, 3, 3, 4, 16}));
  EXPECT_EQ(to_string(layouts->at("x0")),
            "unfold(3, 16, 14) unfold(2, 6, 4) split(1, 8, 8) reorder(0, 3, 5, 1, 4, 6, 2)");
  EXPECT_EQ(to_string(tiled.computes[0].body[0]),
            "(x0[0, i1, i2, r0_0, (i4 + r1), (i5 + r2), ((r0_1 * 4) + r0_2)] * x1[i3, ((r0_0 * 2) + r0_1), r1, r2, "
            "r0_2, i6])");
  // Tiles of 6 channels in one operand and of 4 in the other have no common axes.
  const auto refused = template_layouts(program, row_of("C2D"),
                                        {{'h', {4}}, {'w', {14}}, {'o', {16}}, {'i', {6}}, {'p', {16}}, {'q', {4}}});
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.reason().find("C2D: no axes are floormod(r0, "), std::string::npos) << refused.reason();
  EXPECT_FALSE(template_layouts(program, row_of("GMM"), {{'m', {4}}, {'n', {4}}, {'k', {4}}}).ok());
}

// A bias behind the sum of products: element-wise.
TEST(LayoutTemplateRows, ElementwiseConsumersFollowWhatDoesNotExpand) {
  const graph::OpTable ops = ops::all_ops();
  graph::Graph g;
  const TensorType f32 = {DataType::f32(), {}};
  const graph::ValueId x = g.add_input("x", {f32.type, {1, 4, 8, 8}}), w = g.add_input("w", {f32.type, {6, 4, 3, 3}}),
                       bias = g.add_input("bias", {f32.type, {6}});
  g.outputs = graph::append_node(
      g, ops, {.op = "conv", .name = "y", .attrs = {}, .inputs = {x, w, bias}, .outputs = {}, .body = nullptr});
  const Program program = graph::to_te(g, ops).program;
  ASSERT_EQ(program.computes.size(), 2U) << to_string(program);
  const std::string &sum = program.computes[0].name(), &y = program.computes[1].name();
  const auto layouts_of = [&](int64_t h, int64_t o) {
    return *template_layouts(program, row_of("C2D"),
                             {{'h', {h}}, {'w', {2}}, {'o', {o}}, {'i', {2}}, {'p', {o}}, {'q', {2}}});
  };
  const auto follows = layouts_of(3, 2);  // of 6 x 6 x 6
  EXPECT_EQ(follows.at(y), follows.at(sum));
  EXPECT_EQ(to_string(split_reductions(apply_layouts(program, follows)).computes[1].body[0]).find("floor"),
            std::string::npos);
  for (const auto& [h, o] : {std::pair{4, 2}, {3, 4}}) {
    const auto padded = layouts_of(h, o);
    EXPECT_TRUE(padded.contains(sum));
    EXPECT_FALSE(padded.contains(y)) << h << " " << o;
  }
}

}  // namespace
}  // namespace tw::te
