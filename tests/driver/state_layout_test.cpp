// How states are stored: in the order of dims that their readers like best, which nobody outside of the artefact sees.
// Inputs and weights are small integers and precision is strict: all sums are exact, so that bits do not depend on the
// order in which a kernel adds, which is another one where memory is in another order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "artefact/verify.h"
#include "driver/compile.h"
#include "driver/refit.h"
#include "ops/list.h"
#include "tests/driver/state_models.h"

namespace tw::driver::test {
namespace {

using artefact::Array;
using artefact::Session;
using tw::testing::ModelBuilder;
using tw::testing::set_int;
using tw::testing::set_ints;

constexpr int64_t kChannels = 32, kPlane = 14;
const std::vector<tw::testing::Dim> kImage = {int64_t{1}, kChannels, kPlane, kPlane};
const std::vector<int64_t> kLast = {0, 2, 3, 1};

void weight(ModelBuilder& model, const std::string& name, const std::vector<int64_t>& dims) {
  std::vector<float> values;
  for (int64_t i = 0; i < num_elements(dims); ++i) values.push_back(static_cast<float>(i * 37 % 101 % 3 - 1));
  model.floats(name, dims, values);
}

void conv(ModelBuilder& model, const std::string& in, const std::string& out) {
  weight(model, "w_" + out, {kChannels, kChannels, 3, 3});
  set_ints(model.node("Conv", {in, "w_" + out}, {out}), "pads", {1, 1, 1, 1});
}

// A recurrent cell of images: h.next = a conv(h) + x. The caller sees means of its planes.
void cell(ModelBuilder& model) {
  model.input("x", kImage).input("h", kImage);
  model.floats("a", {}, {0.5F});
  conv(model, "h", "c");
  model.node("Mul", {"c", "a"}, {"s"});
  model.node("Add", {"s", "x"}, {"h.next"});
  model.node("GlobalAveragePool", {"h.next"}, {"y"});
  model.output("y").output("h.next");
}
const States kCell = {{"h", "h.next"}};

// What the caller also sees of the state, it sees as rows. One group has nothing to do with it.
void shown(ModelBuilder& model) {
  cell(model);
  model.node("Identity", {"h"}, {"before"});
  model.node("Neg", {"h.next"}, {"negative"});
  model.node("GlobalMaxPool", {"x"}, {"max"});
  model.graph().mutable_output()->Clear();
  for (const char* name : {"y", "before", "negative", "max", "h.next"}) model.output(name);
}

CompileOptions exact() {
  CompileOptions options;
  options.precision = Precision::kStrict;
  return options;
}

Compiled compile(const Model& make, const States& states, const CompileOptions& options = exact(), int64_t opset = 17) {
  return test::compile(make, states, opset, options);
}

std::vector<Array> inputs_of(const Session& session, int64_t position = 0) {
  return test::inputs_of(session, position, small_integers);
}

void expect_same(const Model& make, const States& states, const std::vector<int64_t>& positions = {0},
                 const CompileOptions& options = exact(), int64_t opset = 17) {
  test::expect_same(make, states, positions, opset, options, small_integers);
}

bool converts(const Compiled& made) {
  return std::ranges::any_of(made.plan.entries, [](const plan::EntryPlan& entry) {
    return std::ranges::any_of(entry.groups, [](const plan::GroupPlan& group) {
      return group.name.find("_layout") != std::string::npos || group.name.find("layout_") != std::string::npos;
    });
  });
}

TEST(StateLayout, IsWhatConvolutionsRead) {
  const Compiled made = compile(cell, kCell);
  EXPECT_EQ(made.manifest.states[0].order, kLast);
  EXPECT_EQ(made.plan.entries[0].layouts.values.at("h"), channels_last(4));
  EXPECT_FALSE(converts(made)) << plan::to_string(made.plan);
  expect_same(cell, kCell);
  expect_same(shown, kCell);
}

TEST(StateLayout, IsSaidByThePlan) {
  const Compiled made = compile(cell, kCell);
  const std::string text = plan::to_string(made.plan);
  for (const char* line : {"value \"h\" reorder(0, 2, 3, 1)\n", "why \"h\" ", "why \"h.next\" "})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  const std::vector<plan::ValueReason>& reasons = made.plan.entries[0].reasons.values;
  for (const char* name : {"h", "h.next"}) {
    const auto value = std::ranges::find(reasons, name, &plan::ValueReason::value);
    ASSERT_NE(value, reasons.end()) << name;
    EXPECT_EQ(value->why.rule, "state");
  }
}

// As `first`, with another layout of its first state. All values between groups stay as they are.
Compiled stored_as(const Model& make, const States& states, const Compiled& first, const Layout& layout) {
  plan::Plan plan = first.plan;
  plan.entries[0].layouts.values.at(states[0].input) = layout;
  CompileOptions options = exact();
  options.plan_text = plan::to_string(plan);
  return compile(make, states, options);
}

void expect_equal_runs(const Compiled& a, const Compiled& b) {
  Session first = Session::load_memory(artefact_bytes(a), {}), second = Session::load_memory(artefact_bytes(b), {});
  const std::vector<Array> inputs = inputs_of(first);
  const std::vector<Array> want = first.run(inputs), got = second.run(inputs);
  ASSERT_EQ(want.size(), got.size());
  for (size_t k = 0; k < want.size(); ++k) EXPECT_EQ(want[k].bytes, got[k].bytes) << "output " << k;
}

TEST(StateLayout, IsThatOfThePlan) {
  const Compiled first = compile(shown, kCell);
  const Compiled again = stored_as(shown, kCell, first, first.plan.entries[0].layouts.values.at("h"));
  EXPECT_EQ(artefact_bytes(again), artefact_bytes(first));
  EXPECT_TRUE(again.warnings.empty());
  for (const std::vector<int64_t>& order :
       std::vector<std::vector<int64_t>>{{0, 1, 2, 3}, {0, 2, 3, 1}, {0, 3, 2, 1}, {3, 1, 0, 2}, {1, 0, 2, 3}}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(order, ", ")));
    const Layout layout = Layout().reorder(order);
    const Compiled other = stored_as(shown, kCell, first, layout);
    EXPECT_EQ(other.plan.entries[0].layouts.values.at("h"), layout);
    EXPECT_EQ(other.manifest.states[0].order, std::ranges::is_sorted(order) ? std::vector<int64_t>() : order);
    expect_equal_runs(other, first);
  }
}

