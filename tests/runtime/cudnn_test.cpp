// Convolutions and attention by cuDNN, against one made for tests: what its descriptors say is what the problem says, a
// plan is exactly the one that a call names, and steps of an artefact run by it.
#ifdef TW_RUNTIME_CUDA
#include "runtime/device/cuda/cudnn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/device/cuda/cuda_device.h"
#include "runtime/format/error.h"
#include "tests/runtime/api_harness.h"
#include "tests/runtime/fake_cuda_released.h"
#include "tests/runtime/fake_cudnn.h"

namespace tw {
namespace {

using format::DataType;
using format::Operand;
using format::Place;
using format::ProblemDescriptor;
using test::fake;
using test::fake_cudnn;
namespace cuda = runtime::cuda;

/// Small whole numbers, which bf16 holds, too; `seed` tells operands apart.
std::vector<float> numbers(int64_t count, int64_t seed) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<float>((i * 7 + seed * 3) % 5 - 2));
  return out;
}

/// As an operand is stored.
std::vector<uint8_t> stored(const Operand& operand, const std::vector<float>& values) {
  const auto bytes = static_cast<size_t>(format::bytes_of(operand.dtype));
  std::vector<uint8_t> out;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::array<uint8_t, 4>>(value);
    out.insert(out.end(), bits.end() - static_cast<int64_t>(bytes), bits.end());
  }
  return out;
}

/// The result of a problem over two dimensions at most for numbers(.., i) in operand i, by the formula of problem.h.
std::vector<float> expected(const ProblemDescriptor& p) {
  const auto all = p.operands();
  const auto value = [&](const Operand& o, int64_t at) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] == &o) return numbers(at + 1, static_cast<int64_t>(i)).back();
    }
    return 0.0f;
  };
  const auto of = [](const std::vector<int64_t>& list, size_t d, int64_t otherwise) {
    return d < list.size() ? list[d] : otherwise;
  };
  const int64_t rows = of(p.spatial, 0, 1), columns = of(p.spatial, 1, 1), width = of(p.window, 1, 1);
  const std::vector<int64_t> out = p.out_spatial();
  const int64_t points = out[0] * of(out, 1, 1), each = p.k / p.groups;
  std::vector<float> result;
  for (int64_t at = 0; at < p.batch * points * p.n; ++at) {
    const int64_t j = at % p.n, point = at / p.n % points, image = at / p.n / points;
    float sum = 0;
    for (int64_t r = 0; r < p.window[0]; ++r) {
      for (int64_t i = 0; i < width * each; ++i) {
        const int64_t s = i / each, l = i % each, channel = j / (p.n / p.groups) * each + l;
        const int64_t row = point / of(out, 1, 1) * p.strides[0] + r * p.dilations[0] - p.pads[0];
        const int64_t column =
            point % of(out, 1, 1) * of(p.strides, 1, 1) + s * of(p.dilations, 1, 1) - of(p.pads, 1, 0);
        if (row < 0 || row >= rows || column < 0 || column >= columns) continue;
        sum += value(p.a, ((image * rows + row) * columns + column) * p.k + channel) *
               value(p.b, ((j * p.window[0] + r) * width + s) * each + l);
      }
    }
    if (!p.bias.name.empty()) sum += value(p.bias, j);
    if (!p.residual.name.empty()) sum += value(p.residual, at);
    const float slope = p.activation == format::Activation::kLeakyRelu ? static_cast<float>(p.parameters[0]) : 0;
    if (p.activation != format::Activation::kNone && sum < 0) sum *= slope;
    if (p.activation == format::Activation::kClip) sum = std::min(sum, static_cast<float>(p.parameters[1]));
    if (!p.late_residual.name.empty()) sum += value(p.late_residual, at);
    result.push_back(sum);
  }
  return result;
}

