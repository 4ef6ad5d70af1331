// Inputs and outputs that become state: the same results as without, kept from run to run, changed in their place.
// Size: one fixture, and one case for each way in which a state is kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "artefact/explain.h"
#include "artefact/verify.h"
#include "driver/compile.h"
#include "driver/refit.h"
#include "ops/list.h"
#include "support/error.h"
#include "targets/registry.h"
#include "tests/driver/random_model.h"
#include "tests/driver/state_models.h"

namespace tw::driver::test {
namespace {

using artefact::Array;
using artefact::Session;
using tw::testing::ModelBuilder;
using tw::testing::set_int;
using tw::testing::set_ints;

std::vector<float> elements(int64_t count, int64_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>((i * 37 + seed * 11) % 101) / 64 - 0.75F);
  return values;
}

void weight(ModelBuilder& model, const std::string& name, const std::vector<int64_t>& dims) {
  model.floats(name, dims, elements(num_elements(dims), model.graph().initializer_size()));
}

void expect_verified(const Model& make, const States& states, int64_t opset = 17) {
  const std::vector<uint8_t> artefact = artefact_bytes(compile(make, states, opset));
  const graph::Graph source = import(make, opset).graph;
  const std::vector<Array> inputs = inputs_of(Session::load_memory(artefact, {}), 3);
  EXPECT_TRUE(artefact::verify_artefact(artefact, &source, inputs, {}).ok());
}

// ---- Point by point.

// total.next = total + x; y = 2 total.next, or 2 total
Model counter(const std::string& shown) {
  return [shown](ModelBuilder& model) {
    model.input("x", {int64_t{5}, int64_t{33}}).input("total", {int64_t{5}, int64_t{33}});
    model.floats("two", {}, {2});
    model.node("Add", {"total", "x"}, {"total.next"});
    model.node("Mul", {shown, "two"}, {"y"});
    model.output("y").output("total.next");
  };
}

TEST(State, IsTheSameAsAnInputAndAnOutput) {
  for (const char* shown : {"total.next", "total"}) {
    expect_same(counter(shown), {{"total", "total.next"}});
    expect_verified(counter(shown), {{"total", "total.next"}});
  }
}

TEST(State, IsKeptFromRunToRun) {
  Session session = Session::load_memory(artefact_bytes(compile(counter("total"), {{"total", "total.next"}})), {});
  std::vector<Array> inputs = inputs_of(session, 0);
  inputs.back() = artefact::to_array(graph::RefTensor::zeros(inputs.back().type));
  session.bind(inputs);
  for (int run = 0; run < 3; ++run) session.run_bound();
  const graph::RefTensor x = artefact::to_reference(inputs[0]),
                         total = artefact::to_reference(session.kept_states()[0]);
  for (size_t i = 0; i < x.floats.size(); ++i) EXPECT_NEAR(total.floats[i], 3 * x.floats[i], 1e-6);
}

// The step that changes it takes the state's memory alone, and nothing else of its size is in the arena.
TEST(State, ChangesInItsPlacePointByPoint) {
  const Compiled made = compile(counter("total.next"), {{"total", "total.next"}});
  const format::Entry& entry = made.manifest.entries.at(0);
  EXPECT_TRUE(
      std::ranges::none_of(entry.buffers, [](const format::Buffer& b) { return b.place == format::Place::kState; }));
  EXPECT_TRUE(
      std::ranges::any_of(entry.buffers, [](const format::Buffer& b) { return b.place == format::Place::kNextState; }));
  EXPECT_EQ(entry.arena_bytes, 0);
  EXPECT_EQ(entry.inputs.size(), 1u);
  EXPECT_EQ(entry.outputs.size(), 1u);
}

// The moments of an optimizer and what follows them: one kernel reads all of a point before it stores any of it.
TEST(State, SeveralChangeInTheirPlacesTogether) {
  const Model optimizer = [](ModelBuilder& model) {
    for (const char* name : {"x", "p", "m", "v"}) model.input(name, {int64_t{5}, int64_t{33}});
    model.floats("half", {}, {.5});
    model.floats("one", {}, {1});
    model.node("Mul", {"m", "half"}, {"less_m"});
    model.node("Add", {"less_m", "x"}, {"m.next"});
    model.node("Mul", {"v", "half"}, {"less_v"});
    model.node("Mul", {"x", "x"}, {"square"});
    model.node("Add", {"less_v", "square"}, {"v.next"});
    model.node("Add", {"v.next", "one"}, {"more"});
    model.node("Div", {"m.next", "more"}, {"change"});
    model.node("Sub", {"p", "change"}, {"p.next"});
    model.node("Sub", {"p.next", "m"}, {"y"});  // m as it was
    for (const char* name : {"y", "p.next", "m.next", "v.next"}) model.output(name);
  };
  const States states = {{"p", "p.next"}, {"m", "m.next"}, {"v", "v.next"}};
  const format::Entry entry = compile(optimizer, states).manifest.entries.at(0);
  EXPECT_EQ(entry.cpu_steps.size(), 1u);
  EXPECT_EQ(entry.arena_bytes, 0);
  expect_same(optimizer, states);
  expect_verified(optimizer, states);
}

// ---- By a copy.

// h.next = tanh(x w + h r), of which every element reads all of a row of h.
void cell(ModelBuilder& model) {
  model.input("x", {int64_t{2}, int64_t{24}}).input("h", {int64_t{2}, int64_t{40}});
  weight(model, "w", {24, 40});
  weight(model, "r", {40, 40});
  model.node("MatMul", {"x", "w"}, {"xw"});
  model.node("MatMul", {"h", "r"}, {"hr"});
  model.node("Add", {"xw", "hr"}, {"s"});
  model.node("Tanh", {"s"}, {"h.next"});
  model.node("Relu", {"h.next"}, {"y"});
  model.output("y").output("h.next");
}

TEST(State, ThatIsReadAllOverIsCopiedAtTheEnd) {
  expect_same(cell, {{"h", "h.next"}});
  expect_verified(cell, {{"h", "h.next"}});
}

// Each becomes the other: neither may change before it is read.
TEST(State, TwoMayChangePlaces) {
  const Model swap = [](ModelBuilder& model) {
    model.input("x", {int64_t{7}}).input("a", {int64_t{7}}).input("b", {int64_t{7}});
    model.node("Add", {"b", "x"}, {"a.next"});
    model.node("Sub", {"a", "x"}, {"b.next"});
    model.node("Mul", {"a", "b"}, {"y"});
    model.output("y").output("a.next").output("b.next");
  };
  expect_same(swap, {{"a", "a.next"}, {"b", "b.next"}});
  expect_verified(swap, {{"a", "a.next"}, {"b", "b.next"}});
}

// A view of either would show what has taken its place.
TEST(State, TwoMayBecomeEachOtherAsTheyAre) {
  const Model swap = [](ModelBuilder& model) {
    model.input("h", {int64_t{5}, int64_t{33}}).input("g", {int64_t{5}, int64_t{33}});
    model.node("Identity", {"g"}, {"h.next"});
    model.node("Identity", {"h"}, {"g.next"});
    model.node("Sub", {"h", "g"}, {"y"});
    model.output("y").output("h.next").output("g.next");
  };
  expect_same(swap, {{"h", "h.next"}, {"g", "g.next"}});
}

TEST(State, MayBeAView) {
  const Model viewed = [](ModelBuilder& model) {
    model.input("x", {int64_t{6}, int64_t{4}}).input("s", {int64_t{2}, int64_t{12}});
    model.ints("flat", {6, 4});
    model.ints("back", {2, 12});
    model.node("Reshape", {"s", "flat"}, {"f"});
    model.node("Add", {"f", "x"}, {"a"});
    model.node("Reshape", {"a", "back"}, {"s.next"});
    model.node("Softmax", {"f"}, {"y"});
    model.output("y").output("s.next");
  };
  expect_same(viewed, {{"s", "s.next"}});
  expect_verified(viewed, {{"s", "s.next"}});
}

// ---- Slices.

constexpr int64_t kHeads = 4, kHead = 16, kWide = kHeads * kHead, kCapacity = 64;

// A decoder's attention over a cache of kCapacity tokens, one more of which comes in a run.
Model decoder(int64_t tokens) {
  return [tokens](ModelBuilder& model) {
    const std::vector<tw::testing::Dim> cache = {int64_t{1}, kHeads, kCapacity, kHead};
    model.input("x", {int64_t{1}, tokens, kWide});
    model.input("position", {int64_t{1}}, onnx::TensorProto::INT64);
    model.input("length", {int64_t{1}}, onnx::TensorProto::INT64);
    model.input("past_k", cache).input("past_v", cache);
    model.ints("heads", {1, tokens, kHeads, kHead});
    for (const char* part : {"q", "k", "v"}) {
      const std::string p = part;
      weight(model, "w" + p, {kWide, kWide});
      model.node("MatMul", {"x", "w" + p}, {p + "1"});
      model.node("Reshape", {p + "1", "heads"}, {p + "2"});
      set_ints(model.node("Transpose", {p + "2"}, {p}), "perm", {0, 2, 1, 3});
    }
    for (const char* part : {"k", "v"}) {
      const std::string p = part;
      set_int(model.node("TensorScatter", {"past_" + p, p, "position"}, {"present_" + p}), "axis", 2);
    }
    model.node("Attention", {"q", "present_k", "present_v", "", "", "", "length"}, {"y"});
    model.output("y").output("present_k").output("present_v");
  };
}

const States kCaches = {{"past_k", "present_k"}, {"past_v", "present_v"}};

TEST(Cache, GivesTheSameAsAnInputAndAnOutput) {
  for (const int64_t tokens : {1, 3}) expect_same(decoder(tokens), kCaches, {1, 5, kCapacity - tokens}, 24);
  expect_verified(decoder(1), kCaches, 24);
}

// Bytes of what the groups of a model that change its states move at least.
int64_t bytes_of_changes(const std::vector<uint8_t>& artefact, const std::string& level) {
  const targets::Target target = targets::find_target("cpu:x86-64-v3");
  int64_t bytes = 0;
  const artefact::EntryReport report = artefact::explain_entry(artefact, {level}, target);
  for (const artefact::GroupReport& group : report.groups) {
    const std::string& name = group.plan.name;
    const bool changes = name.find("present") != std::string::npos && name.find("(index check)") == std::string::npos;
    if (changes) bytes += group.bound_bytes;
    if (changes) {
      EXPECT_EQ(group.moved_bytes, group.bound_bytes) << name;
    }
  }
  return bytes;
}

TEST(Cache, IsNotCopied) {
  CompileOptions options;
  options.target = "cpu:x86-64-v3";
  const Compiled made = compile(decoder(1), kCaches, 24, options);
  const format::Entry& entry = made.manifest.entries.at(0);
  const int64_t cache = kHeads * kCapacity * kHead * 4;
  for (const format::Buffer& b : entry.buffers) {
    EXPECT_NE(b.place, format::Place::kState) << b.name << " is read as it was";
    if (b.place == format::Place::kArena) {
      EXPECT_LT(b.bytes, cache) << b.name;
    }
  }
  // Rows of one token are read and written, beside a position.
  EXPECT_EQ(bytes_of_changes(artefact_bytes(made), "x86-64-v3"), 2 * (2 * kWide * 4 + 8));
  EXPECT_GT(bytes_of_changes(artefact_bytes(compile(decoder(1), {}, 24, options)), "x86-64-v3"), 4 * cache);
}

TEST(Cache, PositionsOutsideAreReported) {
  Session session = Session::load_memory(artefact_bytes(compile(decoder(2), kCaches, 24)), {});
  for (const int64_t position : {int64_t{-1}, kCapacity - 1, int64_t{1} << 40})
    EXPECT_THROW(session.run(inputs_of(session, position)), artefact::RuntimeFailure) << position;
}

// One position for each of a batch; the axis is the last but one.
TEST(Cache, BatchesHavePositionsOfTheirOwn) {
  const Model batch = [](ModelBuilder& model) {
    model.input("x", {int64_t{3}, int64_t{2}, int64_t{8}});
    model.input("position", {int64_t{3}}, onnx::TensorProto::INT64);
    model.input("past", {int64_t{3}, int64_t{10}, int64_t{8}});
    model.node("TensorScatter", {"past", "x", "position"}, {"present"});
    model.node("Relu", {"present"}, {"y"});
    model.output("y").output("present");
  };
  Session with = Session::load_memory(artefact_bytes(compile(batch, {{"past", "present"}}, 24)), {});
  std::vector<Array> inputs = inputs_of(with, 0);
  inputs[1] = artefact::to_array({.type = inputs[1].type, .floats = {}, .ints = {7, 0, 8}});
  const std::vector<Array> got = with.run(inputs);
  EXPECT_EQ(got[1].bytes, Session::load_memory(artefact_bytes(compile(batch, {}, 24)), {}).run(inputs)[1].bytes);
}

// Rows that are parts of one value, transposed: they are read where they lie, at each position of a batch.
TEST(Cache, RowsAreReadWhereTheyLie) {
  const Model parts = [](ModelBuilder& model) {
    model.input("x", {int64_t{3}, int64_t{4}, int64_t{2}, int64_t{16}});
    model.input("position", {int64_t{3}}, onnx::TensorProto::INT64);
    set_int(model.node("Split", {"x"}, {"k", "v"}), "axis", 3);
    for (const char* part : {"k", "v"}) {
      const std::string p = part;
      model.input("past_" + p, {int64_t{3}, int64_t{2}, int64_t{10}, int64_t{8}});
      set_ints(model.node("Transpose", {p}, {p + "t"}), "perm", {0, 2, 1, 3});
      set_int(model.node("TensorScatter", {"past_" + p, p + "t", "position"}, {"present_" + p}), "axis", 2);
      model.node("Neg", {"present_" + p}, {"y" + p});
      model.output("y" + p);
    }
    model.output("present_k").output("present_v");
  };
  Session with = Session::load_memory(artefact_bytes(compile(parts, kCaches, 24)), {});
  std::vector<Array> inputs = inputs_of(with, 0);
  inputs[1] = artefact::to_array({.type = inputs[1].type, .floats = {}, .ints = {6, 0, 3}});
  const std::vector<Array> got = with.run(inputs);
  const std::vector<Array> want = Session::load_memory(artefact_bytes(compile(parts, {}, 24)), {}).run(inputs);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].bytes, want[i].bytes) << i;
}

