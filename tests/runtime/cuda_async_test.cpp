// Runs on a caller's stream, against the fake CUDA driver.
#ifdef TW_RUNTIME_CUDA
#include <functional>

#include "tests/runtime/cuda_fixture.h"

namespace tw::test {
namespace {

using format::ErrorCode;
namespace cuda = runtime::cuda;
using CudaAsync = CudaDevice;

cuda::StreamHandle stream_number(intptr_t number) { return reinterpret_cast<cuda::StreamHandle>(number); }

TEST_F(CudaAsync, AsyncRunsAreWorkOfTheGivenStream) {
  const auto model = load(scale_model(5));
  {
    const auto context = own_context(*model, {});
    fake.waits = 0;
    Vector<float> x(5, 2.0f), y(5);
    const DLTensor input = on_gpu(x), output = on_gpu(y);
    const auto calls_of = [&](const std::function<void()>& run) {
      fake.calls.clear();
      fake.following.clear();
      fake.graph_streams.clear();
      run();
      return fake.calls;
    };
    EXPECT_EQ(calls_of([&] { context->run_async(0, &input, &output, stream_number(7)); }), "ge");
    EXPECT_EQ(fake.graph_streams, std::vector{stream_number(7)});
    EXPECT_EQ(y.data, std::vector<float>(5, 30.0f));
    EXPECT_EQ(calls_of([&] { context->run_async(0, &input, &output, stream_number(7)); }), "ge") << "ordered already";
    EXPECT_EQ(calls_of([&] { context->run_async(0, &input, &output, stream_number(9)); }), "wge");
    EXPECT_EQ(fake.following, std::vector{stream_number(9)}) << "the memory of the context is the other run's";
    EXPECT_EQ(fake.waits, 0) << "of the host";
    EXPECT_EQ(calls_of([&] { context->run(0, &input, &output); }), "wg");
    EXPECT_EQ(fake.waits, 1);
    EXPECT_EQ(calls_of([&] { context->run_async(0, &input, &output, nullptr); }), "ge") << "nothing is under way";
  }
  EXPECT_EQ(fake.waits, 2) << "for the last run, whose memory goes with the context";
}

TEST_F(CudaAsync, AsyncRunsEndWithinTheCallWhereACallerMustLearnSomething) {
  const auto model = load(scale_model(5));
  const auto context = own_context(*model, {});
  fake.waits = 0;
  Vector<float> x(5, 2.0f), y(5);
  const DLTensor input = x.view(), output = on_gpu(y);
  fake.calls.clear();
  context->run_async(0, &input, &output, stream_number(7));
  EXPECT_EQ(fake.calls, "ewig") << "behind what the stream has, on the context's own";
  EXPECT_NE(fake.graph_streams.back(), stream_number(7));
  EXPECT_EQ(fake.following, fake.graph_streams);
  EXPECT_EQ(fake.waits, 1);
  EXPECT_EQ(y.data[0], 30.0f);
}

TEST_F(CudaAsync, AsyncRunsReportValuesThatAKernelRefuses) {
  const auto model = load(failing_model(5));
  const auto context = own_context(*model, {});
  fake.waits = 0;
  Vector<float> x(5), y(5);
  const DLTensor input = on_gpu(x), output = on_gpu(y);
  EXPECT_EQ(refusal([&] { context->run_async(0, &input, &output, stream_number(7)); }), ErrorCode::kInputValue);
  EXPECT_EQ(fake.waits, 1);
}

TEST_F(CudaAsync, AnAsyncRunThatFailsLeavesNothingUnderWay) {
  const auto model = load(scale_model(5));
  const auto context = own_context(*model, {});
  fake.waits = 0;
  Vector<float> x(5), y(5);
  const DLTensor input = on_gpu(x), output = on_gpu(y);
  fake.launch_result = 1;
  EXPECT_EQ(refusal([&] { context->run_async(0, &input, &output, stream_number(7)); }), ErrorCode::kDevice);
  EXPECT_EQ(fake.waits, 1) << "for what the stream has of it";
}

}  // namespace
}  // namespace tw::test
#endif
