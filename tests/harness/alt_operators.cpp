#include "tests/harness/alt_operators.h"

#include "ops/list.h"
#include "support/error.h"
#include "support/join.h"
#include "te/merge_axes.h"
#include "te/rewrite.h"

namespace tw::testing {
namespace {

using Random = std::mt19937_64;
using Ints = std::vector<int64_t>;

int64_t pick(Random& random, int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random); }

struct Family {
  std::string_view name;
  size_t rank;
  bool transposed = false, dilated = false, grouped = false, depthwise = false;
};
constexpr Family kFamilies[] = {{"C1D", 1},
                                {"C2D", 2},
                                {"C3D", 3},
                                {"DIL", 2, false, true},
                                {"GRP", 2, false, false, true},
                                {"DEP", 2, false, false, true, true},
                                {"T2D", 2, true},
                                {"T3D", 3, true}};

graph::Graph single(graph::Node node, const std::vector<Shape>& inputs) {
  static const graph::OpTable ops = ops::all_ops();
  graph::Graph g;
  g.name = node.op;
  for (size_t k = 0; k < inputs.size(); ++k) node.inputs.push_back(g.add_input("x", {DataType::f32(), inputs[k]}));
  g.outputs = graph::append_node(g, ops, node);
  graph::verify(g, ops);
  return g;
}

graph::Graph convolution(const Family& f, Random& random) {
  const auto along = [&](int64_t lo, int64_t hi) {
    return by_index(f.rank, [&](size_t) { return pick(random, lo, hi); });
  };
  const int64_t group = f.depthwise ? pick(random, 2, 9) : f.grouped ? pick(random, 2, 3) : 1;
  const int64_t each = f.depthwise ? 1 : pick(random, 1, 9), out_each = f.depthwise ? 1 : pick(random, 2, 9);
  const Ints kernel = along(1, 3), sides = f.rank == 3 ? along(3, 5) : along(6, 11), strides = along(1, 2);
  const Ints dilations = f.dilated ? Ints(f.rank, 2) : Ints(f.rank, 1), pads = along(0, 1);
  graph::Node node{.op = f.transposed ? "conv_transpose" : "conv",
                   .name = "y",
                   .attrs = {},
                   .inputs = {},
                   .outputs = {},
                   .body = nullptr};
  node.attrs = {{"strides", strides}, {"dilations", dilations}, {"group", group}};
  const bool fits = all_are(by_index(f.rank, [&](size_t d) { return !f.transposed || kernel[d] > 2 * pads[d]; }), true);
  if (fits) node.attrs["pads"] = joined(pads, pads);
  const Shape w = f.transposed ? Shape{group * each, out_each} : Shape{group * out_each, each};
  return single(node, {joined(Shape{pick(random, 1, 2), group * each}, sides), joined(w, kernel)});
}

}  // namespace

graph::Graph alt_operator(std::string_view name, Random& random) {
  for (const Family& f : kFamilies) {
    if (f.name == name) return convolution(f, random);
  }
  TW_CHECK(name == "GMM", "no operator {}", name);
  const int64_t m = pick(random, 1, 17), k = pick(random, 2, 13), n = pick(random, 1, 17);
  const graph::Node node{.op = "matmul", .name = "y", .attrs = {}, .inputs = {}, .outputs = {}, .body = nullptr};
  return single(node, {{m, k}, {k, n}});
}

te::TileFactors random_factors(const te::LayoutTemplate& row, int levels, Random& random) {
  te::TileFactors factors;
  for (const te::Tiling& tiling : {row.output, row.input, row.weights}) {
    for (const char factor : tiling.inner)
      factors[factor] = by_index(levels, [&](int) { return pick(random, 1, levels == 1 ? 9 : 4); });
  }
  return factors;
}

TiledOperator tiled_operator(const graph::Graph& graph, const te::LayoutTemplate& row, int levels, Random& random) {
  static const graph::OpTable ops = ops::all_ops();
  const te::Program whole = graph::to_te(graph, ops).program,
                    program = te::apply_layouts(whole, te::divided_axes(whole));
  while (true) {
    const auto layouts = te::template_layouts(program, row, random_factors(row, levels, random));
    if (layouts.ok()) return {program, *layouts, te::split_reductions(te::apply_layouts(program, *layouts))};
    TW_CHECK(layouts.reason().find("no axes are floor") != std::string::npos, "{}", layouts.reason());
  }
}

}  // namespace tw::testing