TEST(Cache, ScattersAtOnePlaceAreSlices) {
  const Model elements = [](ModelBuilder& model) {
    model.input("x", {int64_t{2}, int64_t{1}, int64_t{8}});
    model.input("position", {int64_t{1}, int64_t{1}, int64_t{1}}, onnx::TensorProto::INT64);
    model.input("past", {int64_t{2}, int64_t{10}, int64_t{8}});
    model.ints("all", {2, 1, 8});
    model.node("Expand", {"position", "all"}, {"where"});
    set_int(model.node("ScatterElements", {"past", "where", "x"}, {"present"}), "axis", 1);
    model.node("Neg", {"present"}, {"y"});
    model.output("y").output("present");
  };
  const Model nd = [](ModelBuilder& model) {
    model.input("x", {int64_t{3}, int64_t{8}});
    model.input("position", {int64_t{1}}, onnx::TensorProto::INT64);
    model.input("past", {int64_t{10}, int64_t{8}});
    model.ints("steps", {0, 1, 2});
    model.ints("column", {3, 1});
    model.node("Add", {"position", "steps"}, {"rows"});
    model.node("Reshape", {"rows", "column"}, {"tuples"});
    model.node("ScatterND", {"past", "tuples", "x"}, {"present"});
    model.node("Neg", {"present"}, {"y"});
    model.output("y").output("present");
  };
  for (const Model& make : {elements, nd}) {
    expect_same(make, {{"past", "present"}}, {0, 4, 7, -3}, 18);
    const Compiled made = compile(make, {{"past", "present"}}, 18);
    EXPECT_TRUE(std::ranges::none_of(made.manifest.entries[0].buffers,
                                     [](const format::Buffer& b) { return b.place == format::Place::kState; }));
    EXPECT_THROW(Session::load_memory(artefact_bytes(made), {})
                     .run(inputs_of(Session::load_memory(artefact_bytes(made), {}), 10)),
                 artefact::RuntimeFailure);
  }
}

