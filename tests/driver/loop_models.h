// Models with loops, compiled and checked.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "artefact/verify.h"
#include "driver/compile.h"
#include "tests/driver/random_model.h"
#include "tests/graph/loops.h"

namespace tw::driver::test {

/// What is wrong, value by value; empty where all is right.
inline std::string faults(const artefact::VerifyReport& report) {
  std::string text;
  const auto add = [&](const std::string& where, const WorstElement& w) {
    if (!w.ok())
      text += fmt::format("{}: {}[{}] is {}, not {} within {}\n", where, w.tensor, w.index, w.got, w.want, w.bound);
  };
  for (const artefact::GroupCheck& group : report.groups) {
    for (const WorstElement& w : group.outputs) add(group.group, w);
  }
  for (const WorstElement& w : report.outputs) add("end to end", w);
  if (!report.same_bits_for_threads) text += "other bits for other numbers of threads\n";
  if (!report.same_bits_apart) text += "other bits where values share memory\n";
  return text;
}

/// Right as compiled with the options, and without optional passes: loops of few turns are loops there, too.
inline void expect_right(const graph::Graph& g, CompileOptions options = {}) {
  graph::verify(g, graph::test::table());
  for (const bool plain : {false, true}) {
    SCOPED_TRACE(plain ? "plain" : "optimized");
    options.all_optional_off = plain;
    const artefact::VerifyReport report = artefact::verify_graph(g, options, random_arrays(g, 1), {});
    EXPECT_TRUE(report.ok()) << faults(report);
  }
}

/// How many repeats the entry has.
inline size_t repeats(const Compiled& made, size_t entry = 0) { return made.manifest.entries.at(entry).repeats.size(); }

/// A constant whose elements lie around 0.
inline graph::ValueId weight(graph::Graph& g, const std::string& name, Shape shape) {
  graph::RefTensor t = graph::RefTensor::zeros({DataType::f32(), std::move(shape)});
  for (size_t i = 0; i < t.floats.size(); ++i)
    t.floats[i] = static_cast<double>((i * 7 + name.size()) % 13) / 32 - 0.1875;
  return g.add_constant(name, t.type, share(t.to_bytes()));
}

/// h = z h + (1 - z) tanh(x + c u) and c = c + h of [batch, n], both carried, with z = sigmoid(x + h w): products with
/// constants, as a GRU has them.
inline graph::Graph gated_body(int64_t batch, int64_t n) {
  using graph::test::add;
  graph::Graph g;
  g.name = "gated";
  const TensorType row{DataType::f32(), {batch, n}};
  const auto h = g.add_input("h", row), c = g.add_input("c", row), x = g.add_input("x", row);
  const auto w = g.add_input("w", {DataType::f32(), {n, n}}), u = g.add_input("u", {DataType::f32(), {n, n}});
  const auto z = add(g, "sigmoid", {add(g, "add", {x, add(g, "matmul", {h, w})})}, {}, "z");
  const auto candidate = add(g, "tanh", {add(g, "add", {x, add(g, "matmul", {c, u})})}, {}, "candidate");
  const auto kept = add(g, "mul", {z, h}),
             fresh = add(g, "mul", {add(g, "sub", {candidate, add(g, "mul", {z, candidate})}), c});
  const auto next = add(g, "add", {kept, fresh}, {}, "next");
  g.outputs = {next, add(g, "tanh", {add(g, "add", {c, next})})};
  return g;
}

struct Gated {
  int64_t turns = 12, batch = 2, n = 17;
  bool backwards = false;
};
inline graph::Graph gated_model(const Gated& of) {
  graph::Graph g;
  g.name = "gated";
  const TensorType row{DataType::f32(), {of.batch, of.n}};
  const auto h = g.add_input("h0", row), c = g.add_input("c0", row),
             x = g.add_input("x", {DataType::f32(), {of.turns, of.batch, of.n}});
  graph::Repeat repeat = graph::test::turns_of(of.turns, 2, 1, 0);
  repeat.rows[0] = of.turns;
  repeat.inputs_backwards = {of.backwards ? 1 : 0};
  repeat.outputs_backwards = {of.backwards ? 1 : 0, 0};
  const auto made = graph::test::add_loop(
      g, gated_body(of.batch, of.n), {h, c, x, weight(g, "w", {of.n, of.n}), weight(g, "uu", {of.n, of.n})}, repeat);
  g.outputs = {made[0], graph::test::last_of(g, made, repeat, 1)};
  return g;
}

}  // namespace tw::driver::test
