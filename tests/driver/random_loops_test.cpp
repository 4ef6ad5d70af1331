// Random graphs as bodies of loops: what they read is scanned, carried or the same in every turn, as it comes.
#include <gtest/gtest.h>

#include <random>

#include "support/join.h"
#include "tests/driver/loop_models.h"

namespace tw::driver::test {
namespace {

using graph::Graph;
using graph::Repeat;
using graph::ValueId;

// A body with its inputs in the order of a loop: carried ones, to which a part of themselves is added, first.
struct Body {
  Graph graph;
  Repeat repeat;
};

Body body_of(uint64_t seed) {
  std::mt19937_64 random(seed);
  Body out{random_model(graph::test::table(), seed), {}};
  Graph& g = out.graph;
  std::vector<ValueId> carried, scanned, same;
  for (const ValueId in : g.inputs) {
    const bool is_float = g.value(in).type.type.is_float();
    std::vector<ValueId>* const kinds[] = {&scanned, &same, &carried};
    kinds[random() % (is_float ? 3 : 2)]->push_back(in);
  }
  std::vector<ValueId> outputs;
  for (const ValueId in : carried) outputs.push_back(graph::test::add(g, "tanh", {graph::test::add(g, "neg", {in})}));
  out.repeat =
      graph::test::turns_of(static_cast<int64_t>(2 + random() % 14), carried.size(), scanned.size(), g.outputs.size());
  for (int64_t& backwards : out.repeat.inputs_backwards) backwards = static_cast<int64_t>(random() % 2);
  for (size_t j = 0; j < out.repeat.rows.size(); ++j) {
    if (random() % 2 == 0) out.repeat.rows[j] = out.repeat.turns;
    if (out.repeat.rows[j] == out.repeat.turns) out.repeat.outputs_backwards[j] = static_cast<int64_t>(random() % 2);
  }
  g.outputs = tw::joined(outputs, g.outputs);
  g.inputs = tw::joined(carried, scanned, same);
  return out;
}

Graph model_of(const Body& body) {
  Graph g;
  g.name = "random";
  std::vector<ValueId> inputs;
  for (size_t k = 0; k < body.graph.inputs.size(); ++k) {
    TensorType type = body.graph.value(body.graph.inputs[k]).type;
    const bool is_scanned = k >= body.repeat.carried && k < body.repeat.carried + body.repeat.scanned;
    if (is_scanned) type.shape.insert(type.shape.begin(), body.repeat.turns);
    inputs.push_back(g.add_input(fmt::format("in{}", k), type));
  }
  g.outputs = graph::test::add_loop(g, body.graph, inputs, body.repeat);
  return g;
}

class RandomLoops : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomLoops, AgreeWithTheReference) {
  for (uint64_t seed = 10 * GetParam(); seed < 10 * GetParam() + 10; ++seed) {
    const Graph g = model_of(body_of(seed));
    SCOPED_TRACE(fmt::format("seed {}", seed));
    expect_right(g);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLoops, ::testing::Range<uint64_t>(0, 6));

}  // namespace
}  // namespace tw::driver::test
