// What the tests of the CUDA device share: small artefacts for the fake driver's kernels, and a fixture that expects
// everything back.
#pragma once
#ifdef TW_RUNTIME_CUDA
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/cuda/cuda_device.h"
#include "runtime/format/error.h"
#include "tests/runtime/api_harness.h"
#include "tests/runtime/fake_cuda_released.h"

namespace tw::test {

/// y = (x * 3) * 5, the factors being weights and the intermediate an arena buffer at offset 256.
inline TestArtefact scale_model(int64_t n) {
  TestArtefact artefact;
  artefact.code.assign({'c', 'u', 'b', 'i', 'n'});
  artefact.weights.resize(8);
  const float factors[] = {3.0f, 5.0f};
  std::memcpy(artefact.weights.data(), factors, 8);
  format::Manifest& manifest = artefact.manifest;
  manifest.targets = {{format::TargetKind::kCuda, "sm_90a", {}}};
  manifest.kernels = {{"scale", "cubin.0", 0, 5}, {"fail", "cubin.0", 0, 5}};
  format::Entry entry;
  entry.name = "only";
  entry.inputs = {{"x", format::DataType::kF32, {n}}};
  entry.outputs = {{"y", format::DataType::kF32, {n}}};
  entry.arena_bytes = 256 + 4 * n;
  entry.buffers = {{format::Place::kInput, 0, 0, 4 * n, "x"},
                   {format::Place::kArena, 0, 256, 4 * n, "scaled"},
                   {format::Place::kOutput, 0, 0, 4 * n, "y"},
                   {format::Place::kWeights, 0, 0, 8, "factors"},
                   {format::Place::kError, 0, 0, 4, ""}};
  FakeParams params{nullptr, nullptr, nullptr, n};
  std::vector<uint8_t> block(sizeof(params));
  std::memcpy(block.data(), &params, sizeof(params));
  const std::vector<int64_t> arguments = {0, 8, 16, 24};
  entry.cuda_steps = {
      {0, {4, 3, 2}, {64, 2, 1}, 0, block, arguments, {{0, 0, 0}, {8, 3, 0}, {16, 1, 0}}, {}, false, "first"},
      {0, {7, 1, 1}, {32, 1, 1}, 100'000, block, arguments, {{0, 1, 0}, {8, 3, 4}, {16, 2, 0}}, {}, true, "second"}};
  entry.cuda_steps[1].after = {0};
  manifest.entries = {entry};
  return artefact;
}

/// The kernel takes one tensor map more, after its other parameters.
inline void add_map_argument(format::CudaStep& step) {
  step.arguments.push_back(std::ssize(step.params));
  step.params.resize(step.params.size() + format::TensorMap::kBytes);
  fake.takes_map = true;
}

class CudaDevice : public ::testing::Test {
 protected:
  void SetUp() override { fake = FakeGpu(); }
  void TearDown() override { expect_all_released(); }
  std::unique_ptr<runtime::DeviceModel> load(const TestArtefact& made, int device = 0) {
    file_ = made.file();
    artefact_ = format::Artefact::parse(file_);
    runtime::Options options;
    options.device = device;
    return runtime::cuda::load_model(artefact_, options, driver_);
  }
  format::ErrorCode refusal(const std::function<void()>& body) {
    try {
      body();
    } catch (const format::Error& error) {
      message_ = error.what();
      exit_code_ = format::exit_code(error.code());
      return error.code();
    }
    return format::ErrorCode{};
  }
  runtime::cuda::Driver driver_ = fake_driver();
  std::vector<uint8_t> file_;
  format::Artefact artefact_;
  std::string message_;
  int exit_code_ = 0;
};

/// A context with a state of its own.
struct OwnContext {
  std::unique_ptr<runtime::DeviceState> state;
  std::unique_ptr<runtime::DeviceContext> context;
  runtime::DeviceContext* operator->() const { return context.get(); }
};

inline OwnContext own_context(const runtime::DeviceModel& model, const runtime::Options& options) {
  OwnContext own{model.create_state(options), nullptr};
  own.context = model.create_context(options, *own.state);
  return own;
}

/// A tensor on the fake GPU, whose memory is the host's.
inline DLTensor on_gpu(Vector<float>& vector) {
  DLTensor tensor = vector.view();
  tensor.device = {kDLCUDA, 0};
  return tensor;
}

/// A third step after those of scale_model: a kernel that stores into the error word.
inline TestArtefact failing_model(int64_t n) {
  TestArtefact made = scale_model(n);
  format::CudaStep failing = made.manifest.entries[0].cuda_steps[0];
  failing.kernel = 1;
  failing.relocations = {{0, 4, 0}};
  failing.name = "check";
  made.manifest.entries[0].cuda_steps.push_back(failing);
  return made;
}

}  // namespace tw::test
#endif
