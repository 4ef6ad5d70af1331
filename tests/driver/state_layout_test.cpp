// How states are stored: in the order of dims that their readers like best, which nobody outside of the artefact sees.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "artefact/verify.h"
#include "driver/compile.h"
#include "driver/refit.h"
#include "ops/list.h"
#include "tests/onnx/model_builder.h"

namespace tw::driver::test {
namespace {

using artefact::Array;
using artefact::Session;
using tw::testing::ModelBuilder;
using tw::testing::set_int;
using tw::testing::set_ints;
using Model = std::function<void(ModelBuilder& model)>;
using States = std::vector<StatePair>;

constexpr int64_t kChannels = 32, kPlane = 14;
const std::vector<tw::testing::Dim> kImage = {int64_t{1}, kChannels, kPlane, kPlane};
const std::vector<int64_t> kLast = {0, 2, 3, 1};

void weight(ModelBuilder& model, const std::string& name, const std::vector<int64_t>& dims) {
  std::vector<float> values;
  for (int64_t i = 0; i < num_elements(dims); ++i) values.push_back(static_cast<float>(i * 37 % 101) / 1024 - 0.05F);
  model.floats(name, dims, values);
}

void conv(ModelBuilder& model, const std::string& in, const std::string& out) {
  weight(model, "w_" + out, {kChannels, kChannels, 3, 3});
  set_ints(model.node("Conv", {in, "w_" + out}, {out}), "pads", {1, 1, 1, 1});
}

// A recurrent cell of images: h.next = a conv(h) + x. The caller sees means of its planes.
void cell(ModelBuilder& model) {
  model.input("x", kImage).input("h", kImage);
  model.floats("a", {}, {0.75F});
  conv(model, "h", "c");
  model.node("Mul", {"c", "a"}, {"s"});
  model.node("Add", {"s", "x"}, {"h.next"});
  model.node("GlobalAveragePool", {"h.next"}, {"y"});
  model.output("y").output("h.next");
}
const States kCell = {{"h", "h.next"}};

frontend::ImportResult import(const Model& make, int64_t opset = 17, const frontend::ImportOptions& options = {}) {
  ModelBuilder model(opset);
  make(model);
  return frontend::import_onnx_bytes(model.bytes(), "", ops::all_ops(), options);
}

Compiled compile(const Model& make, const States& states, CompileOptions options = {}, int64_t opset = 17) {
  options.states = states;
  return compile_imported({import(make, opset)}, options);
}

Array array_of(const TensorType& type, int64_t seed) {
  graph::RefTensor t = graph::RefTensor::zeros(type);
  for (int64_t i = 0; i < std::ssize(t.floats); ++i)
    t.floats[i] = static_cast<double>((i * 53 + seed * 29) % 97) / 64 - 0.7;
  for (int64_t& i : t.ints) i = seed;
  return artefact::to_array(t);
}

// Integers are positions: `position`.
std::vector<Array> inputs_of(const Session& session, int64_t position = 0) {
  std::vector<Array> inputs;
  for (const artefact::NamedType& type : session.inputs())
    inputs.push_back(array_of(type.type, type.type.type.is_int() ? position : std::ssize(inputs)));
  return inputs;
}

// With states, which are the model's last inputs and outputs, the same bits come as without: rows, whoever asks.
void expect_same(const Model& make, const States& states, const std::vector<int64_t>& positions = {0},
                 const CompileOptions& options = {}, int64_t opset = 17) {
  Session with = Session::load_memory(artefact_bytes(compile(make, states, options, opset)), {});
  Session without = Session::load_memory(artefact_bytes(compile(make, {}, options, opset)), {});
  for (const int64_t position : positions) {
    const std::vector<Array> inputs = inputs_of(with, position);
    const std::vector<Array> got = with.run(inputs), want = without.run(inputs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < got.size(); ++k)
      EXPECT_EQ(got[k].bytes, want[k].bytes) << "output " << k << " at " << position;
  }
}

bool converts(const Compiled& made) {
  return std::ranges::any_of(made.plan.entries, [](const plan::EntryPlan& entry) {
    return std::ranges::any_of(entry.groups, [](const plan::GroupPlan& group) {
      return group.name.find("_layout") != std::string::npos || group.name.find("layout_") != std::string::npos;
    });
  });
}

const plan::Reasons& reasons_of(const Compiled& made) { return made.plan.entries[0].reasons; }

TEST(StateLayout, IsWhatConvolutionsRead) {
  const Compiled made = compile(cell, kCell);
  EXPECT_EQ(made.manifest.states[0].order, kLast);
  EXPECT_EQ(made.plan.entries[0].layouts.values.at("h"), channels_last(4));
  EXPECT_FALSE(converts(made)) << plan::to_string(made.plan);
  EXPECT_TRUE(converts(compile(cell, {}))) << "the caller gives and takes rows";
  expect_same(cell, kCell);
}

TEST(StateLayout, IsSaidByThePlan) {
  const std::string text = plan::to_string(compile(cell, kCell).plan);
  for (const char* line : {"value \"h\" reorder(0, 2, 3, 1)\n", "why \"h\" ", "why \"h.next\" "})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  const plan::Reasons& reasons = reasons_of(compile(cell, kCell));
  for (const char* name : {"h", "h.next"}) {
    const auto value = std::ranges::find(reasons.values, name, &plan::ValueReason::value);
    ASSERT_NE(value, reasons.values.end()) << name;
    EXPECT_EQ(value->why.rule, "state");
  }
}

TEST(StateLayout, IsThatOfThePlan) {
  const Compiled first = compile(cell, kCell);
  CompileOptions options;
  options.plan_text = plan::to_string(first.plan);
  const Compiled again = compile(cell, kCell, options);
  EXPECT_EQ(artefact_bytes(again), artefact_bytes(first));
  EXPECT_TRUE(again.warnings.empty());
  for (const Layout& layout : {Layout(), Layout().reorder({3, 1, 0, 2}), Layout().reorder({1, 0, 2, 3})}) {
    plan::Plan plan = first.plan;
    plan.entries[0].layouts.values.at("h") = layout;
    options.plan_text = plan::to_string(plan);
    const Compiled other = compile(cell, kCell, options);
    EXPECT_EQ(other.plan.entries[0].layouts.values.at("h"), layout);
    EXPECT_EQ(other.manifest.states[0].order,
              layout.is_identity() ? std::vector<int64_t>() : layout.primitives()[0].args);
    Session want = Session::load_memory(artefact_bytes(first), {}),
            got = Session::load_memory(artefact_bytes(other), {});
    const std::vector<Array> inputs = inputs_of(want);
    const std::vector<Array> a = got.run(inputs), b = want.run(inputs);
    for (size_t k = 0; k < a.size(); ++k) {
      const graph::RefTensor x = artefact::to_reference(a[k]), y = artefact::to_reference(b[k]);
      for (size_t i = 0; i < x.floats.size(); ++i) ASSERT_NEAR(x.floats[i], y.floats[i], 1e-5) << to_string(layout);
    }
  }
}

// Rows go in, and come out after several runs, as a model that is given its own results gives them.
TEST(StateLayout, IsKeptFromRunToRun) {
  Session with = Session::load_memory(artefact_bytes(compile(cell, kCell)), {});
  Session without = Session::load_memory(artefact_bytes(compile(cell, {})), {});
  std::vector<Array> inputs = inputs_of(with);
  with.bind(inputs);
  for (int run = 0; run < 3; ++run) {
    with.run_bound();
    inputs.back() = without.run(inputs).back();
    EXPECT_EQ(with.kept_states()[0].bytes, inputs.back().bytes) << run;
  }
}

TEST(StateLayout, HasTheInitialValues) {
  graph::RefTensor initial = graph::RefTensor::zeros({DataType::f32(), {1, kChannels, kPlane, kPlane}});
  for (size_t i = 0; i < initial.floats.size(); ++i) initial.floats[i] = static_cast<double>(i);
  const Compiled made = compile(cell, {{"h", "h.next", initial}});
  ASSERT_EQ(made.manifest.states[0].order, kLast);
  const Session session = Session::load_memory(artefact_bytes(made), {});
  EXPECT_EQ(artefact::to_reference(session.initial_states()[0]).floats, initial.floats);
  float second = 0;
  std::memcpy(&second, made.sections.at("states").data() + sizeof(float), sizeof(float));
  EXPECT_EQ(second, kPlane * kPlane) << "channels lie side by side";
}

TEST(StateLayout, IsVerified) {
  const std::vector<uint8_t> artefact = artefact_bytes(compile(cell, kCell));
  const graph::Graph source = import(cell).graph;
  EXPECT_TRUE(artefact::verify_artefact(artefact, &source, inputs_of(Session::load_memory(artefact, {})), {}).ok());
}

TEST(StateLayout, StaysWhenWeightsAreOthers) {
  const Model other = [](ModelBuilder& model) {
    cell(model);
    for (onnx::TensorProto& w : *model.graph().mutable_initializer())
      for (float& x : *w.mutable_float_data()) x = 0.5F * x + 0.01F;
  };
  const Compiled first = compile(cell, kCell);
  ModelBuilder model(17);
  other(model);
  frontend::Weights weights;
  for (const onnx::TensorProto& w : model.graph().initializer()) {
    const auto bytes = std::as_bytes(std::span(w.float_data().data(), static_cast<size_t>(w.float_data_size())));
    weights[w.name()] = {{DataType::f32(), Shape(w.dims().begin(), w.dims().end())},
                         std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end())};
  }
  const Refitted made = refit(artefact_bytes(first), std::make_shared<const frontend::Weights>(weights));
  CompileOptions options;
  options.plan_text = plan::to_string(first.plan);
  EXPECT_EQ(format::serialize_artefact(made.manifest, made.sections()), artefact_bytes(compile(other, kCell, options)));
}

// One artefact has one block of states: who comes first decides for all levels and shapes.
TEST(StateLayout, IsOneForAllEntries) {
  const Model any = [](ModelBuilder& model) {
    model.input("x", {int64_t{1}, kChannels, std::string("n"), std::string("n")}).input("h", kImage);
    model.node("GlobalAveragePool", {"x"}, {"m"});
    conv(model, "h", "c");
    model.node("Add", {"c", "m"}, {"h.next"});
    model.node("GlobalAveragePool", {"h.next"}, {"y"});
    model.output("y").output("h.next");
  };
  CompileOptions options;
  options.target = "cpu:x86-64-v4,cpu:x86-64-v3,cpu:x86-64";
  options.states = kCell;
  options.imports = {{{}, {{"n", 4}}, {}}, {{}, {{"n", 9}}, {}}};
  const auto make = [&] {
    return compile_imported({import(any, 17, options.imports[0]), import(any, 17, options.imports[1])}, options);
  };
  const Compiled made = make();
  EXPECT_EQ(made.manifest.states[0].order, kLast);
  ASSERT_EQ(made.plan.entries.size(), 6u);
  for (const plan::EntryPlan& entry : made.plan.entries) EXPECT_EQ(entry.layouts.values.at("h"), channels_last(4));
  plan::Plan plan = made.plan;
  plan.entries[0].layouts.values.at("h") = Layout();
  options.plan_text = plan::to_string(plan);
  const Compiled rows = make();
  EXPECT_TRUE(rows.manifest.states[0].order.empty());
  for (const plan::EntryPlan& entry : rows.plan.entries) EXPECT_EQ(entry.layouts.values.at("h"), Layout());
}

bool reads_as_it_was(const Compiled& made) {
  return std::ranges::any_of(made.manifest.entries[0].buffers,
                             [](const format::Buffer& b) { return b.place == format::Place::kState; });
}

// s.next = s / 2 + conv(x): changed in its place, point by point.
TEST(StateLayout, PointsChangeInTheirPlace) {
  const Model mean = [](ModelBuilder& model) {
    model.input("x", kImage).input("s", kImage);
    model.floats("half", {}, {0.5F});
    conv(model, "x", "c");
    model.node("Mul", {"s", "half"}, {"d"});
    model.node("Add", {"d", "c"}, {"s.next"});
    conv(model, "s.next", "e");
    model.node("GlobalAveragePool", {"e"}, {"y"});
    model.output("y").output("s.next");
  };
  const States states = {{"s", "s.next"}};
  const Compiled made = compile(mean, states);
  EXPECT_EQ(made.manifest.states[0].order, kLast);
  expect_same(mean, states);
}

// Lines of an image, or channels of it, are put in the place of others.
TEST(StateLayout, SlicesChangeInTheirPlace) {
  for (const int64_t axis : {1, 2, 3}) {
    std::vector<tw::testing::Dim> rows = {int64_t{2}, kChannels, kPlane, kPlane}, whole = rows;
    rows[static_cast<size_t>(axis)] = int64_t{2};
    const Model frame = [&](ModelBuilder& model) {
      model.input("x", rows).input("position", {int64_t{2}}, onnx::TensorProto::INT64).input("past", whole);
      set_int(model.node("TensorScatter", {"past", "x", "position"}, {"present"}), "axis", axis);
      conv(model, "present", "c");
      conv(model, "c", "d");
      model.node("GlobalAveragePool", {"d"}, {"y"});
      model.output("y").output("present");
    };
    const States states = {{"past", "present"}};
    const Compiled made = compile(frame, states, {}, 24);
    EXPECT_EQ(made.manifest.states[0].order, kLast) << axis;
    EXPECT_FALSE(reads_as_it_was(made)) << axis;
    expect_same(frame, states, {0, 3, 12}, {}, 24);
    CompileOptions options;
    plan::Plan plan = made.plan;
    plan.entries[0].layouts.values.at("past") = plan.entries[0].layouts.values.at("present") =
        Layout().reorder({3, 1, 0, 2});
    options.plan_text = plan::to_string(plan);
    const Compiled turned = compile(frame, states, options, 24);
    EXPECT_FALSE(reads_as_it_was(turned)) << axis;
    Session a = Session::load_memory(artefact_bytes(made), {}), b = Session::load_memory(artefact_bytes(turned), {});
    std::vector<Array> inputs = inputs_of(a);
    inputs[1] = artefact::to_array({.type = inputs[1].type, .floats = {}, .ints = {7, 3}});
    EXPECT_EQ(a.run(inputs).back().bytes, b.run(inputs).back().bytes) << "a position for each image, axis " << axis;
  }
}

// What the model also gives its caller as it was, it gives as rows.
TEST(StateLayout, IsGivenAsRows) {
  const Model shown = [](ModelBuilder& model) {
    model.input("x", kImage).input("h", kImage);
    model.floats("a", {}, {0.75F});
    conv(model, "h", "c");
    conv(model, "c", "d");
    model.node("Mul", {"d", "a"}, {"s"});
    model.node("Add", {"s", "x"}, {"h.next"});
    model.node("Identity", {"h"}, {"y"});
    model.node("Neg", {"h.next"}, {"z"});
    model.output("y").output("z").output("h").output("h.next");
  };
  EXPECT_EQ(compile(shown, kCell).manifest.states[0].order, kLast);
  expect_same(shown, kCell);
}

// ---- On a GPU: the same choice; nothing is run.

TEST(StateLayout, OfAnH100) {
  CompileOptions options;
  options.target = "cuda:sm_90a";
  options.tuning.budget_seconds = 0;
  const Compiled made = compile(cell, kCell, options);
  EXPECT_EQ(made.manifest.states[0].order, kLast);
  EXPECT_FALSE(converts(made));
}

}  // namespace
}  // namespace tw::driver::test
