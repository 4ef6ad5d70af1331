// Several combinations of shapes in one artefact: chosen by the inputs, with weights and equal code stored once.
#include <gtest/gtest.h>

#include "artefact/session.h"
#include "artefact/verify.h"
#include "ops/list.h"
#include "support/error.h"
#include "tests/driver/random_model.h"

namespace tw::driver::test {
namespace {

// y[batch, 31] = relu(x[batch, 40] w[40, 31])
graph::Graph dense(int64_t batch) {
  const graph::OpTable ops = ops::all_ops();
  graph::Graph g;
  graph::RefTensor w = graph::RefTensor::zeros({DataType::f32(), {40, 31}});
  for (size_t i = 0; i < w.floats.size(); ++i) w.floats[i] = static_cast<double>((i * 7) % 11) / 16 - 0.3125;
  const graph::ValueId x = g.add_input("x", {DataType::f32(), {batch, 40}});
  const graph::ValueId weights = g.add_constant("w", w.type, share(w.to_bytes()));
  graph::Node product;
  product.op = product.name = "matmul";
  product.inputs = {x, weights};
  graph::Node relu;
  relu.op = relu.name = "relu";
  relu.inputs = graph::append_node(g, ops, std::move(product));
  g.outputs = graph::append_node(g, ops, std::move(relu));
  return g;
}

Compiled compile(const std::vector<int64_t>& batches, const CompileOptions& options = {}) {
  std::vector<frontend::ImportResult> models(batches.size());
  for (size_t i = 0; i < batches.size(); ++i) models[i].graph = dense(batches[i]);
  return compile_imported(models, options);
}

TEST(Entries, TheInputsChooseTheEntry) {
  const std::vector<uint8_t> artefact = artefact_bytes(compile({1, 5}));
  artefact::Session session = artefact::Session::load_memory(artefact, {});
  EXPECT_EQ(session.entries(), (std::vector<std::string>{"x:1x40", "x:5x40"}));
  for (const int64_t batch : {5, 1, 5}) {
    const std::vector<artefact::Array> inputs = random_arrays(dense(batch), 3);
    const std::vector<artefact::Array> want =
        artefact::Session::load_memory(artefact_bytes(compile({batch})), {}).run(inputs);
    EXPECT_EQ(session.run(inputs)[0].bytes, want[0].bytes) << "batch " << batch;
  }
}

TEST(Entries, AnotherShapeIsRefusedNamingThose) {
  artefact::Session session = artefact::Session::load_memory(artefact_bytes(compile({1, 5})), {});
  try {
    session.run(random_arrays(dense(2), 3));
    FAIL() << "a shape that was not compiled has run";
  } catch (const artefact::RuntimeFailure& failure) {
    EXPECT_EQ(failure.exit_code(), 2);
    EXPECT_NE(std::string(failure.what()).find("[5,40]"), std::string::npos) << failure.what();
  }
}

TEST(Entries, WeightsAreStoredOnce) {
  const size_t one = compile({5}).sections.at("weights").size();
  EXPECT_EQ(compile({5, 6, 7}).sections.at("weights").size(), one);
}

TEST(Entries, AnEntryIsCheckedAgainstItsOwnGraph) {
  const std::vector<uint8_t> artefact = artefact_bytes(compile({1, 5}));
  for (const int64_t batch : {1, 5}) {
    const artefact::VerifyReport report =
        artefact::verify_artefact(artefact, nullptr, random_arrays(dense(batch), 4), {});
    EXPECT_TRUE(report.ok());
    EXPECT_EQ(report.entry, fmt::format("x:{}x40", batch));
    EXPECT_GT(report.outputs.at(0).bound, 0);
  }
}

TEST(Entries, APlanReplaysAllAndOnlyThem) {
  const Compiled first = compile({1, 5});
  CompileOptions replay;
  replay.plan_text = plan::to_string(first.plan);
  EXPECT_EQ(artefact_bytes(compile({1, 5}, replay)), artefact_bytes(first));
  EXPECT_THROW(compile({1}, replay), UsageError);
}

TEST(Entries, TheSameShapesTwiceAreRefused) { EXPECT_THROW(compile({5, 5}), UsageError); }

}  // namespace
}  // namespace tw::driver::test