TEST(StateLayout, GoesWithTheOtherLayouts) {
  for (const bool all : {false, true}) {
    CompileOptions options = exact();
    options.all_optional_off = all;
    if (!all) options.disabled_passes = {"assign-layouts"};
    EXPECT_TRUE(compile(cell, kCell, options).manifest.states[0].order.empty());
    expect_same(cell, kCell, {0}, options);
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
  const Compiled made = compile(cell, {{"h", "h.next", InitialValue(initial)}});
  ASSERT_EQ(made.manifest.states[0].order, kLast);
  const Session session = Session::load_memory(artefact_bytes(made), {});
  EXPECT_EQ(artefact::to_reference(session.initial_states()[0]).floats, initial.floats);
  float second = 0;
  std::memcpy(&second, made.sections.at("states").data() + sizeof(float), sizeof(float));
  EXPECT_EQ(second, kPlane * kPlane) << "channels lie side by side";
}

TEST(StateLayout, IsVerified) {
  const graph::Graph source = import(cell).graph;
  for (const Precision precision : {Precision::kStrict, Precision::kDefault}) {
    CompileOptions options;
    options.precision = precision;
    const Compiled made = compile(cell, kCell, options);
    EXPECT_EQ(made.manifest.states[0].order, kLast);
    const std::vector<uint8_t> artefact = artefact_bytes(made);
    EXPECT_TRUE(artefact::verify_artefact(artefact, &source, inputs_of(Session::load_memory(artefact, {})), {}).ok());
  }
}

TEST(StateLayout, StaysWhenWeightsAreOthers) {
  const Model other = [](ModelBuilder& model) {
    cell(model);
    for (float& x : *model.graph().mutable_initializer(1)->mutable_float_data()) x = 2 - x;
  };
  graph::RefTensor initial = graph::RefTensor::zeros({DataType::f32(), {1, kChannels, kPlane, kPlane}});
  for (size_t i = 0; i < initial.floats.size(); ++i) initial.floats[i] = static_cast<double>(i);
  const States states = {{"h", "h.next", InitialValue(initial)}};
  const Compiled first = compile(cell, states);
  const std::vector<uint8_t> artefact = artefact_bytes(first);
  ModelBuilder model(17);
  other(model);
  frontend::Weights weights;
  for (const onnx::TensorProto& w : model.graph().initializer()) {
    const auto bytes = std::as_bytes(std::span(w.float_data().data(), static_cast<size_t>(w.float_data_size())));
    weights[w.name()] = {{DataType::f32(), Shape(w.dims().begin(), w.dims().end())},
                         share(std::vector<std::byte>(bytes.begin(), bytes.end()))};
  }
  const Refitted made = refit(artefact, std::make_shared<const frontend::Weights>(weights));
  CompileOptions options = exact();
  options.plan_text = plan::to_string(first.plan);
  EXPECT_EQ(format::serialize_artefact(made.manifest, made.sections()),
            artefact_bytes(compile(other, states, options)));
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
  CompileOptions options = exact();
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
  plan.entries[1].layouts.values.at("h") = Layout();  // of the largest inputs, which are compiled first
  options.plan_text = plan::to_string(plan);
  const Compiled rows = make();
  EXPECT_TRUE(rows.manifest.states[0].order.empty());
  for (const plan::EntryPlan& entry : rows.plan.entries) EXPECT_EQ(entry.layouts.values.at("h"), Layout());
}

bool reads_as_it_was(const Compiled& made) {
  return std::ranges::any_of(made.manifest.entries[0].buffers,
                             [](const format::Buffer& b) { return b.place == format::Place::kState; });
}

// s.next = s / 2 + x, point by point, in whatever order. A product's epilogue is none of these: its result is copied.
TEST(StateLayout, PointsChangeInTheirPlace) {
  const Model mean = [](ModelBuilder& model) {
    model.input("x", kImage).input("s", kImage);
    model.floats("half", {}, {0.5F});
    model.node("Mul", {"s", "half"}, {"d"});
    model.node("Add", {"d", "x"}, {"s.next"});
    conv(model, "s.next", "c");
    conv(model, "c", "e");
    model.node("GlobalMaxPool", {"e"}, {"y"});
    model.node("GlobalMaxPool", {"x"}, {"max"});
    model.output("y").output("max").output("s.next");
  };
  const States states = {{"s", "s.next"}};
  const Compiled made = compile(mean, states);
  expect_same(mean, states);
  for (const Layout& layout : {Layout(), channels_last(4), Layout().reorder({3, 1, 0, 2})}) {
    plan::Plan plan = made.plan;
    for (const char* name : {"s", "s.next"}) plan.entries[0].layouts.values.at(name) = layout;
    CompileOptions options = exact();
    options.plan_text = plan::to_string(plan);
    const Compiled other = compile(mean, states, options);
    EXPECT_FALSE(reads_as_it_was(other)) << to_string(layout);
    expect_equal_runs(other, made);
  }
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
    const Compiled made = compile(frame, states, exact(), 24);
    EXPECT_EQ(made.manifest.states[0].order, kLast) << axis;
    EXPECT_FALSE(reads_as_it_was(made)) << axis;
    expect_same(frame, states, {0, 3, 12}, exact(), 24);
    CompileOptions options = exact();
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

// Two readers that like different orders: a convolution, and products along the last dim. Sizes are odd.
TEST(StateLayout, OfReadersThatDisagree) {
  const std::vector<tw::testing::Dim> image = {int64_t{3}, int64_t{5}, int64_t{7}, int64_t{11}};
  const Model both = [&](ModelBuilder& model) {
    model.input("x", image).input("h", image);
    weight(model, "w", {5, 5, 3, 3});
    weight(model, "p", {11, 11});
    set_ints(model.node("Conv", {"h", "w"}, {"c"}), "pads", {1, 1, 1, 1});
    model.node("MatMul", {"h", "p"}, {"m"});
    model.node("Add", {"c", "m"}, {"s"});
    model.node("Add", {"s", "x"}, {"h.next"});
    model.node("GlobalMaxPool", {"x"}, {"y"});
    model.output("y").output("h.next");
  };
  const Compiled first = compile(both, kCell);
  expect_same(both, kCell);
  for (const Layout& layout : {Layout(), channels_last(4), Layout().reorder({3, 2, 1, 0})})
    expect_equal_runs(stored_as(both, kCell, first, layout), first);
}

// A convolution and a pooling of two images, of which one is the state: each is stored as it is read.
TEST(StateLayout, OfTwoConvolutions) {
  const Model two = [](ModelBuilder& model) {
    model.input("x", kImage).input("h", kImage).input("g", kImage);
    conv(model, "h", "c");
    weight(model, "w1", {kChannels, 1, 3, 3});
    auto& depthwise = model.node("Conv", {"h", "w1"}, {"d"});
    set_ints(depthwise, "pads", {1, 1, 1, 1});
    set_int(depthwise, "group", kChannels);
    model.node("Add", {"c", "x"}, {"h.next"});
    conv(model, "g", "e");
    model.node("Add", {"d", "e"}, {"g.next"});
    model.node("GlobalMaxPool", {"x"}, {"y"});
    model.output("y").output("h.next").output("g.next");
  };
  const States states = {{"h", "h.next"}, {"g", "g.next"}};
  const Compiled first = compile(two, states);
  expect_same(two, states);
  for (const Layout& layout : {Layout(), channels_last(4), Layout().reorder({1, 3, 0, 2})})
    expect_equal_runs(stored_as(two, states, first, layout), first);
}

// Nobody gains by another order: rows.
TEST(StateLayout, OfElementwiseReadersIsRows) {
  for (const std::vector<tw::testing::Dim>& shape :
       std::vector<std::vector<tw::testing::Dim>>{kImage, {int64_t{3}, int64_t{5}, int64_t{7}}, {int64_t{9}}, {}}) {
    const Model sum = [&](ModelBuilder& model) {
      model.input("x", shape).input("h", shape);
      model.node("Add", {"h", "x"}, {"h.next"});
      model.node("Neg", {"h"}, {"y"});
      model.output("y").output("h.next");
    };
    const Model alone = [&](ModelBuilder& model) {
      model.input("x", {int64_t{2}}).input("h", shape);
      model.node("Neg", {"h"}, {"h.next"});
      model.node("Neg", {"x"}, {"y"});
      model.output("y").output("h.next");
    };
    for (const Model& make : {sum, alone}) {
      EXPECT_TRUE(compile(make, kCell).manifest.states[0].order.empty()) << shape.size();
      expect_same(make, kCell);
    }
  }
}

// ---- On a GPU: the same choice; nothing is run.

TEST(StateLayout, OfAnH100) {
  CompileOptions options = exact();
  options.target = "cuda:sm_90a";
  options.tuning.budget_seconds = 0;
  const Compiled made = compile(cell, kCell, options);
  EXPECT_EQ(made.manifest.states[0].order, kLast);
  EXPECT_FALSE(converts(made));
}

}  // namespace
}  // namespace tw::driver::test