// What was there is read after it has changed: the copy comes behind.
TEST(Cache, ThatIsReadAsItWasIsCopied) {
  const Model both = [](ModelBuilder& model) {
    model.input("x", {int64_t{2}, int64_t{1}, int64_t{8}});
    model.input("position", {int64_t{2}}, onnx::TensorProto::INT64);
    model.input("past", {int64_t{2}, int64_t{10}, int64_t{8}});
    model.node("TensorScatter", {"past", "x", "position"}, {"present"});
    model.node("Sub", {"present", "past"}, {"y"});
    model.output("y").output("present");
  };
  expect_same(both, {{"past", "present"}}, {0, 9}, 24);
  expect_verified(both, {{"past", "present"}}, 24);
}

// Its own rows move on by one: none is read when it has changed, whether they are read as they are or as a view.
TEST(Cache, RowsOfItsOwnAreReadBeforeTheyChange) {
  for (const bool view : {false, true}) {
    const Model shift = [view](ModelBuilder& model) {
      model.input("x", {int64_t{1}, int64_t{10}, int64_t{8}});
      model.input("position", {int64_t{1}}, onnx::TensorProto::INT64);
      model.input("past", {int64_t{1}, int64_t{10}, int64_t{8}});
      model.ints("first", {0});
      model.ints("last", {6});
      model.ints("axis", {view ? 0 : 1});
      if (view) set_ints(model.node("Transpose", {"past"}, {"turned"}), "perm", {1, 0, 2});
      model.node("Slice", {view ? "turned" : "past", "first", "last", "axis"}, {"part"});
      if (view) set_ints(model.node("Transpose", {"part"}, {"moved"}), "perm", {1, 0, 2});
      set_int(model.node("TensorScatter", {"past", view ? "moved" : "part", "position"}, {"present"}), "axis", 1);
      model.node("Add", {"present", "x"}, {"y"});
      model.output("y").output("present");
    };
    expect_same(shift, {{"past", "present"}}, {1, 2}, 24);
  }
}

