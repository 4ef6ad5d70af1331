// NaN, infinities and numbers far larger than the others reach the outputs that read them and no others: every
// convolution algorithm and family of contractions, as compiled code on every level that this machine runs.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "artefact/bounded.h"
#include "artefact/session.h"
#include "driver/compile.h"
#include "ops/list.h"
#include "tests/driver/levels.h"
#include "tests/driver/random_model.h"
#include "tests/graph/sample.h"
#include "tests/harness/winograd_weights.h"

namespace tw::driver::test {
namespace {

using graph::RefTensor;
using graph::ValueId;
using graph::test::add;
using graph::test::f32;
using Ints = std::vector<int64_t>;

RefTensor spread(const Shape& shape, int salt) {
  RefTensor t = RefTensor::zeros(f32(shape));
  for (size_t i = 0; i < t.floats.size(); ++i)
    t.floats[i] = 1.5 * std::sin(static_cast<double>(i * i % 9973 + static_cast<size_t>(salt)));
  t.round_to_type();
  return t;
}

ValueId constant(graph::Graph& g, const std::string& name, RefTensor t) {
  t.round_to_type();
  return g.add_constant(name, t.type, share(t.to_bytes()));
}

struct Model {
  std::string name;
  graph::Graph graph;
};

Model convolution(const std::string& name, const Shape& x, const Shape& w, graph::Attrs attrs,
                  const std::string& op = "conv") {
  graph::Graph g;
  g.name = name;
  const ValueId in = g.add_input("x", f32(x));
  g.outputs = {add(g, op, {in, constant(g, "w", spread(w, 1))}, std::move(attrs))};
  return {name, g};
}

Model winograd(const std::string& name, const Shape& x, const Shape& w, int64_t m, const std::string& epilogue) {
  graph::Graph g;
  g.name = name;
  const ValueId in = g.add_input("x", f32(x));
  const RefTensor kernels = spread(w, 1);
  const ValueId u = constant(g, "u", testing::winograd_weights(kernels, m));
  const ValueId kernel = constant(g, "w", kernels);
  const ValueId scales = constant(g, "scales", testing::winograd_scales(kernels));
  const Ints pads(2 * (x.size() - 2), 1);
  const ValueId y = add(g, "winograd_conv", {in, u, kernel, scales}, {{"m", m}, {"pads", pads}});
  g.outputs = {epilogue.empty() ? y : add(g, epilogue, {y})};
  return {name, g};
}

Model product(const std::string& name, const Shape& a, const Shape& b, bool constant_b) {
  graph::Graph g;
  g.name = name;
  const ValueId left = g.add_input("a", f32(a));
  const ValueId right = constant_b ? constant(g, "b", spread(b, 1)) : g.add_input("b", f32(b));
  g.outputs = {add(g, "matmul", {left, right})};
  return {name, g};
}

std::vector<Model> models() {
  const auto pads = [](Ints values) { return graph::Attrs{{"pads", std::move(values)}}; };
  const auto with = [](graph::Attrs attrs, const std::string& name, Ints values) {
    attrs[name] = std::move(values);
    return attrs;
  };
  const graph::Attrs one = pads({1, 1, 1, 1});
  graph::Attrs grouped = one, depthwise = one;
  grouped["group"] = int64_t{2};
  depthwise["group"] = int64_t{17};
  return {
      convolution("direct", {1, 5, 14, 13}, {19, 5, 3, 3}, one),
      convolution("pointwise", {2, 17, 9, 7}, {33, 17, 1, 1}, {}),
      convolution("strided", {1, 3, 33, 29}, {24, 3, 7, 7}, with(pads({3, 3, 3, 3}), "strides", {2, 2})),
      convolution("strided, even", {2, 3, 32, 28}, {24, 3, 7, 7}, with(pads({3, 3, 3, 3}), "strides", {2, 2})),
      convolution("strided, few pixels", {2, 3, 17, 24}, {20, 3, 3, 3}, with(one, "strides", {2, 2})),
      convolution("strided, in groups", {1, 6, 15, 18}, {8, 3, 3, 3}, with(grouped, "strides", {2, 2})),
      convolution("strided along a line", {2, 3, 51}, {16, 3, 5}, with(pads({2, 2}), "strides", {2})),
      convolution("strided deep", {1, 3, 5, 9, 8}, {16, 3, 3, 3, 3},
                  with(pads({1, 1, 1, 1, 1, 1}), "strides", {1, 2, 2})),
      convolution("patches", {1, 3, 16, 20}, {24, 3, 4, 4}, with({}, "strides", {4, 4})),
      convolution("dilated", {1, 16, 15, 15}, {16, 16, 3, 3}, with(pads({2, 2, 2, 2}), "dilations", {2, 2})),
      convolution("grouped", {1, 16, 11, 11}, {32, 8, 3, 3}, grouped),
      convolution("depthwise", {1, 17, 13, 14}, {17, 1, 3, 3}, depthwise),
      convolution("along a line", {2, 8, 50}, {16, 8, 5}, pads({2, 2})),
      convolution("deep", {1, 8, 5, 6, 7}, {16, 8, 3, 3, 3}, pads({1, 1, 1, 1, 1, 1})),
      convolution("transposed", {1, 8, 7, 9}, {8, 12, 4, 4}, with(one, "strides", {2, 2}), "conv_transpose"),
      convolution("transposed, phases of different filter positions", {1, 8, 7, 9}, {8, 12, 3, 3},
                  with(one, "strides", {2, 2}), "conv_transpose"),
      winograd("winograd 2", {1, 16, 15, 14}, {32, 16, 3, 3}, 2, ""),
      winograd("winograd 4", {2, 17, 21, 18}, {19, 17, 3, 3}, 4, "relu"),
      winograd("winograd with a gate", {1, 16, 13, 22}, {48, 16, 3, 3}, 4, "silu"),
      winograd("winograd deep", {1, 16, 4, 9, 10}, {16, 16, 3, 3, 3}, 4, ""),
      product("matmul", {21, 37}, {37, 45}, true),
      product("matmul of two inputs", {33, 40}, {40, 52}, false),
      product("matmul of a batch", {3, 18, 20}, {3, 20, 35}, false),
      product("one row", {1, 300}, {300, 70}, true),
      product("one column", {70, 300}, {300, 1}, true),
  };
}

// A few elements of the first input that are `special`, far from one another.
std::vector<artefact::Array> inputs_with(const graph::Graph& g, float special) {
  std::vector<artefact::Array> inputs = random_arrays(g, 5);
  auto* x = reinterpret_cast<float*>(inputs[0].bytes.data());
  const size_t count = inputs[0].bytes.size() / sizeof(float);
  for (size_t k = 0; k < 4; ++k) x[(2 * k + 1) * count / 8 + k] = special;
  return inputs;
}

// The first element that is not what the reference says, to a few digits of its own size or to its bound, which large
// products that cancel have; empty when there is none.
std::string difference(const RefTensor& got, const RefTensor& want, const std::vector<double>& bounds) {
  constexpr double kRelative = 1e-4, kAbsolute = 1e-4;
  for (size_t i = 0; i < want.floats.size(); ++i) {
    const double a = got.floats[i], b = want.floats[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double allowed = std::max(kRelative * std::fabs(b) + kAbsolute, bounds[i]);
    if (std::isfinite(a) && std::isfinite(b) && std::fabs(a - b) <= allowed) continue;
    return fmt::format("element {} is {}, not {}", i, a, b);
  }
  return "";
}

void check_levels(const Model& model, float special) {
  const std::vector<artefact::Array> inputs = inputs_with(model.graph, special);
  std::vector<RefTensor> references;
  for (const artefact::Array& a : inputs) references.push_back(artefact::to_reference(a));
  const auto reference = artefact::evaluate_bounded(model.graph, ops::all_ops(), references, 2);
  const RefTensor& want = reference.values[0];
  for (const std::string& level : levels()) {
    if (!runs_here(level)) continue;
    for (const Precision precision : {Precision::kDefault, Precision::kStrict}) {
      CompileOptions options;
      options.target = "cpu:" + level;
      options.precision = precision;
      const std::vector<uint8_t> bytes = artefact_bytes(compile_graph(model.graph, options));
      const RefTensor got = artefact::to_reference(artefact::Session::load_memory(bytes, {}).run(inputs)[0]);
      EXPECT_EQ(difference(got, want, reference.bounds[0]), "") << model.name << " of " << special << " for " << level;
    }
  }
}

class SpecialValues : public ::testing::TestWithParam<float> {};

TEST_P(SpecialValues, ReachWhatReadsThem) {
  for (const Model& model : models()) check_levels(model, GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, SpecialValues, ::testing::Values(NAN, INFINITY, -INFINITY, 1e6F, 1e20F),
                         [](const auto& info) { return fmt::format("Case{}", info.index); });

}  // namespace
}  // namespace tw::driver::test
