// What is made of an artefact with loops, and with it: other weights, replayed plans, several shapes, states, reports.
#include <gtest/gtest.h>

#include "artefact/analysis.h"
#include "artefact/explain.h"
#include "artefact/session.h"
#include "driver/refit.h"
#include "frontend/onnx/file/tensor_data.h"
#include "support/error.h"
#include "support/join.h"
#include "targets/registry.h"
#include "tests/driver/loop_models.h"
#include "tests/onnx/model_builder.h"

namespace tw::driver::test {
namespace {

using graph::Graph;
using graph::Repeat;
using graph::ValueId;
using graph::test::add;
using graph::test::add_loop;
using graph::test::cell_body;
using graph::test::f32;
using graph::test::last_of;
using graph::test::nested_model;
using graph::test::turns_of;
using tw::testing::Dim;
using tw::testing::ModelBuilder;

// ---- Other weights.

std::vector<float> elements(int64_t count, int seed, int tensor) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    const auto mixed = static_cast<uint64_t>(i * 2'654'435'761 + seed * 40'503 + tensor * 7'919) * 0x9e3779b97f4a7c15;
    values.push_back((static_cast<float>(mixed >> 40) / 0x1p23F - 1) / 4);
  }
  return values;
}

void weight_of(ModelBuilder& model, const std::string& name, const std::vector<int64_t>& dims, int seed) {
  model.floats(name, dims, elements(num_elements(dims), seed, model.graph().initializer_size()));
}

void value(google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& list, const std::string& name,
           const std::vector<Dim>& dims, int type = onnx::TensorProto::FLOAT) {
  ModelBuilder::value(list.Add(), name, dims, type);
}

// body(i, go, state) -> (go, next): what a Loop takes.
onnx::GraphProto& loop_body(onnx::NodeProto& node, const std::string& state, const std::string& next,
                            const std::vector<Dim>& dims) {
  onnx::GraphProto& body = tw::testing::set_graph(node, "body");
  const std::string prefix = state + ".";
  value(*body.mutable_input(), prefix + "i", {}, onnx::TensorProto::INT64);
  value(*body.mutable_input(), prefix + "go", {}, onnx::TensorProto::BOOL);
  value(*body.mutable_input(), state, dims);
  value(*body.mutable_output(), prefix + "go", {}, onnx::TensorProto::BOOL);
  value(*body.mutable_output(), next, dims);
  return body;
}

// h = tanh(h w + f(x + b)) nine times, where f is a loop of ten turns of its own: z = z u + c.
void nested(ModelBuilder& model, int seed) {
  model.input("x", {std::string("batch"), int64_t{20}}).input("h0", {std::string("batch"), int64_t{20}});
  weight_of(model, "w", {20, 20}, seed);
  weight_of(model, "b", {20}, seed);
  weight_of(model, "u", {20, 20}, seed);
  weight_of(model, "c", {20}, seed);
  model.ints("nine", {9});
  model.ints("ten", {10});
  onnx::NodeProto& outer = model.node("Loop", {"nine", "", "h0"}, {"y"});
  const std::vector<Dim> row{std::string("batch"), int64_t{20}};
  onnx::GraphProto& body = loop_body(outer, "h", "h.next", row);
  auto& nodes = *body.mutable_node();
  ModelBuilder::add_node(nodes, "Add", {"x", "b"}, {"z0"});
  onnx::NodeProto& inner = ModelBuilder::add_node(nodes, "Loop", {"ten", "", "z0"}, {"f"});
  onnx::GraphProto& inside = loop_body(inner, "z", "z.next", row);
  ModelBuilder::add_node(*inside.mutable_node(), "MatMul", {"z", "u"}, {"zu"});
  ModelBuilder::add_node(*inside.mutable_node(), "Add", {"zu", "c"}, {"z.next"});
  ModelBuilder::add_node(nodes, "MatMul", {"h", "w"}, {"hw"});
  ModelBuilder::add_node(nodes, "Add", {"hw", "f"}, {"sum"});
  ModelBuilder::add_node(nodes, "Tanh", {"sum"}, {"h.next"});
  model.output("y");
}

// A GRU of 20 steps with all of its weights.
void recurrent(ModelBuilder& model, int seed) {
  model.input("x", {int64_t{20}, std::string("batch"), int64_t{12}});
  weight_of(model, "w", {1, 48, 12}, seed);
  weight_of(model, "r", {1, 48, 16}, seed);
  weight_of(model, "b", {1, 96}, seed);
  tw::testing::set_int(model.node("GRU", {"x", "w", "r", "b"}, {"y", "h"}), "hidden_size", 16);
  model.output("y").output("h");
}

using Model = std::function<void(ModelBuilder& model, int seed)>;

CompileOptions for_batches(const std::vector<int64_t>& batches) {
  CompileOptions options;
  options.imports.clear();
  for (const int64_t batch : batches) options.imports.push_back({{}, {{"batch", batch}}, {}});
  return options;
}

std::vector<frontend::ImportResult> imports(const Model& make, int seed, const CompileOptions& options) {
  ModelBuilder model;
  make(model, seed);
  return mapped(options.imports, [&](const frontend::ImportOptions& i) {
    return frontend::import_onnx_bytes(model.bytes(), "", graph::test::table(), i);
  });
}

Compiled compile(const Model& make, int seed, const CompileOptions& options) {
  return compile_imported(imports(make, seed, options), options);
}

std::shared_ptr<frontend::Weights> weights_of(const Model& make, int seed) {
  ModelBuilder model;
  make(model, seed);
  auto weights = std::make_shared<frontend::Weights>();
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    const frontend::TensorData data = frontend::read_tensor(tensor, frontend::ExternalData(""));
    weights->emplace(tensor.name(), frontend::Weight{data.type, data.bytes});
  }
  return weights;
}