/// The same for attention whose result has no gaps.
std::vector<float> attended(const ProblemDescriptor& p) {
  const auto all = p.operands();
  const auto value = [&](const Operand& o, int64_t b, int64_t h, int64_t row, int64_t column) {
    const int64_t at = o.first + b * o.matrix + h * o.head + row * o.line + column;
    return o.name.empty() ? 0.0f : numbers(at + 1, std::ranges::find(all, &o) - all.begin()).back();
  };
  std::vector<float> result(static_cast<size_t>(p.span(p.out)));
  for (int64_t at = 0; at < p.batch * p.groups * p.m; ++at) {
    const int64_t b = at / p.m / p.groups, h = at / p.m % p.groups, i = at % p.m;
    std::vector<float> weights;
    float sum = 0;
    for (int64_t t = 0; t < p.keys; ++t) {
      float score = 0;
      for (int64_t l = 0; l < p.k; ++l) score += value(p.a, b, h, i, l) * value(p.b, b, h, t, l);
      const bool seen = !p.causal || t <= i;
      const float weight = std::exp(static_cast<float>(p.parameters[0]) * score + value(p.residual, b, h, i, t));
      weights.push_back(seen ? weight : 0);
      sum += weights.back();
    }
    for (int64_t j = 0; j < p.n; ++j) {
      float& y = result[static_cast<size_t>(b * p.out.matrix + h * p.out.head + i * p.out.line + j)];
      for (int64_t t = 0; t < p.keys; ++t) y += weights[static_cast<size_t>(t)] / sum * value(p.values, b, h, t, j);
    }
  }
  return result;
}

const char* const kResidual =
    "convolution batch=2 n=3 k=4 groups=1 spatial=6,5 window=3,2 strides=2,1 dilations=1,2 pads=1,2 pads_end=0,1 "
    "a=x:bf16 b=w:bf16 bias=b:f32 residual=r:f32 out=y:f32 act=relu";
const char* const kProblems[] = {
    kResidual,
    "convolution batch=1 n=4 k=2 groups=1 spatial=4,4 window=1,1 strides=1,1 dilations=1,1 pads=0,0 pads_end=0,0 "
    "a=x:bf16 b=w:bf16 out=y:f32",
    "convolution batch=1 n=8 k=4 groups=4 spatial=5,5 window=3,3 strides=1,1 dilations=1,1 pads=1,1 pads_end=1,1 "
    "a=x:bf16 b=w:bf16 bias=b:bf16 out=y:f32 act=clip:0:3",
    "convolution batch=2 n=6 k=6 groups=2 spatial=4,7 window=2,3 strides=1,3 dilations=1,1 pads=0,1 pads_end=1,0 "
    "a=x:bf16 b=w:bf16 late_residual=r:bf16 out=y:f32 act=leaky_relu:0.25",
    "convolution batch=2 n=3 k=2 groups=1 spatial=9 window=4 strides=2 dilations=1 pads=1 pads_end=2 "
    "a=x:bf16 b=w:bf16 bias=b:f32 out=y:f32 act=relu"};

// Parts of one tensor, heads between positions; whole tensors, a mask of every row; keys up to the row's own.
const char* const kAttentions[] = {
    "attention batch=2 m=5 n=8 k=8 groups=2 keys=5 a=q:bf16:48:240:8:0 b=k:bf16:48:240:8:16 "
    "values=v:bf16:48:240:8:32 out=y:f32:16:80:8:0 act=softmax:0.25",
    "attention batch=1 m=3 n=16 k=8 groups=3 keys=7 a=q:bf16:8:0:24:0 b=k:bf16:8:0:56:0 "
    "residual=m:bf16:7:0:0:0 values=v:bf16:16:0:112:0 out=y:f32:16:0:48:0 act=softmax:1",
    "attention batch=2 m=4 n=8 k=8 groups=1 keys=6 a=q:bf16:8:32:0:0 b=k:bf16:8:48:0:0 "
    "residual=m:f32:0:6:0:0 values=v:bf16:8:48:0:0 out=y:f32:8:32:0:0 act=softmax:0.5",
    "attention batch=1 m=6 n=8 k=8 groups=2 keys=6 a=q:bf16:8:0:48:0 b=k:bf16:8:0:48:0 "
    "values=v:bf16:8:0:48:0 out=y:f32:8:0:48:0 mask=causal act=softmax:0.5"};

class Cudnn : public testing::Test {
 protected:
  void SetUp() override {
    fake = test::FakeGpu();
    fake_cudnn = {};
    driver_.open_cudnn = test::open_fake_cudnn;
    handle_ = cuda::CudnnCall::start(library_);
  }
  void TearDown() override {
    handle_.reset();
    EXPECT_EQ(fake_cudnn.objects, 0);
    test::expect_all_released();
  }
  std::string refusal(const std::function<void()>& body) {
    try {
      body();
    } catch (const format::Error& error) {
      EXPECT_EQ(error.code(), format::ErrorCode::kDevice);
      return error.what();
    }
    return "";
  }
  void expect_computed(const std::string& call_text);

