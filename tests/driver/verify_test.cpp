// The checks of an artefact can fail, and blame the group that is wrong.
#include "artefact/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/list.h"
#include "runtime/format/error.h"
#include "support/error.h"
#include "support/random.h"
#include "tests/driver/levels.h"
#include "tests/driver/random_model.h"

namespace tw::driver::test {
namespace {

graph::ValueId node(graph::Graph& g, const char* op, std::vector<graph::ValueId> inputs) {
  graph::Node n;
  n.op = op;
  n.name = std::string(op) + std::to_string(g.nodes.size());
  n.inputs = std::move(inputs);
  return graph::append_node(g, ops::all_ops(), std::move(n))[0];
}

// y = softmax((a b) c) for square matrices: three groups
graph::Graph products(DataType type, int64_t n) {
  graph::Graph g;
  std::vector<graph::ValueId> in;
  for (const char* name : {"a", "b", "c"}) in.push_back(g.add_input(name, {type, {n, n}}));
  g.outputs = {node(g, "softmax", {node(g, "matmul", {node(g, "matmul", {in[0], in[1]}), in[2]})})};
  return g;
}

TEST(Verify, BlamesTheGroupThatIsWrong) {
  const graph::Graph model = products(DataType::f32(), 9);
  Compiled compiled = compile_graph(model, {});
  std::swap(compiled.manifest.entries[0].cpu_steps[1].args[0], compiled.manifest.entries[0].cpu_steps[1].args[1]);
  const artefact::VerifyReport report =
      artefact::verify_artefact(artefact_bytes(compiled), &model, random_arrays(model, 1), {});
  EXPECT_FALSE(report.ok());
  EXPECT_FALSE(report.outputs[0].ok());
  ASSERT_EQ(report.groups.size(), 3u);
  EXPECT_TRUE(report.groups[0].ok());
  EXPECT_FALSE(report.groups[1].ok());
  EXPECT_TRUE(report.groups[2].ok());
}

// Groups that multiply tf32 are held to that, the model's outputs to what it allows.
TEST(Verify, KnowsOfOperandsRoundedToTf32) {
  const graph::Graph model = products(DataType::f32(), 24);
  graph::Graph rounded = model;
  for (graph::Node& node : rounded.nodes) {
    if (node.op == "matmul") node.attrs["operands"] = std::string("tf32");
  }
  const auto is_ok = [&](const graph::Graph& compiled, const graph::Graph& source) {
    return artefact::verify_artefact(artefact_bytes(compile_graph(compiled, {})), &source, random_arrays(model, 1), {})
        .ok();
  };
  EXPECT_TRUE(is_ok(rounded, rounded));
  EXPECT_TRUE(is_ok(rounded, model));
  EXPECT_FALSE(is_ok(model, rounded)) << "f32 is no tf32";
}

// Twelve layers that quantize what they are given and multiply it by a matrix.
graph::Graph quantized_chain(const char* rounding, int64_t outputs) {
  constexpr int64_t kWide = 96, kLayers = 12;
  graph::Graph g;
  graph::ValueId x = g.add_input("x", {DataType::f32(), {5, kWide}});
  const auto constant = [&](const Shape& shape, auto element) {
    graph::RefTensor t = graph::RefTensor::zeros({DataType::f32(), shape});
    for (size_t i = 0; i < t.floats.size(); ++i) t.floats[i] = static_cast<float>(element(i));
    return g.add_constant("c" + std::to_string(g.values.size()), t.type, share(t.to_bytes()));
  };
  const graph::ValueId step = constant({1}, [](size_t) { return 0.031; });
  const graph::ValueId least = constant({1}, [](size_t) { return -128; });
  const graph::ValueId most = constant({1}, [](size_t) { return 127; });
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const graph::ValueId steps = node(g, rounding, {node(g, "div", {x, step})});
    const graph::ValueId held = node(g, "min", {node(g, "max", {steps, least}), most});
    const bool is_last = layer + 1 == kLayers;
    const uint64_t seed = 100003u * static_cast<uint64_t>(layer);
    const graph::ValueId weights = constant({kWide, is_last ? outputs : kWide}, [&](size_t i) {
      return std::sqrt(6.0 / kWide) * (static_cast<double>(split_mix(i + seed) >> 11) / 0x1p52 - 1);
    });
    const graph::ValueId product = node(g, "matmul", {node(g, "mul", {held, step}), weights});
    x = is_last ? product : node(g, "relu", {product});
  }
  g.outputs = {x};
  return g;
}

// Numbers next to an edge may move a step, and what reads them many: by less than rounding down moves all of them.
TEST(Verify, RoundingDownIsWrongBehindManyLayersToo) {
  for (const int64_t outputs : {10, 96}) {
    const graph::Graph right = quantized_chain("round", outputs);
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const std::vector<artefact::Array> inputs = random_arrays(right, seed);
      const auto verified = [&](const char* rounding) {
        const Compiled compiled = compile_graph(quantized_chain(rounding, outputs), {});
        return artefact::verify_artefact(artefact_bytes(compiled), &right, inputs, {});
      };
      EXPECT_TRUE(verified("round").ok()) << outputs << " " << seed;
      EXPECT_FALSE(verified("floor").outputs[0].ok()) << outputs << " " << seed;
    }
  }
}