std::vector<uint8_t> bytes_of(const Refitted& made) {
  return format::serialize_artefact(made.manifest, made.sections());
}

void expect_refits(const Model& make, CompileOptions options) {
  const Compiled first = compile(make, 1, options);
  EXPECT_GT(repeats(first), 0U);
  options.plan_text = plan::to_string(first.plan);
  const std::vector<uint8_t> artefact = artefact_bytes(first), want = artefact_bytes(compile(make, 2, options));
  ASSERT_NE(artefact, want);
  const std::vector<uint8_t> got = bytes_of(refit(artefact, weights_of(make, 2)));
  EXPECT_TRUE(got == want);
  EXPECT_TRUE(bytes_of(refit(got, weights_of(make, 1))) == artefact) << "back again";
}

TEST(LoopPlans, RefitGivesWhatACompilationGives) {
  for (const Model& make : {Model(nested), Model(recurrent)}) {
    expect_refits(make, for_batches({3}));
    CompileOptions narrow = for_batches({3});
    narrow.dtype = DataType::bf16();
    expect_refits(make, narrow);
    CompileOptions several = for_batches({1, 5});
    several.target = "cpu:x86-64-v4,cpu:x86-64-v3";
    expect_refits(make, several);
    CompileOptions plain = for_batches({3});
    plain.all_optional_off = true;
    expect_refits(make, plain);
  }
}

TEST(LoopPlans, ImportedLoopsAreRight) {
  for (const Model& make : {Model(nested), Model(recurrent)}) {
    const Graph g = imports(make, 1, for_batches({3}))[0].graph;
    expect_right(g);
  }
  EXPECT_EQ(repeats(compile(nested, 1, for_batches({3}))), 2U);
}

// ---- Plans.

TEST(LoopPlans, ReplayGivesTheSameBytes) {
  for (const Graph& g : {gated_model({}), nested_model({.outer = 10, .inner = 12, .n = 20})}) {
    for (const bool plain : {false, true}) {
      CompileOptions options;
      options.all_optional_off = plain;
      const Compiled first = compile_graph(g, options);
      ASSERT_FALSE(first.plan.entries[0].bodies.empty());
      options.plan_text = plan::to_string(first.plan);
      const Compiled again = compile_graph(g, options);
      EXPECT_EQ(again.warnings, std::vector<std::string>());
      EXPECT_EQ(artefact_bytes(again), artefact_bytes(first));
    }
  }
}

