// Running artefacts through the C interface: numbers, threads, entries, profile, buffers, errors of kernels.
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "runtime/device/cpu/program.h"
#include "runtime/thread_pool.h"
#include "tests/runtime/api_harness.h"

namespace tw {
namespace {

using test::api;
using test::SumCase;

TEST(Run, ComputesForEveryShapeAndThreadCount) {
  const auto model = test::load(test::sum_model({1, 2, 7, 13, 64, 1009}).file());
  for (const int threads : {1, 2, 0}) {
    const auto context = test::make_context(model.get(), test::options_with(threads));
    for (const int64_t n : {1009, 1, 64, 7, 2, 13}) {
      SumCase sum(n, threads);
      EXPECT_OK(sum.run(context.get()));
      EXPECT_EQ(sum.y.data, sum.expected()) << n << " elements, " << threads << " threads";
    }
  }
}

/// More threads than tiles, more than CPUs, uneven splits: the same bits as one thread gives.
TEST(Run, AnyTeamComputesTheSame) {
  const test::TestArtefact artefact = test::sum_model({1, 3, 13, 101});
  const runtime::CodeMap code(artefact.code);
  for (const format::Entry& entry : artefact.manifest.entries) {
    SumCase sum(entry.inputs[0].shape[0]);
    std::vector<uint8_t> arena(static_cast<size_t>(entry.arena_bytes)), weights = artefact.weights, scratch(64 * 8);
    int32_t error = 0;
    const runtime::CpuMemory memory{arena.data(), weights.data(), scratch.data(), 64, &error};
    runtime::CpuProgram program(artefact.manifest, entry, code, memory, runtime::CpuProgram::Profile::kOff);
    for (const int threads : {1, 2, 3, 5, 8}) {
      const DLTensor inputs[] = {sum.a.view(), sum.b.view()};
      const DLTensor output = sum.y.view();
      std::fill(sum.y.data.begin(), sum.y.data.end(), -1.0f);
      program.bind(inputs, &output);
      runtime::ThreadPool pool(threads);
      ASSERT_TRUE(pool.try_run(threads, program));
      EXPECT_EQ(sum.y.data, sum.expected()) << entry.name << " on " << threads;
    }
  }
}

TEST(Run, ByteOffsetsUnitStridesAndOddAddressesWork) {
  const auto model = test::load(test::sum_model({5}).file());
  const auto context = test::make_context(model.get(), test::options_with(0));
  SumCase sum(6);
  int64_t five = 5, stride = 1;
  DLTensor inputs[] = {sum.a.view(), sum.b.view()};
  DLTensor output = sum.y.view();
  for (DLTensor* tensor : {&inputs[0], &inputs[1], &output}) {
    tensor->shape = &five;
    tensor->strides = &stride;
    tensor->byte_offset = 4;  // now 4-byte aligned only
  }
  EXPECT_OK(api().run(context.get(), inputs, 2, &output, 1));
  EXPECT_EQ(sum.y.data[0], -1.0f);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(sum.y.data[1 + i], sum.a.data[5 - i] + sum.b.data[5 - i]);
}

TEST(Run, TheCallersFloatEnvironmentDoesNotChangeBits) {
  const auto model = test::load(test::sum_model({64}).file());
  const auto context = test::make_context(model.get(), test::options_with(0));
  SumCase sum(64);
  for (size_t i = 0; i < 64; ++i) sum.a.data[i] = 1e-40f, sum.b.data[i] = 2e-40f;  // denormals
  const unsigned flush_to_zero = _mm_getcsr() | 0x8040;
  const unsigned before = _mm_getcsr();
  _mm_setcsr(flush_to_zero);
  const test::Outcome outcome = sum.run(context.get());
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(outcome.code, TW_OK);
  EXPECT_EQ(after & 0x8040, flush_to_zero & 0x8040) << "the caller's own environment must come back";
  for (const float y : sum.y.data) EXPECT_EQ(std::fpclassify(y), FP_SUBNORMAL);
}

TEST(Run, SubnormalResultsAreZeroWhereTheArtefactSaysSo) {
  test::TestArtefact artefact = test::sum_model({64});
  artefact.manifest.flushes_subnormals = true;
  const auto flushing = test::load(artefact.file());
  const auto keeping = test::load(test::sum_model({64}).file());
  const auto first = test::make_context(flushing.get(), test::options_with(0));
  const auto second = test::make_context(keeping.get(), test::options_with(0));
  const unsigned before = _mm_getcsr();
  for (int i = 0; i < 3; ++i) {  // in turns on the same threads
    SumCase tiny(64), small(64);
    for (size_t j = 0; j < 64; ++j) {
      tiny.a.data[j] = small.a.data[j] = 1e-40f;
      tiny.b.data[j] = 2e-40f;
      small.b.data[j] = 2e-38f;
    }
    ASSERT_EQ(tiny.run(first.get()).code, TW_OK);
    for (const float y : tiny.y.data) EXPECT_EQ(y, 0.0f);
    ASSERT_EQ(small.run(first.get()).code, TW_OK);
    for (const float y : small.y.data) EXPECT_EQ(y, 1e-40f + 2e-38f) << "subnormal operands count";
    ASSERT_EQ(tiny.run(second.get()).code, TW_OK);
    for (const float y : tiny.y.data) EXPECT_EQ(std::fpclassify(y), FP_SUBNORMAL);
  }
  EXPECT_EQ(_mm_getcsr() & 0x8040, before & 0x8040);
}

TEST(Run, ManyThreadsWithAContextEach) {
  const auto model = test::load(test::sum_model({7, 301}).file());
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int c = 0; c < 6; ++c) {
    callers.emplace_back([&, c] {
      const auto context = test::make_context(model.get(), test::options_with(c % 2 == 0 ? 0 : 1));
      SumCase small(7, c), large(301, c);
      for (int i = 0; i < 200; ++i) {
        SumCase& sum = i % 3 == 0 ? small : large;
        std::fill(sum.y.data.begin(), sum.y.data.end(), -1.0f);
        if (sum.run(context.get()).code != TW_OK || sum.y.data != sum.expected()) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Run, AContextOutlivesItsModel) {
  auto model = test::load(test::sum_model({7}).file());
  const auto context = test::make_context(model.get(), test::options_with(0));
  model.reset();
  SumCase sum(7);
  EXPECT_OK(sum.run(context.get()));
  EXPECT_EQ(sum.y.data, sum.expected());
}

#if !defined(__SANITIZE_THREAD__)
TEST(Run, AForkedChildRunsToo) {
  const auto model = test::load(test::sum_model({301}).file());
  const auto context = test::make_context(model.get(), test::options_with(0));
  SumCase sum(301);
  EXPECT_OK(sum.run(context.get()));
  const pid_t child = fork();
  if (child == 0) {
    SumCase again(301, 5);
    const bool ok = again.run(context.get()).code == TW_OK && again.y.data == again.expected();
    _exit(ok ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

TEST(Run, AnIndexOutOfRangeIsAStatusAndTheNextRunIsClean) {
  const auto model = test::load(test::gather_model(5, 100).file());
  const auto context = test::make_context(model.get(), test::options_with(0));
  test::Vector<float> data(5), y(100);
  test::Vector<int64_t> index(100, 3);
  for (size_t i = 0; i < 5; ++i) data.data[i] = static_cast<float>(i);
  const DLTensor inputs[] = {data.view(), index.view()};
  const DLTensor output = y.view();
  for (const int64_t wrong : {int64_t{5}, int64_t{-1}, INT64_MIN}) {
    index.data[77] = wrong;
    const test::Outcome outcome = api().run(context.get(), inputs, 2, &output, 1);
    EXPECT_EQ(outcome.code, TW_ERROR_INPUT_VALUE);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_NE(outcome.message.find("'pick'"), std::string::npos) << outcome.message;
    index.data[77] = 4;
    EXPECT_OK(api().run(context.get(), inputs, 2, &output, 1));
    EXPECT_EQ(y.data[77], 4.0f);
    EXPECT_EQ(y.data[76], 3.0f);
  }
}

TEST(Run, ProfileNamesAndTimesEverySteps) {
  const auto model = test::load(test::sum_model({1009}).file());
  const auto plain = test::make_context(model.get(), test::options_with(0));
  const auto timed = test::make_context(model.get(), test::options_with(0, 1));
  SumCase sum(1009);
  size_t count = 0;
  TwStepTime steps[4] = {};
  EXPECT_FAILS(api().last_profile(timed.get(), steps, 4, &count), TW_ERROR_INVALID_ARGUMENT, "profile");
  EXPECT_OK(sum.run(plain.get()));
  EXPECT_FAILS(api().last_profile(plain.get(), steps, 4, &count), TW_ERROR_INVALID_ARGUMENT, "profile");
  std::fill(sum.y.data.begin(), sum.y.data.end(), -1.0f);
  EXPECT_OK(sum.run(timed.get()));
  EXPECT_EQ(sum.y.data, sum.expected());
  EXPECT_OK(api().last_profile(timed.get(), steps, 4, &count));
  ASSERT_EQ(count, 2u);
  EXPECT_STREQ(steps[0].name, "sum");
  EXPECT_STREQ(steps[1].name, "flip");
  for (int i = 0; i < 2; ++i) {
    EXPECT_GT(steps[i].ns, 0u);
    EXPECT_LT(steps[i].ns, 1'000'000'000u);
  }
}

TEST(Run, MeasuringTimesEveryRunAndComputes) {
  const auto model = test::load(test::sum_model({7, 1009}).file());
  const auto context = test::make_context(model.get(), test::options_with(0));
  SumCase sum(1009);
  const DLTensor inputs[] = {sum.a.view(), sum.b.view()};
  const DLTensor output = sum.y.view();
  uint64_t times[20] = {};
  EXPECT_OK(api().measure_entry(context.get(), 1, inputs, &output, times, 20));
  EXPECT_EQ(sum.y.data, sum.expected());
  for (const uint64_t ns : times) {
    EXPECT_GT(ns, 0u);
    EXPECT_LT(ns, 1'000'000'000u);
  }
  EXPECT_FAILS(api().measure_entry(context.get(), 0, inputs, &output, times, 20), TW_ERROR_INVALID_ARGUMENT, "[7]");
  EXPECT_FAILS(api().measure_entry(context.get(), 1, inputs, &output, times, 0), TW_ERROR_INVALID_ARGUMENT, "count");
  EXPECT_FAILS(api().measure_entry(context.get(), 1, inputs, &output, nullptr, 1), TW_ERROR_INVALID_ARGUMENT, "null");
}

TEST(Run, AnAsyncRunOnACpuHasEndedWhenItReturns) {
  const auto model = test::load(test::sum_model({7, 1009}).file());
  const auto context = test::make_context(model.get(), test::options_with(0));
  SumCase sum(1009);
  const DLTensor inputs[] = {sum.a.view(), sum.b.view()};
  const DLTensor output = sum.y.view();
  int no_stream = 0;
  EXPECT_OK(api().run_async(context.get(), 1, inputs, &output, &no_stream));
  EXPECT_EQ(sum.y.data, sum.expected());
  EXPECT_OK(api().run_async(context.get(), 1, inputs, &output, nullptr));
  EXPECT_FAILS(api().run_async(context.get(), 0, inputs, &output, nullptr), TW_ERROR_INVALID_ARGUMENT, "[7]");
  EXPECT_FAILS(api().run_async(context.get(), 2, inputs, &output, nullptr), TW_ERROR_INVALID_ARGUMENT, "no entry 2");
  EXPECT_FAILS(api().run_async(nullptr, 0, inputs, &output, nullptr), TW_ERROR_INVALID_ARGUMENT, "null");
}

TEST(Run, BuffersOfTheLastRunCanBeRead) {
  const auto model = test::load(test::sum_model({7, 13}).file());
  const auto context = test::make_context(model.get(), test::options_with(0));
  ASSERT_EQ(api().buffer_count(model.get(), 1), 5);
  TwBufferInfo info{};
  info.struct_size = sizeof(info);
  EXPECT_OK(api().buffer_info(model.get(), 1, 2, &info));
  EXPECT_STREQ(info.name, "sum");
  EXPECT_EQ(info.bytes, 13 * 4u);
  EXPECT_NE(info.readable, 0);
  std::vector<float> values(13);
  EXPECT_FAILS(api().read_buffer(context.get(), 2, values.data(), 52), TW_ERROR_INVALID_ARGUMENT, "run before");
  SumCase sum(13);
  EXPECT_OK(sum.run(context.get()));
  EXPECT_OK(api().read_buffer(context.get(), 2, values.data(), 52));
  std::reverse(values.begin(), values.end());
  EXPECT_EQ(values, sum.expected());
  int64_t n = 0;
  EXPECT_OK(api().read_buffer(context.get(), 4, &n, sizeof(n)));
  EXPECT_EQ(n, 13);
  EXPECT_FAILS(api().read_buffer(context.get(), 0, values.data(), 52), TW_ERROR_INVALID_ARGUMENT, "caller");
  EXPECT_FAILS(api().read_buffer(context.get(), 5, values.data(), 52), TW_ERROR_INVALID_ARGUMENT, "no buffer 5");
  EXPECT_FAILS(api().read_buffer(context.get(), 2, values.data(), 51), TW_ERROR_INVALID_ARGUMENT, "52 bytes");
}

}  // namespace
}  // namespace tw
