// States and loops: first values, rows and stacks that the artefact keeps.
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
using graph::test::cell_body;
using graph::test::f32;
using graph::test::last_of;
using graph::test::turns_of;

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

TEST(LoopStates, AStateIsCarriedOnByALoop) {
  for (const bool plain : {false, true}) {
    CompileOptions options;
    options.all_optional_off = plain;
    expect_same_with_state(with_state("last"), options);
  }
}

// Rows are read and written in the storage of one state.
TEST(LoopStates, AStateIsScannedAndStackedByALoop) {
  for (const bool plain : {false, true}) {
    CompileOptions options;
    options.all_optional_off = plain;
    expect_same_with_state(with_state("stack"), options);
  }
}

}  // namespace
}  // namespace tw::driver::test