TEST(LoopPlans, BodiesAreInTheirText) {
  const plan::Plan plan = compile_graph(nested_model({.outer = 10, .inner = 12, .n = 20}), {}).plan;
  EXPECT_EQ(plan::parse_plan(plan::to_string(plan)), plan);
  const plan::EntryPlan& entry = plan.entries[0];
  ASSERT_EQ(entry.bodies.size(), 1U);
  ASSERT_EQ(entry.bodies[0].bodies.size(), 1U) << "the inner loop's";
  EXPECT_EQ(entry.bodies[0].target, entry.target);
  const auto loops = [](const plan::EntryPlan& p) {
    return std::ranges::count(p.groups, plan::kLoopFamily, &plan::GroupPlan::family);
  };
  EXPECT_EQ(loops(entry), 1);
  EXPECT_EQ(loops(entry.bodies[0]), 1);
  EXPECT_EQ(loops(entry.bodies[0].bodies[0]), 0);
}

std::string refusal(const std::string& plan) {
  CompileOptions options;
  options.plan_text = plan;
  try {
    compile_graph(gated_model({}), options);
  } catch (const UserError& error) {
    return error.what();
  }
  return "taken";
}

TEST(LoopPlans, ABodyWithoutItsEndIsRefused) {
  const std::string text = plan::to_string(compile_graph(gated_model({}), {}).plan);
  EXPECT_EQ(refusal(text), "taken");
  std::string cut = text;
  cut.erase(cut.rfind("end\n"), 4);
  const auto behind = std::ranges::count(cut, '\n') + 1;
  EXPECT_NE(refusal(cut).find(fmt::format("plan line {}: ", behind)), std::string::npos) << refusal(cut);
  EXPECT_NE(refusal(cut).find("expected 'end' of a body"), std::string::npos) << refusal(cut);
  EXPECT_NE(refusal(text + "end\n").find("no body is open"), std::string::npos);
  EXPECT_NE(refusal(cut + "entry other\n").find("expected 'end' of a body before"), std::string::npos);
}

#ifdef TW_HAVE_LLVM
// Groups in bodies are measured like others; loops themselves are no candidates.
TEST(LoopPlans, OfMeasuredGroupsAndLayouts) {
  for (const Graph& g : {gated_model({.n = 64}), nested_model({.outer = 10, .inner = 12, .n = 20})}) {
    CompileOptions options;
    options.layouts = LayoutUse::kMeasured;
    options.tuning.worker = {TW_MEASURE_WORKER};
    options.tuning.threads = 1;
    options.tuning.light_us = 0;
    options.tuning.run_seconds = 0.05;
    const Compiled measured = compile_graph(g, options);
    const artefact::VerifyReport report =
        artefact::verify_artefact(artefact_bytes(measured), &g, random_arrays(g, 1), {});
    EXPECT_TRUE(report.ok()) << faults(report);
    CompileOptions replay;
    replay.plan_text = plan::to_string(measured.plan);
    EXPECT_EQ(artefact_bytes(compile_graph(g, replay)), artefact_bytes(measured));
  }
}
#endif

// ---- Several shapes.

TEST(LoopPlans, EntriesOfSeveralShapes) {
  const CompileOptions options = for_batches({1, 5});
  const Compiled made = compile(recurrent, 1, options);
  EXPECT_EQ(repeats(made, 0), 1U);
  EXPECT_EQ(repeats(made, 1), 1U);
  const std::vector<uint8_t> artefact = artefact_bytes(made);
  for (const frontend::ImportResult& model : imports(recurrent, 1, options)) {
    const artefact::VerifyReport report =
        artefact::verify_artefact(artefact, &model.graph, random_arrays(model.graph, 2), {});
    EXPECT_TRUE(report.ok()) << faults(report);
  }
  const size_t one = compile(recurrent, 1, for_batches({5})).sections.at("weights").size();
  EXPECT_LT(made.sections.at("weights").size(), one + one / 10) << "zeros of each shape, all else once";
}

// ---- Weights of bodies are stored once.