// What verify would see is no artefact any more.
TEST(Verify, BuffersThatOverlapAreRefusedBefore) {
  const graph::Graph model = products(DataType::f32(), 97);
  Compiled compiled = compile_graph(model, {});
  int64_t first = -1;
  for (format::Buffer& b : compiled.manifest.entries[0].buffers) {
    if (b.place != format::Place::kArena) continue;
    first = first < 0 ? b.offset : first;
    b.offset = first;  // all in one place: a product overwrites what it reads
  }
  EXPECT_THROW(artefact_bytes(compiled), format::Error);
}

// Without the passes that fold it, it lies where the constant does.
TEST(Verify, AViewOfAConstantIsReadWhereTheConstantLies) {
  const graph::OpTable ops = ops::all_ops();
  graph::Graph model;
  const graph::ValueId x = model.add_input("x", {DataType::f32(), {2, 3}});
  graph::RefTensor numbers = graph::RefTensor::zeros({DataType::f32(), {6}});
  numbers.floats = {1, 2, 3, 4, 5, 6};
  const graph::ValueId c = model.add_constant("c", numbers.type, share(numbers.to_bytes()));
  const auto add = [&](const char* op, std::vector<graph::ValueId> in, graph::Attrs attrs) {
    return graph::append_node(model, ops,
                              {.op = op, .name = op, .attrs = std::move(attrs), .inputs = std::move(in)})[0];
  };
  const graph::ValueId view = add("reshape", {c}, {{"shape", std::vector<int64_t>{2, 3}}});
  model.outputs = {add("add", {x, view}, {})};
  CompileOptions options;
  options.all_optional_off = true;
  EXPECT_TRUE(artefact::verify_graph(model, options, random_arrays(model, 1), {}).ok());
}

TEST(Verify, BoundsOfF64AreNeitherZeroNorLoose) {
  const graph::Graph model = products(DataType::f64(), 9);
  const artefact::VerifyReport report = artefact::verify_graph(model, {}, random_arrays(model, 1), {});
  EXPECT_TRUE(report.ok());
  EXPECT_GT(report.outputs[0].bound, 0);
  EXPECT_LT(report.outputs[0].bound, 1e-13);
}

TEST(Verify, TheLargestErrorStandsBesideTheSpread) {
  graph::RefTensor want = graph::RefTensor::zeros({DataType::f32(), {5}});
  want.floats = {1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3, INFINITY};
  graph::RefTensor got = want;
  got.floats[2] += 0.25;
  const WorstElement found = compare("y", got, want, {1, 1, 1, 1, 1});
  EXPECT_TRUE(found.ok());
  EXPECT_DOUBLE_EQ(found.largest, 0.25);
  EXPECT_DOUBLE_EQ(found.spread, std::sqrt(1.25));
}

TEST(Verify, SmallResultsOfGeluMayLackDigits) {
  graph::Graph g;
  g.outputs = {node(g, "gelu", {g.add_input("x", {DataType::f32(), {64}})})};
  graph::RefTensor x = graph::RefTensor::zeros({DataType::f32(), {64}});
  for (size_t i = 0; i < x.floats.size(); ++i) x.floats[i] = -8 + static_cast<double>(i) / 16;
  EXPECT_TRUE(artefact::verify_graph(g, {}, {artefact::to_array(x)}, {}).ok());
}

// ---- what every level computes

std::vector<CompileOptions> every_level() {
  std::vector<CompileOptions> all;
  for (const std::string& level : levels()) {
    if (runs_here(level)) all.emplace_back().target = "cpu:" + level;
  }
  return all;
}

// Without fused products, too, and of quotients that round up.
TEST(EveryLevel, RemaindersAreExact) {
  graph::Graph g;
  const graph::ValueId x = g.add_input("x", {DataType::f32(), {64}});
  g.outputs = {node(g, "fmod", {x, g.add_input("y", {DataType::f32(), {64}})})};
  graph::RefTensor a = graph::RefTensor::zeros({DataType::f32(), {64}}), b = a;
  for (size_t i = 0; i < a.floats.size(); ++i) {
    b.floats[i] = 0.1 * static_cast<double>(i % 7 + 1);
    a.floats[i] = b.floats[i] * (static_cast<double>(i * i) - 999);
  }
  a.floats[0] = 1e7;
  a.round_to_type();
  b.round_to_type();
  for (const CompileOptions& options : every_level()) {
    artefact::Session session = artefact::Session::load_memory(artefact_bytes(compile_graph(g, options)), {});
    const graph::RefTensor y =
        artefact::to_reference(session.run({artefact::to_array(a), artefact::to_array(b)}).at(0));
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(y.floats[i], std::fmod(a.floats[i], b.floats[i])) << options.target << i;
  }
}