  const cuda::Cudnn& library_ = test::open_fake_cudnn();
  cuda::LibraryObject handle_{nullptr, nullptr};
  cuda::Driver driver_ = test::fake_driver();
};

void Cudnn::expect_computed(const std::string& call_text) {
  const format::LibraryCall call = format::parse_library_call(call_text);
  const cuda::CudnnCall convolution(library_, handle_.get(), call);
  EXPECT_EQ(convolution.workspace_bytes(), static_cast<size_t>(fake_cudnn.workspace_bytes));
  std::vector<std::vector<uint8_t>> memory;
  std::vector<cuda::DevicePtr> addresses;
  for (const Operand* operand : call.problem.operands()) {
    memory.push_back(stored(*operand, numbers(call.problem.span(*operand), std::ssize(memory))));
    addresses.push_back(reinterpret_cast<cuda::DevicePtr>(memory.back().data()));
  }
  convolution.run(addresses, 1, nullptr);
  const auto* result = reinterpret_cast<const float*>(memory.back().data());
  const bool attention = call.problem.kind == ProblemDescriptor::Kind::kAttention;
  const std::vector<float> want = attention ? attended(call.problem) : expected(call.problem);
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(result[i], want[i], attention ? 1e-5 : 0) << call_text << " at " << i;
}

TEST_F(Cudnn, LackOfMemoryIsNoFailureOfTheDevice) {
  const auto code_of = [&](int status) {
    try {
      library_.check(status, "run");
    } catch (const format::Error& error) {
      return format::exit_code(error.code());
    }
    return 0;
  };
  EXPECT_EQ(code_of(0), 0);
  EXPECT_EQ(code_of(3000), 5);
  for (const int status : {4003, 4004}) EXPECT_EQ(code_of(status), 6);
}

TEST_F(Cudnn, ComputesProblems) {
  for (const char* problem : kProblems) expect_computed(std::string("cudnn 91900 41 ") + problem);
}

TEST_F(Cudnn, ComputesAttention) {
  for (const char* problem : kAttentions) {
    fake_cudnn.by_value = 0;
    expect_computed(std::string("cudnn 91900 41,24=7 ") + problem);
    EXPECT_GT(fake_cudnn.by_value, 0) << problem;
  }
}

TEST_F(Cudnn, ACallIsOneEngineWithItsSettings) {
  fake_cudnn.engines = {{3}, {41}};
  expect_computed(std::string("cudnn 91900 41,2=5,14=0 ") + kResidual);
  EXPECT_EQ(fake_cudnn.used, 41);
  EXPECT_EQ(fake_cudnn.knobs, (std::map<int, int64_t>{{2, 5}, {14, 0}}));
  const auto make = [&](const std::string& way) {
    const cuda::CudnnCall call(library_, handle_.get(), format::parse_library_call("cudnn 91900 " + way + kResidual));
  };
  EXPECT_EQ(refusal([&] { make("40 "); }), std::string("cuDNN 91900 cannot compute cudnn 91900 40 ") + kResidual +
                                               ": NOT_SUPPORTED; a reason of two lines");
  fake_cudnn.workspace_bytes = int64_t{1} << 40;
  EXPECT_NE(refusal([&] { make("3 "); }).find("wants 1099511627776 bytes"), std::string::npos);
}

TEST_F(Cudnn, OffersEnginesThatSumExactlyAndInOneOrder) {
  const ProblemDescriptor problem = format::parse_problem(kResidual);
  fake_cudnn.engines = {{41, {{2, 5}, {13, 1}}, {0}},
                        {7, {}, {0, 5}},
                        {8, {}, {4}},
                        {9, {}, {2}},
                        {10, {}, {1}},
                        {3, {}, {9}},
                        {3, {}, {9}},
                        {4},
                        {5}};
  const auto offers = [&](size_t max) {
    std::vector<std::string> ways;
    for (const format::LibraryCall& call : cuda::cudnn_offers(library_, handle_.get(), problem, max)) {
      const std::string text = to_string(call);
      ways.push_back(text.substr(0, text.find(" convolution")));
      expect_computed(text);
    }
    return ways;
  };
  EXPECT_EQ(offers(3), (std::vector<std::string>{"cudnn 91900 41,2=5,13=1", "cudnn 91900 3", "cudnn 91900 4"}));
  EXPECT_EQ(offers(9).size(), 4U);
  fake_cudnn.engines = {{7, {}, {0, 5}}};
  EXPECT_TRUE(offers(3).empty()) << "Winograd";
}