TEST(LoopPlans, LoopsOfEqualBodiesShareKernelsAndWeights) {
  const auto model = [](int loops) {
    Graph g;
    const TensorType row{DataType::f32(), {2, 16}};
    const ValueId h = g.add_input("h", row), c = g.add_input("c", row), x = g.add_input("x", f32({12, 2, 16}));
    const ValueId w = weight(g, "w", {16, 16}), u = weight(g, "uu", {16, 16});
    for (int l = 0; l < loops; ++l) {
      const Repeat repeat = turns_of(12, 2, 1, 0);
      g.outputs.push_back(last_of(g, add_loop(g, gated_body(2, 16), {l == 0 ? h : c, h, x, w, u}, repeat), repeat));
    }
    return compile_graph(g, {});
  };
  const Compiled one = model(1), two = model(2);
  EXPECT_EQ(one.sections.at("weights").size(), two.sections.at("weights").size());
  EXPECT_EQ(one.manifest.kernels.size(), two.manifest.kernels.size());
}

// ---- States.

// From the state on: what the loop leaves is its next value.
Graph with_state(const std::string& next) {
  Graph g;
  const ValueId x = g.add_input("x", f32({9, 3})), w = g.add_input("w", f32({3}));
  const bool is_stack = next == "stack";
  const ValueId h = g.add_input("state", f32(is_stack ? Shape{9, 3} : Shape{3}));
  Repeat repeat = turns_of(9, 1, 1, 1);
  repeat.rows[0] = 9;
  const std::vector<ValueId> made = add_loop(g, cell_body(3), {is_stack ? w : h, is_stack ? h : x, w}, repeat);
  const ValueId last = is_stack ? made[0] : last_of(g, made, repeat);
  g.values[last].name = "state.next";
  g.outputs = {add(g, "neg", {made[1]}), last};
  if (is_stack) g.outputs[0] = add(g, "add", {x, add(g, "neg", {made[1]})});
  return g;
}

// The same bits as with an input and an output, run after run.
void expect_same_with_state(const Graph& g, const CompileOptions& given) {
  CompileOptions options = given;
  options.states = {{"state", "state.next"}};
  artefact::Session with = artefact::Session::load_memory(artefact_bytes(compile_graph(g, options)), {}),
                    without = artefact::Session::load_memory(artefact_bytes(compile_graph(g, given)), {});
  std::vector<artefact::Array> inputs = random_arrays(g, 3), plain = inputs;
  ASSERT_EQ(with.states().size(), 1U);
  for (int run = 0; run < 3; ++run) {
    const std::vector<artefact::Array> got = with.run(inputs), want = without.run(plain);
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < got.size(); ++k) EXPECT_EQ(got[k].bytes, want[k].bytes) << "output " << k << " run " << run;
    inputs.back() = got.back();
    plain.back() = want.back();
  }
}

TEST(LoopPlans, AStateIsCarriedOnByALoop) {
  for (const bool plain : {false, true}) {
    CompileOptions options;
    options.all_optional_off = plain;
    expect_same_with_state(with_state("last"), options);
  }
}

// Rows are read and written in the storage of one state.
TEST(LoopPlans, AStateIsScannedAndStackedByALoop) {
  for (const bool plain : {false, true}) {
    CompileOptions options;
    options.all_optional_off = plain;
    expect_same_with_state(with_state("stack"), options);
  }
}

// ---- Reports.

struct Reports {
  artefact::EntryReport entry;
  artefact::AnalyzedGroups analyzed;
};
Reports reports_of(const Graph& g) {
  CompileOptions options;
  options.target = "cpu:x86-64-v3";
  const std::vector<uint8_t> artefact = artefact_bytes(compile_graph(g, options));
  const targets::Target target = targets::find_target("cpu:x86-64-v3");
  return {artefact::explain_entry(artefact, {"x86-64-v3"}, target),
          artefact::analyze_groups(artefact, {"x86-64-v3"}, target)};
}