TEST(EveryLevel, TensorsMayBeEmpty) {
  for (const char* op : {"exp", "tanh", "sqrt", "sigmoid", "relu"}) {
    graph::Graph g;
    g.outputs = {node(g, op, {g.add_input("x", {DataType::f32(), {3, 0}})})};
    for (const CompileOptions& options : every_level())
      EXPECT_TRUE(artefact::verify_graph(g, options, random_arrays(g, 1), {}).ok()) << op;
  }
  graph::Graph g;
  const graph::ValueId x = g.add_input("x", {DataType::f32(), {2, 0, 3}});
  g.outputs = {node(g, "instance_norm",
                    {x, g.add_input("scale", {DataType::f32(), {0}}), g.add_input("bias", {DataType::f32(), {0}})})};
  for (const CompileOptions& options : every_level())
    EXPECT_TRUE(artefact::verify_graph(g, options, random_arrays(g, 1), {}).ok());
}

// ---- the error word

graph::Graph lookup() {
  graph::Graph g;
  const graph::ValueId table = g.add_input("table", {DataType::f32(), {5, 3}});
  const graph::ValueId indices = g.add_input("indices", {DataType::i64(), {4}});
  g.outputs = {node(g, "gather", {table, indices})};
  return g;
}

std::vector<artefact::Array> lookup_inputs(const std::vector<int64_t>& indices) {
  std::vector<artefact::Array> inputs = random_arrays(lookup(), 1);
  graph::RefTensor tensor = graph::RefTensor::zeros(inputs[1].type);
  tensor.ints = indices;
  inputs[1] = artefact::to_array(tensor);
  return inputs;
}

TEST(ErrorWord, AnIndexOutOfRangeFailsTheRunAndOnlyThat) {
  for (const bool plain : {false, true}) {
    CompileOptions options;
    options.all_optional_off = plain;
    const std::vector<uint8_t> artefact = artefact_bytes(compile_graph(lookup(), options));
    artefact::Session session = artefact::Session::load_memory(artefact, {});
    EXPECT_EQ(session.outputs().size(), 1u);
    for (const int64_t wrong : {int64_t{5}, int64_t{-6}, int64_t{1} << 40}) {
      try {
        session.run(lookup_inputs({0, 4, wrong, 1}));
        ADD_FAILURE() << "index " << wrong << " was taken";
      } catch (const artefact::RuntimeFailure& failure) {
        EXPECT_EQ(failure.exit_code(), 2);
        EXPECT_NE(std::string(failure.what()).find("out of range"), std::string::npos) << failure.what();
      }
      EXPECT_NO_THROW(session.run(lookup_inputs({-5, 4, 0, -1})));
    }
  }
}

// One word says for all of them that an index is wrong.
TEST(ErrorWord, TheStepNamesEveryNodeThatItChecks) {
  graph::Graph g = lookup();
  g.outputs.push_back(node(g, "gather_elements", {g.add_input("rows", {DataType::f32(), {4}}), g.inputs[1]}));
  artefact::Session session = artefact::Session::load_memory(artefact_bytes(compile_graph(g, {})), {});
  std::vector<artefact::Array> inputs = lookup_inputs({0, 4, 1, 1});  // in range of the table alone
  inputs.push_back(random_arrays(g, 1)[2]);
  try {
    session.run(inputs);
    ADD_FAILURE() << "index 4 was taken";
  } catch (const artefact::RuntimeFailure& failure) {
    EXPECT_NE(std::string(failure.what()).find("gather0, gather_elements1"), std::string::npos) << failure.what();
  }
}

TEST(ErrorWord, ModelsWithItVerify) {
  const artefact::VerifyReport report = artefact::verify_graph(lookup(), {}, lookup_inputs({-5, 4, 0, -1}), {});
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.outputs.size(), 1u);
}

TEST(ErrorWord, AConstantIndexOutOfRangeIsAnErrorOfTheModel) {
  graph::Graph g;
  const graph::ValueId table = g.add_input("table", {DataType::f32(), {5, 3}});
  graph::RefTensor indices = graph::RefTensor::zeros({DataType::i64(), {2}});
  indices.ints = {1, 5};
  const graph::ValueId constant = g.add_constant("i", indices.type, share(indices.to_bytes()));
  g.outputs = {node(g, "gather", {table, constant})};
  EXPECT_THROW(compile_graph(g, {}), UserError);
}

}  // namespace
}  // namespace tw::driver::test
