// An index that is checked at run time in a turn of a loop.
#include <gtest/gtest.h>

#include "artefact/session.h"
#include "tests/driver/loop_models.h"

namespace tw::driver::test {
namespace {

using graph::Graph;
using graph::Repeat;
using graph::ValueId;
using graph::test::add;
using graph::test::add_loop;
using graph::test::f32;
using graph::test::last_of;
using graph::test::turns_of;

// Each turn takes a row of the table by its number.
Graph lookups() {
  Graph body;
  const ValueId h = body.add_input("h", f32({3})), index = body.add_input("i", {DataType::i64(), {}}),
                table = body.add_input("table", f32({5, 3}));
  body.outputs = {add(body, "add", {h, add(body, "gather", {table, index}, {{"axis", int64_t{0}}}, "lookup")})};
  Graph g;
  const Repeat repeat = turns_of(9, 1, 1, 0);
  const ValueId h0 = g.add_input("h", f32({3})), indices = g.add_input("i", {DataType::i64(), {9}}),
                rows = g.add_input("table", f32({5, 3}));
  g.outputs = {last_of(g, add_loop(g, body, {h0, indices, rows}, repeat), repeat)};
  return g;
}

// The same in a loop of ten turns, which looks up a row of its own; and once outside of both.
Graph lookups_within() {
  const Graph inner = lookups();
  const TensorType places{DataType::i64(), {9}};
  Graph body;
  const ValueId s = body.add_input("s", f32({3})), index = body.add_input("k", {DataType::i64(), {}}),
                table = body.add_input("t", f32({5, 3})), indices = body.add_input("is", places);
  const Repeat repeat = turns_of(9, 1, 1, 0);
  const ValueId row = add(body, "gather", {table, index}, {{"axis", int64_t{0}}}, "outer lookup");
  const std::vector<ValueId> made = add_loop(body, *inner.nodes[0].body, {row, indices, table}, repeat, "inner");
  body.outputs = {add(body, "add", {s, last_of(body, made, repeat)})};
  Graph g;
  const ValueId s0 = g.add_input("s", f32({3})), inside = g.add_input("i", places),
                outer = g.add_input("k", {DataType::i64(), {10}}), rows = g.add_input("table", f32({5, 3}));
  const Repeat turns = turns_of(10, 1, 1, 0);
  g.outputs = {last_of(g, add_loop(g, body, {s0, outer, rows, inside}, turns), turns),
               add(g, "gather", {rows, inside}, {{"axis", int64_t{0}}}, "outside")};
  return g;
}

// What a run says with index 5 at `place` of input `input`.
std::string said(artefact::Session& session, const Graph& g, size_t input, size_t place) {
  std::vector<artefact::Array> inputs = random_arrays(g, 1);
  graph::RefTensor indices = artefact::to_reference(inputs[input]);
  indices.ints[place] = 5;
  inputs[input] = artefact::to_array(indices);
  try {
    session.run(inputs);
  } catch (const artefact::RuntimeFailure& failure) {
    EXPECT_EQ(failure.exit_code(), 2);
    EXPECT_NO_THROW(session.run(random_arrays(g, 1))) << "the next run is a run of its own";
    return failure.what();
  }
  return "nothing";
}

artefact::Session session_of(const Graph& g, bool plain) {
  CompileOptions options;
  options.all_optional_off = plain;
  return artefact::Session::load_memory(artefact_bytes(compile_graph(g, options)), {});
}

TEST(LoopErrors, AWrongIndexInATurnFailsTheRun) {
  expect_right(lookups());
  for (const bool plain : {false, true}) {
    artefact::Session session = session_of(lookups(), plain);
    EXPECT_EQ(session.outputs().size(), 1U);
    for (const size_t turn : {0, 4, 8}) {
      const std::string message = said(session, lookups(), 1, turn);
      EXPECT_NE(message.find("lookup"), std::string::npos) << message;
    }
  }
}

TEST(LoopErrors, AWrongIndexInATurnOfLoopsWithinLoopsDoesToo) {
  const Graph g = lookups_within();
  expect_right(g);
  for (const bool plain : {false, true}) {
    artefact::Session session = session_of(g, plain);
    EXPECT_EQ(session.outputs().size(), 2U);
    for (const size_t place : {0, 3, 8}) {
      EXPECT_NE(said(session, g, 1, place).find("lookup"), std::string::npos) << place;
      EXPECT_NE(said(session, g, 2, place).find("outer lookup"), std::string::npos) << place;
    }
  }
}

// Turns behind the wrong one store the word anew.
TEST(LoopErrors, AWrongIndexInAnEarlyTurnIsSaidToBeOne) {
  for (const bool plain : {false, true}) {
    artefact::Session session = session_of(lookups(), plain);
    for (const size_t turn : {0, 4, 8}) {
      const std::string message = said(session, lookups(), 1, turn);
      EXPECT_NE(message.find("out of range"), std::string::npos) << turn << ": " << message;
    }
  }
}

}  // namespace
}  // namespace tw::driver::test