// ---- Concatenations.

// Attention of `tokens` new tokens to `past` earlier ones, which the model concatenates.
Model growing(const tw::testing::Dim& past, int64_t tokens, bool causal = false) {
  return [past, tokens, causal](ModelBuilder& model) {
    const std::vector<tw::testing::Dim> cache = {int64_t{1}, kHeads, past, kHead};
    for (const char* part : {"q", "k", "v"}) model.input(part, {int64_t{1}, kHeads, tokens, kHead});
    model.input("past_k", cache).input("past_v", cache);
    onnx::NodeProto& node =
        model.node("Attention", {"q", "k", "v", "", "past_k", "past_v"}, {"y", "present_k", "present_v"});
    if (causal) set_int(node, "is_causal", 1);
    model.output("y").output("present_k").output("present_v");
  };
}

frontend::ImportResult import_growing(const Model& make, int64_t past, int64_t opset) {
  ModelBuilder model(opset);
  make(model);
  return frontend::import_onnx_bytes(model.bytes(), "", ops::all_ops(), {{}, {{"past", past}}, {}});
}

Compiled compile_growing(const Model& make, int64_t past, int64_t opset = 24, CompileOptions options = {}) {
  options.states = kCaches;
  options.imports = {{{}, {{"past", past}}, {}}};
  return compile_imported({import_growing(make, past, opset)}, options);
}

