// The operators that gradients are made of: sums at computed indices, and what windows pass back. Every candidate
// computes what the te program says, on CPUs and GPUs.
#include <gtest/gtest.h>

#include "ops/list.h"
#include "te/rewrite.h"
#include "tests/construct/construct_check.h"

namespace tw::construct {
namespace {

using Ints = std::vector<int64_t>;

// The program of one operator, as a graph says it.
te::Program program_by_rows(const std::string& op, const std::vector<TensorType>& inputs, const graph::Attrs& attrs) {
  static const graph::OpTable ops = ops::all_ops();
  graph::Graph g;
  g.name = op;
  graph::Node node{.op = op, .name = "y", .attrs = attrs};
  for (const TensorType& type : inputs) node.inputs.push_back(g.add_input("x", type));
  g.outputs = graph::append_node(g, ops, node);
  return graph::to_te(g, ops).program;
}

te::Program program_of(const std::string& op, const std::vector<TensorType>& inputs, const graph::Attrs& attrs) {
  return merged(program_by_rows(op, inputs, attrs));
}

void check_everywhere(const te::Program& program) {
  SCOPED_TRACE(te::to_string(program));
  for (const char* name : {"cpu:x86-64-v3", "cpu:x86-64-v4", "cuda:sm_90a"}) {
    SCOPED_TRACE(name);
    const targets::Target t = targets::find_target(name);
    size_t candidates = 0;
    for (const Construction& built : construct(t.families, {program, {}}, t.info, nullptr)) {
      check_candidate({program, {}}, t, built, 1e-5);
      ++candidates;
    }
    EXPECT_GT(candidates, 0u);
  }
}

TensorType of(DataType type, Shape shape) { return {type, std::move(shape)}; }

TEST(ConstructGradients, SumsAtIndices) {
  for (const DataType type : {DataType::f32(), DataType::f16()}) {
    check_everywhere(program_of("scatter_sum", {of(type, {13, 37}), of(DataType::i64(), {13})},
                                {{"axis", int64_t{0}}, {"extent", int64_t{5}}}));
    check_everywhere(program_of("scatter_sum", {of(type, {3, 2, 7, 5}), of(DataType::i32(), {2, 7})},
                                {{"axis", int64_t{1}}, {"extent", int64_t{4}}}));
  }
  check_everywhere(program_of("scatter_elements_sum", {of(DataType::f32(), {3, 9}), of(DataType::i64(), {3, 9})},
                              {{"axis", int64_t{1}}, {"shape", Ints{4, 7}}}));
}

TEST(ConstructGradients, Windows) {
  const std::pair<graph::Attrs, Shape> cases[] = {
      {{{"extents", Ints{10, 7}}, {"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 1}}},
       {2, 3, 5, 7}},
      {{{"extents", Ints{8, 10}}, {"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}, {2, 3, 4, 5}},
      {{{"extents", Ints{8, 10}}, {"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1}}},
       {1, 2, 4, 5}},
      {{{"extents", Ints{9, 9}}, {"kernel_shape", Ints{3, 2}}, {"dilations", Ints{2, 3}}, {"pads", Ints{1, 0}}},
       {2, 3, 8, 6}},
      {{{"extents", Ints{9}}, {"kernel_shape", Ints{2}}, {"strides", Ints{3}}}, {2, 3, 3}}};
  for (const auto& [attrs, shape] : cases) {
    check_everywhere(program_of("unpool", {of(DataType::f32(), shape)}, attrs));
    check_everywhere(program_of("unpool", {of(DataType::f32(), shape), of(DataType::i32(), shape)}, attrs));
    check_everywhere(program_of("unpool", {of(DataType::f16(), shape)}, attrs));
  }
}

TEST(ConstructGradients, PlacesOfMaxima) {
  for (const DataType type : {DataType::f32(), DataType::f16()}) {
    check_everywhere(program_of("max_places", {of(type, {2, 3, 8, 6}), of(type, {2, 3, 4, 3})},
                                {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}));
    check_everywhere(program_of("max_places", {of(type, {1, 5, 7, 7}), of(type, {1, 5, 4, 4})},
                                {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}));
  }
}

// Gradients of convolutions: phases whose filters come at run time, and kernels as large as an image.
TEST(ConstructGradients, Convolutions) {
  const graph::Attrs phases{
      {"extents", Ints{5, 4}}, {"spacing", Ints{1, 1}}, {"starts", Ints{0, 0, -1, 0}}, {"counts", Ints{1, 2, 2, 1}}};
  const graph::Attrs images{{"pads", Ints{1, 1, 0, 1}}, {"dilations", Ints{2, 1}}};
  for (const DataType type : {DataType::f32(), DataType::f16()}) {
    check_everywhere(program_of("conv_phases", {of(type, {2, 3, 5, 4}), of(type, {6, 3, 2, 2, 2, 2})}, phases));
    check_everywhere(program_of("conv", {of(type, {3, 2, 11, 5}), of(type, {4, 2, 5, 5})}, images));
  }
}

// Gradients of images under stride 2, as ResNet's: phases of 1 and 2 filter positions along each axis, and of 1 and
// none.
TEST(ConstructGradients, UnevenPhasesAreProductsOnGpus) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const Layout kLast = Layout().reorder({0, 2, 3, 1});
  const std::pair<Ints, Shape> cases[] = {{Ints{1, 2, 1, 2}, {32, 24, 2, 2, 2, 2}},
                                          {Ints{1, 0, 1, 0}, {32, 24, 2, 2, 1, 1}}};
  for (const auto& [counts, filters] : cases) {
    const graph::Attrs phases{
        {"extents", Ints{6, 5}}, {"spacing", Ints{1, 1}}, {"starts", Ints{0, 0, 0, 0}}, {"counts", counts}};
    for (const DataType type : {DataType::f32(), DataType::bf16()}) {
      const te::Program rows = program_by_rows("conv_phases", {of(type, {3, 24, 6, 5}), of(type, filters)}, phases);
      std::map<std::string, Layout> last = {{rows.inputs[0].name, kLast}};
      for (const te::Compute& c : rows.computes) last[c.name()] = kLast;
      const te::Program program = merged(te::apply_layouts(rows, last));
      const Result<Candidates> products = construct_gpu_contraction({program, {}}, t.info);
      ASSERT_TRUE(products.ok()) << products.reason();
      for (const Construction& built : *products)
        check_candidate({program, {}}, t, built, type == DataType::f32() ? 1e-5 : 1e-2);
    }
  }
}

}  // namespace
}  // namespace tw::construct