/// x -> y, with constants w, b and r.
test::TestArtefact convolution_model(const std::string& call_text) {
  const format::LibraryCall call = format::parse_library_call(call_text);
  const ProblemDescriptor& p = call.problem;
  test::TestArtefact made;
  made.manifest.targets = {{format::TargetKind::kCuda, "sm_90a", {}}};
  format::Entry entry;
  entry.name = "only";
  entry.inputs = {{"x", DataType::kBF16, {p.span(p.a)}}};
  entry.outputs = {{"y", DataType::kF32, {p.span(p.out)}}};
  format::CudaStep step;
  step.call = call_text;
  step.name = "convolution";
  for (const Operand* o : p.operands()) {
    const auto index = std::ssize(entry.buffers);
    const std::vector<uint8_t> bytes = stored(*o, numbers(p.span(*o), index));
    const Place place = o == &p.a ? Place::kInput : o == &p.out ? Place::kOutput : Place::kWeights;
    const int64_t offset = place == Place::kWeights ? std::ssize(made.weights) : 0;
    entry.buffers.push_back({place, 0, offset, std::ssize(bytes), o->name});
    if (place == Place::kWeights) made.weights.insert(made.weights.end(), bytes.begin(), bytes.end());
    made.weights.resize((made.weights.size() + 15) / 16 * 16);
    step.operands.push_back(index);
  }
  entry.cuda_steps = {step};
  made.manifest.entries = {entry};
  return made;
}

/// A model of one convolution gives what `problem` says.
void expect_run(runtime::DeviceContext& context, const ProblemDescriptor& problem) {
  std::vector<uint8_t> x = stored(problem.a, numbers(problem.span(problem.a), 0));
  test::Vector<float> y(static_cast<size_t>(problem.span(problem.out)));
  int64_t count = problem.span(problem.a);
  const DLTensor input = {x.data(), {kDLCPU, 0}, 1, {kDLBfloat, 16, 1}, &count, nullptr, 0}, output = y.view();
  context.run(0, &input, &output);
  EXPECT_EQ(y.data, expected(problem));
}

TEST_F(Cudnn, StepsOfArtefactsArePartsOfTheGraph) {
  const std::string call = std::string("cudnn 91900 41,2=5 ") + kResidual;
  const ProblemDescriptor problem = format::parse_problem(kResidual);
  const test::TestArtefact made = convolution_model(call);
  const std::vector<uint8_t> file = made.file();
  const format::Artefact artefact = format::Artefact::parse(file);
  const auto model = cuda::load_model(artefact, {}, driver_);
  const auto state = model->create_state({});
  const auto context = model->create_context({}, *state);
  EXPECT_EQ(fake.instantiations, 1);
  EXPECT_EQ(fake.calls, "ilc") << "weights; once by itself, which loads kernels; once captured";
  expect_run(*context, problem);
  driver_.open_cudnn = test::fake_driver().open_cudnn;
  EXPECT_EQ(refusal([&] { cuda::load_model(artefact, {}, driver_); }),
            "this artefact needs cudnn, measured with version 91900: no cuDNN in this test");
}

// A program may have loaded another version than that by which an artefact was measured: engine 41 is unknown to it.
TEST_F(Cudnn, AnotherVersionComputesByItsOwnChoice) {
  fake_cudnn.engines = {{3, {{2, 7}}}, {4}};
  const std::string call = std::string("cudnn 91400 41,2=5 ") + kResidual;
  const ProblemDescriptor problem = format::parse_problem(kResidual);
  const test::TestArtefact made = convolution_model(call);
  const std::vector<uint8_t> file = made.file();
  const format::Artefact artefact = format::Artefact::parse(file);
  const auto model = cuda::load_model(artefact, {}, driver_);
  const auto state = model->create_state({});
  const auto context = model->create_context({}, *state);
  expect_run(*context, problem);
  EXPECT_EQ(fake_cudnn.used, 3);
  EXPECT_EQ(fake_cudnn.knobs, (std::map<int, int64_t>{{2, 7}}));
}

}  // namespace
}  // namespace tw
#endif