TEST(LoopReports, CountAllTurns) {
  const auto total = [](const Reports& reports) {
    double flop = 0;
    int64_t moved = 0;
    for (const artefact::GroupReport& group : reports.entry.groups) {
      if (group.turns == 1) continue;
      flop += group.flop;
      moved += group.moved_bytes;
    }
    return std::pair(flop, moved);
  };
  const Reports few = reports_of(gated_model({.turns = 20, .n = 16})),
                many = reports_of(gated_model({.turns = 40, .n = 16}));
  const auto [flop, moved] = total(few);
  EXPECT_EQ(flop, 20 * 2 * (2.0 * 2 * 16 * 16)) << "two products a turn";
  EXPECT_GT(moved, 20 * 2 * 16 * 16 * 4) << "each reads its weights";
  EXPECT_EQ(total(many), std::pair(2 * flop, 2 * moved));
  EXPECT_EQ(few.entry.groups.size(), many.entry.groups.size());
}

TEST(LoopReports, BodiesComeBehindTheGroupsAround) {
  const Graph g = nested_model({.outer = 10, .inner = 12, .n = 20});
  const Reports reports = reports_of(g);
  std::vector<int64_t> turns = mapped(reports.entry.groups, &artefact::GroupReport::turns);
  EXPECT_TRUE(std::ranges::is_sorted(turns));
  turns.erase(std::unique(turns.begin(), turns.end()), turns.end());
  EXPECT_EQ(turns, (std::vector<int64_t>{1, 10, 120}));
  for (const artefact::GroupReport& group : reports.entry.groups) {
    const bool is_loop = group.plan.family == plan::kLoopFamily;
    EXPECT_EQ(group.steps == 0, !plan::has_code(group.plan)) << group.plan.name;
    if (is_loop) {
      EXPECT_EQ(group.moved_bytes, 0) << group.plan.name;
    }
  }
}

TEST(LoopReports, AnalysesHaveGroupsWithCode) {
  const Reports reports = reports_of(gated_model({.turns = 20, .n = 16}));
  std::vector<std::string> names;
  double flop = 0;
  for (const artefact::AnalyzedGroup& group : reports.analyzed.groups) {
    names.push_back(group.name);
    flop += group.flop;
    EXPECT_GT(group.steps, 0) << group.name;
  }
  std::vector<std::string> coded;
  for (const artefact::GroupReport& group : reports.entry.groups) {
    if (plan::has_code(group.plan)) coded.push_back(group.plan.name);
  }
  EXPECT_EQ(names, coded);
  EXPECT_GE(flop, 20 * 2 * (2.0 * 2 * 16 * 16));
}

TEST(LoopReports, TimesOfRunsAreOfAllTurns) {
  const Graph g = gated_model({.turns = 20, .n = 16});
  CompileOptions options;
  options.target = "cpu:x86-64-v3";
  const std::vector<uint8_t> artefact = artefact_bytes(compile_graph(g, options));
  artefact::Session session = artefact::Session::load_memory(artefact, {1, true});
  session.run(random_arrays(g, 1));
  const std::vector<artefact::StepTime> steps = session.last_profile();
  double us = 0, of_groups = 0;
  for (const artefact::StepTime& step : steps) us += step.microseconds;
  const artefact::EntryReport report =
      artefact::explain_entry(artefact, {"x86-64-v3", 0, 1, steps}, targets::find_target("cpu:x86-64-v3"));
  for (const artefact::GroupReport& group : report.groups) of_groups += group.run_us;
  EXPECT_NEAR(of_groups, us, 1e-6 * us);
}

// The loop as an operator of a model counts its turns, too.
TEST(LoopReports, OperatorsOfModels) {
  const auto flop_of = [](int64_t turns) {
    double flop = 0;
    for (const dataflow::Operator& op : artefact::analyze_operators(gated_model({.turns = turns})).operators) {
      if (op.op != graph::kRepeat) continue;
      flop += op.flop;
      EXPECT_EQ(op.operator_class, dataflow::OperatorClass::kContraction);
      EXPECT_GT(op.words_read, turns * 2 * 17);
      EXPECT_GE(op.words_written, turns * 2 * 17);
    }
    return flop;
  };
  EXPECT_GT(flop_of(20), 20 * 2 * (2.0 * 2 * 17 * 17));
  EXPECT_EQ(flop_of(40), 2 * flop_of(20));
}

}  // namespace
}  // namespace tw::driver::test