// The first `rows` of [1, heads, extent, head], in which each head has `extent` of them.
Array first_rows(const Array& cache, int64_t rows) {
  Array out{{cache.type.type, {1, kHeads, rows, kHead}}, {}};
  const int64_t line = kHead * 4, extent = cache.type.shape[2];
  for (int64_t h = 0; h < kHeads; ++h) {
    const auto from = cache.bytes.begin() + h * extent * line;
    out.bytes.insert(out.bytes.end(), from, from + rows * line);
  }
  return out;
}

double largest_difference(const Array& a, const Array& b) {
  const graph::RefTensor x = artefact::to_reference(a), y = artefact::to_reference(b);
  double largest = x.floats.size() == y.floats.size() ? 0 : 1e30;
  for (size_t i = 0; i < std::min(x.floats.size(), y.floats.size()); ++i)
    largest = std::max(largest, std::abs(x.floats[i] - y.floats[i]));
  return largest;
}

// One artefact of one capacity gives what the model gives for every length.
TEST(Cache, ThatGrowsHasOneCapacity) {
  constexpr int64_t kPast = 31;
  const Model any = growing(std::string("past"), 1);
  const Compiled made = compile_growing(any, kPast);
  Session with = Session::load_memory(artefact_bytes(made), {});
  ASSERT_EQ(with.inputs().size(), 6u);
  EXPECT_EQ(with.inputs()[3].name, "past_k_length");
  EXPECT_EQ(with.states()[0].type.shape, (Shape{1, kHeads, kPast + 1, kHead}));
  for (const int64_t length : {1, 2, 17, 31}) {
    const std::vector<Array> inputs = inputs_of(with, length);
    const std::vector<Array> got = with.run(inputs);
    const Model exact = growing(length, 1);
    const std::vector<Array> want =
        Session::load_memory(artefact_bytes(compile(exact, {}, 24)), {})
            .run({inputs[0], inputs[1], inputs[2], first_rows(inputs[4], length), first_rows(inputs[5], length)});
    EXPECT_LT(largest_difference(got[0], want[0]), 2e-6) << length;
    for (const size_t k : {1, 2}) EXPECT_EQ(first_rows(got[k], length + 1).bytes, want[k].bytes) << length;
  }
  for (const format::Buffer& b : made.manifest.entries[0].buffers) EXPECT_NE(b.place, format::Place::kState) << b.name;
}

