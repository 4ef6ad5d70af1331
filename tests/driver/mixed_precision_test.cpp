// Models of f32 compiled as f16 and bf16: right within bounds that follow from the type, on every level, and with the
// interface of the model.
#include <gtest/gtest.h>

#include <algorithm>

#include "artefact/session.h"
#include "artefact/verify.h"
#include "driver/code/generate.h"
#include "tests/driver/levels.h"
#include "tests/driver/small_model.h"

namespace tw::driver::test {
namespace {

using graph::Graph;

constexpr uint64_t kRandomModels = 40;

class MixedPrecision : public ::testing::TestWithParam<DataType> {
 protected:
  static CompileOptions options() {
    CompileOptions out;
    out.dtype = GetParam();
    return out;
  }
};

std::string describe(const artefact::VerifyReport& report) {
  std::string text;
  const auto add = [&](const std::string& where, const WorstElement& w) {
    if (!w.ok())
      text += fmt::format("{}: {}[{}] is {}, not {} within {}\n", where, w.tensor, w.index, w.got, w.want, w.bound);
  };
  for (const artefact::GroupCheck& group : report.groups) {
    for (const WorstElement& w : group.outputs) add(group.group, w);
  }
  for (const WorstElement& w : report.outputs) add("end to end", w);
  return text;
}

TEST_P(MixedPrecision, ANetworkAtEveryLevel) {
  const Graph source = small_model();
  const std::vector<artefact::Array> inputs = random_arrays(source, 1);
  for (const bool plain : {false, true}) {
    CompileOptions all = options();
    all.all_optional_off = plain;
    all.target = "cpu:x86-64-v4,cpu:x86-64-v3,cpu:x86-64";
    const std::vector<uint8_t> artefact = artefact_bytes(compile_graph(source, all));
    for (const char* level : {"x86-64-v4", "x86-64-v3", "x86-64"}) {
      if (!runs_here(level)) continue;
      for (const Graph* reference : {&source, static_cast<const Graph*>(nullptr)}) {
        const artefact::VerifyReport report = artefact::verify_artefact(artefact, reference, inputs, {}, {level});
        EXPECT_TRUE(report.ok()) << level << "\n" << describe(report);
      }
    }
  }
}

TEST_P(MixedPrecision, RandomModels) {
  const graph::OpTable ops = ops::all_ops();
  for (uint64_t seed = 1; seed <= kRandomModels; ++seed) {
    const Graph model = random_model(ops, seed);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, graph::to_string(model)));
    const artefact::VerifyReport report = artefact::verify_graph(model, options(), random_arrays(model, seed), {});
    EXPECT_TRUE(report.ok()) << describe(report);
  }
}

TEST_P(MixedPrecision, TheModelKeepsItsInterfaceAndTheWeightsShrink) {
  const Graph source = small_model();
  CompileOptions narrowed = options(), plain;
  narrowed.target = plain.target = "cpu:x86-64-v3";  // panels are as wide as vectors: in a model this small, by far
  const Compiled narrow = compile_graph(source, narrowed);
  const Compiled whole = compile_graph(source, plain);
  const artefact::Session session = artefact::Session::load_memory(artefact_bytes(narrow), {});
  EXPECT_EQ(session.inputs()[0].type, source.value(source.inputs[0]).type);
  EXPECT_EQ(session.outputs()[0].type, source.value(source.outputs[0]).type);
  EXPECT_EQ(narrow.manifest.dtype, *format::parse_data_type(to_string(GetParam())));
  EXPECT_EQ(whole.manifest.dtype, format::DataType::kF32);
  EXPECT_LT(narrow.sections.at("weights").size() * 3, whole.sections.at("weights").size() * 2);
}

// The bound end to end is that of the type: what f32 would have to meet fails.
TEST_P(MixedPrecision, TheBoundIsThatOfTheType) {
  const Graph source = small_model();
  const std::vector<artefact::Array> inputs = random_arrays(source, 1);
  Compiled compiled = compile_graph(source, options());
  const artefact::VerifyReport report = artefact::verify_artefact(artefact_bytes(compiled), &source, inputs, {});
  const double unit = GetParam() == DataType::f16() ? 0x1p-11 : 0x1p-8;
  EXPECT_GT(report.outputs[0].bound, 0.05 * unit);
  EXPECT_LT(report.outputs[0].bound, 4 * unit) << "of probabilities";
  compiled.manifest.dtype = format::DataType::kF32;
  const artefact::VerifyReport as_f32 = artefact::verify_artefact(artefact_bytes(compiled), &source, inputs, {});
  EXPECT_FALSE(as_f32.outputs[0].ok());
  EXPECT_TRUE(std::ranges::all_of(as_f32.groups, &artefact::GroupCheck::ok)) << "groups are checked in their own types";
}

// softmax(x + 1e4 (m - 1)): what the type holds exactly has no error that the factor could blow up.
TEST_P(MixedPrecision, MasksDoNotLoosenTheBound) {
  const graph::OpTable ops = ops::all_ops();
  Graph g;
  const auto number = [&](double value) {
    graph::RefTensor t = graph::RefTensor::zeros({DataType::f32(), {}});
    t.floats[0] = value;
    return g.add_constant("number", t.type, share(t.to_bytes()));
  };
  const auto node = [&](const char* op, std::vector<graph::ValueId> inputs, graph::Attrs attrs = {}) {
    return graph::append_node(g, ops, {op, op, std::move(attrs), std::move(inputs), {}, nullptr})[0];
  };
  const graph::ValueId x = g.add_input("x", {DataType::f32(), {8, 16}});
  const graph::ValueId m = node("cast", {g.add_input("m", {DataType::i64(), {16}})}, {{"to", std::string("f32")}});
  const graph::ValueId mask = node("mul", {node("sub", {m, number(1)}), number(1e4)});
  g.outputs = {node("softmax", {node("add", {x, mask})})};
  std::vector<artefact::Array> inputs = random_arrays(g, 1);
  graph::RefTensor kept = graph::RefTensor::zeros(inputs[1].type);
  for (size_t i = 0; i < kept.ints.size(); ++i) kept.ints[i] = i % 3 == 0 ? 0 : 1;
  inputs[1] = artefact::to_array(kept);
  const artefact::VerifyReport report = artefact::verify_graph(g, options(), inputs, {});
  EXPECT_TRUE(report.ok()) << describe(report);
  EXPECT_LT(report.outputs[0].bound, GetParam() == DataType::f16() ? 0x1p-10 : 0x1p-7);
}

TEST_P(MixedPrecision, CompilesForCuda) {
  if (const Result<bool> available = cuda_generation_available(); !available.ok()) GTEST_SKIP() << available.reason();
  for (const char* target : {"cuda:sm_80", "cuda:sm_90a"}) {
    CompileOptions cuda = options();
    cuda.target = target;
    const Compiled compiled = compile_graph(small_model(), cuda);
    EXPECT_GT(compiled.kernels, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MixedPrecision, ::testing::Values(DataType::f16(), DataType::bf16()),
                         [](const auto& info) { return to_string(info.param); });

TEST(MixedPrecisionOptions, OtherTypesAreUsageErrors) {
  for (const DataType dtype : {DataType::f64(), DataType::i32()}) {
    CompileOptions options;
    options.dtype = dtype;
    EXPECT_THROW(compile_graph(small_model(), options), UsageError) << to_string(dtype);
  }
}

}  // namespace
}  // namespace tw::driver::test
