// Equal inputs give equal bytes, and equal bits for any number of threads.
#include <gtest/gtest.h>

#include <thread>

#include "artefact/session.h"
#include "plan/plan.h"
#include "tests/driver/small_model.h"

namespace tw::driver::test {
namespace {

TEST(Determinism, TwoCompilesGiveTheSameBytes) {
  EXPECT_EQ(artefact_bytes(compile_graph(small_model(), {})), artefact_bytes(compile_graph(small_model(), {})));
  CompileOptions one_thread;
  one_thread.threads = 1;
  EXPECT_EQ(artefact_bytes(compile_graph(small_model(), one_thread)), artefact_bytes(compile_graph(small_model(), {})));
}

TEST(Determinism, APlanReplaysToTheSameBytes) {
  const Compiled first = compile_graph(small_model(), {});
  CompileOptions replay;
  replay.plan_text = plan::to_string(first.plan);
  EXPECT_EQ(artefact_bytes(compile_graph(small_model(), replay)), artefact_bytes(first));
}

TEST(Determinism, APlanOfAnotherModelIsRefused) {
  const graph::OpTable ops = ops::all_ops();
  graph::Graph other;
  const graph::ValueId x = other.add_input("x", {DataType::f32(), {3}});
  graph::Node relu;
  relu.op = relu.name = "relu";
  relu.inputs = {x};
  other.outputs = graph::append_node(other, ops, std::move(relu));
  CompileOptions replay;
  replay.plan_text = plan::to_string(compile_graph(other, {}).plan);
  EXPECT_THROW(compile_graph(small_model(), replay), UsageError);
}

TEST(Determinism, AnyNumberOfThreadsGivesTheSameBits) {
  const graph::Graph model = small_model();
  const std::vector<uint8_t> artefact = artefact_bytes(compile_graph(model, {}));
  const std::vector<artefact::Array> inputs = random_arrays(model, 7);
  const std::vector<artefact::Array> want = artefact::Session::load_memory(artefact, {1, false}).run(inputs);
  for (const int threads : {2, 3}) {
    EXPECT_EQ(artefact::Session::load_memory(artefact, {threads, false}).run(inputs)[0].bytes, want[0].bytes)
        << threads << " threads";
  }
}

TEST(Determinism, SessionsInManyThreadsGiveTheSameBits) {
  const graph::Graph model = small_model();
  const std::vector<uint8_t> artefact = artefact_bytes(compile_graph(model, {}));
  const std::vector<artefact::Array> inputs = random_arrays(model, 7);
  const std::vector<artefact::Array> want = artefact::Session::load_memory(artefact, {1, false}).run(inputs);
  constexpr size_t kThreads = 5;
  std::vector<int> different(kThreads, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      artefact::Session session = artefact::Session::load_memory(artefact, {static_cast<int>(t % 3), false});
      for (int i = 0; i < 50; ++i) different[t] += session.run(inputs)[0].bytes != want[0].bytes;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(different, std::vector<int>(kThreads, 0));
}

}  // namespace
}  // namespace tw::driver::test