TEST(Cache, ThatGrowsFromNothing) {
  Session session = Session::load_memory(artefact_bytes(compile_growing(growing(std::string("past"), 1), 7)), {});
  std::vector<Array> inputs = inputs_of(session, 0);
  const std::vector<Array> got = session.run(inputs);
  EXPECT_LT(largest_difference(got[0], inputs[2]), 1e-6) << "attention to one token is its value";
  EXPECT_THROW(session.run(inputs_of(session, 8)), artefact::RuntimeFailure);
}

void expect_unsupported(const std::function<void()>& call, const std::string& words) {
  try {
    call();
    ADD_FAILURE() << "taken: " << words;
  } catch (const Unsupported& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

// Two tokens at once, the first of which does not see the second: the model says by its length where that begins.
TEST(Cache, WhoseLengthTheModelComputesWithIsRefused) {
  EXPECT_NO_THROW(compile_growing(growing(std::string("past"), 1, true), 15));
  EXPECT_NO_THROW(compile_growing(growing(std::string("past"), 2), 15));
  expect_unsupported([] { compile_growing(growing(std::string("past"), 2, true), 15); }, "computes with its length");
  expect_unsupported([] { compile(growing(int64_t{15}, 1), kCaches, 24); },
                     "not a dimension that --dim or --shape gives");
}

TEST(Cache, WhoseRowsMixIsRefused) {
  const Model largest = [](ModelBuilder& model) {
    model.input("x", {int64_t{1}, int64_t{8}}).input("past_k", {std::string("past"), int64_t{8}});
    model.input("v", {int64_t{1}, int64_t{8}}).input("past_v", {std::string("past"), int64_t{8}});
    set_int(model.node("Concat", {"past_k", "x"}, {"present_k"}), "axis", 0);
    set_int(model.node("Concat", {"past_v", "v"}, {"present_v"}), "axis", 0);
    set_int(model.node("ArgMax", {"present_k"}, {"y"}), "axis", 0);
    model.output("y", onnx::TensorProto::INT64).output("present_k").output("present_v");
  };
  expect_unsupported([&] { compile_growing(largest, 15, 17); }, "node_y");
  const Model shown = [](ModelBuilder& model) {
    model.input("x", {int64_t{1}, int64_t{8}}).input("past_k", {std::string("past"), int64_t{8}});
    model.input("v", {int64_t{1}, int64_t{8}}).input("past_v", {std::string("past"), int64_t{8}});
    set_int(model.node("Concat", {"past_k", "x"}, {"present_k"}), "axis", 0);
    set_int(model.node("Concat", {"past_v", "v"}, {"present_v"}), "axis", 0);
    model.node("Neg", {"present_k"}, {"y"});
    model.output("y").output("present_k").output("present_v");
  };
  expect_unsupported([&] { compile_growing(shown, 15, 17); }, "output 'y' has rows");
}

// Sums, and a softmax that is spelled out, leave out rows that hold nothing.
TEST(Cache, RowsThatHoldNothingAreLeftOut) {
  const Model spelled = [](ModelBuilder& model) {
    model.input("x", {int64_t{1}, int64_t{8}}).input("past_k", {std::string("past"), int64_t{8}});
    model.input("v", {int64_t{1}, int64_t{8}}).input("past_v", {std::string("past"), int64_t{8}});
    set_int(model.node("Concat", {"past_k", "x"}, {"present_k"}), "axis", 0);
    set_int(model.node("Concat", {"past_v", "v"}, {"present_v"}), "axis", 0);
    set_ints(model.node("Transpose", {"present_k"}, {"kt"}), "perm", {1, 0});
    model.node("MatMul", {"x", "kt"}, {"s"});
    model.node("Exp", {"s"}, {"e"});
    set_ints(model.node("ReduceMax", {"e"}, {"m"}), "axes", {1});
    model.ints("rows", {1});
    model.node("ReduceSum", {"e", "rows"}, {"sum"});
    model.node("Div", {"e", "sum"}, {"p"});
    model.node("MatMul", {"p", "present_v"}, {"o"});
    model.node("Add", {"o", "m"}, {"y"});
    model.output("y").output("present_k").output("present_v");
  };
  constexpr int64_t kPast = 13;
  Session with = Session::load_memory(artefact_bytes(compile_growing(spelled, kPast, 17)), {});
  for (const int64_t length : {1, 6, 13}) {
    std::vector<Array> inputs = inputs_of(with, length);
    std::vector<Array> exact = {inputs[0], inputs[3], inputs[1], inputs[4]};
    for (const size_t k : {1, 3}) {
      exact[k].bytes.resize(static_cast<size_t>(length) * 8 * 4);
      exact[k].type.shape[0] = length;
    }
    CompileOptions options;
    options.imports = {{{}, {{"past", length}}, {}}};
    Session without =
        Session::load_memory(artefact_bytes(compile_imported({import_growing(spelled, length, 17)}, options)), {});
    EXPECT_LT(largest_difference(with.run(inputs)[0], without.run(exact)[0]), 2e-6) << length;
  }
}

// ---- What may be said of it.

TEST(State, BeginsAsItIsTold) {
  graph::RefTensor initial = graph::RefTensor::zeros({DataType::f32(), {5, 33}});
  initial.floats[4] = 2.5;
  const Compiled made = compile(counter("total"), {{"total", "total.next", InitialValue(initial)}});
  const Session session = Session::load_memory(artefact_bytes(made), {});
  EXPECT_EQ(artefact::to_reference(session.initial_states()[0]).floats, initial.floats);
  EXPECT_FALSE(compile(counter("total"), {{"total", "total.next"}}).sections.contains("states"));
}

TEST(State, WrongPairsAreRefused) {
  const auto refused = [](const States& states, const std::string& words) {
    try {
      compile(cell, states);
      ADD_FAILURE() << "taken: " << words;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refused({{"g", "h.next"}}, "no input 'g'; it has x, h");
  refused({{"h", "g"}}, "no output 'g'; it has y, h.next");
  refused({{"x", "h.next"}}, "the input is f32[2,24], the output f32[2,40]");
  refused({{"h", "h.next"}, {"h", "y"}}, "one of them is part of another state");
  refused({{"h", "h.next", InitialValue(graph::RefTensor::zeros({DataType::f32(), {2}}))}},
          "the initial value is f32[2]");
}

TEST(State, LevelsAndPlansHaveIt) {
  CompileOptions options;
  options.target = "cpu:x86-64-v4,cpu:x86-64-v3,cpu:x86-64";
  expect_same(cell, {{"h", "h.next"}}, {0}, 17, options);
  const Compiled first = compile(decoder(1), kCaches, 24, options);
  options.plan_text = plan::to_string(first.plan);
  EXPECT_EQ(artefact_bytes(compile(decoder(1), kCaches, 24, options)), artefact_bytes(first));
}

TEST(State, WithoutPasses) {
  CompileOptions options;
  options.all_optional_off = true;
  expect_same(counter("total"), {{"total", "total.next"}}, {0}, 17, options);
  expect_same(cell, {{"h", "h.next"}}, {0}, 17, options);
  expect_same(decoder(1), kCaches, {2}, 24, options);
}

// States stay when weights are others.
TEST(State, IsLeftByARefit) {
  graph::RefTensor initial = graph::RefTensor::zeros({DataType::f32(), {2, 40}});
  initial.floats[4] = 2.5;
  const States states = {{"h", "h.next", InitialValue(initial)}};
  const Compiled first = compile(cell, states);
  const Model other = [](ModelBuilder& model) {
    cell(model);
    for (onnx::TensorProto& w : *model.graph().mutable_initializer()) {
      for (float& x : *w.mutable_float_data()) x = 0.5F * x + 0.01F;
    }
  };
  CompileOptions options;
  options.plan_text = plan::to_string(first.plan);
  ModelBuilder model;
  other(model);
  auto weights = std::make_shared<frontend::Weights>();
  for (const onnx::TensorProto& w : model.graph().initializer()) {
    const auto* bytes = reinterpret_cast<const std::byte*>(w.float_data().data());
    weights->emplace(
        w.name(), frontend::Weight{{DataType::f32(), {w.dims().begin(), w.dims().end()}},
                                   share(std::vector<std::byte>(bytes, bytes + w.float_data_size() * sizeof(float)))});
  }
  const std::vector<uint8_t> artefact = artefact_bytes(first);
  const Refitted made = refit(artefact, weights);
  EXPECT_EQ(format::serialize_artefact(made.manifest, made.sections()),
            artefact_bytes(compile(other, states, 17, options)));
}

}  // namespace
}  // namespace tw::driver::test
