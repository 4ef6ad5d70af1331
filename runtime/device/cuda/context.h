// The memory and the stream of one caller on a GPU, and the execution of entries as launches on that stream.
#pragma once
#include <vector>

#include "runtime/device.h"
#include "runtime/device/cuda/gpu.h"
#include "runtime/format/manifest.h"

namespace tw::runtime::cuda {

/// What all contexts of a model share; immutable after loading.
struct Loaded {
  const Gpu& gpu;
  const format::Manifest& manifest;
  std::vector<FunctionHandle> functions;  // of Manifest::kernels
  DevicePtr weights = 0;
};

class CudaContext : public DeviceContext {
 public:
  CudaContext(const Loaded& loaded, const Options& options);
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  ~CudaContext() override;

  /// Host tensors are copied in and out; tensors in this GPU's memory are used in place. Returns when all is done.
  void run(int entry, const DLTensor* inputs, const DLTensor* outputs) override;
  void read_buffer(int entry, int buffer, void* destination) override;
  std::span<const uint64_t> step_times() const override { return times_; }
  int threads() const override { return 1; }

 private:
  struct Program {
    std::vector<std::vector<uint8_t>> params;  // of each step, relocated but for inputs and outputs
    bool may_fail = false;
  };

  void allocate();
  void release();
  void make_program(const format::Entry& entry);
  void place_inputs(const format::Entry& entry, const DLTensor* inputs);
  void place_outputs(const format::Entry& entry, const DLTensor* outputs);
  void launch(const format::Entry& entry, Program& program);
  void launch_step(const format::CudaStep& step, std::vector<uint8_t>& params);
  void fetch_outputs(const format::Entry& entry, const DLTensor* outputs);
  void fetch_times(const format::Entry& entry);
  DevicePtr address(const format::Buffer& buffer) const;
  void synchronize(const char* doing);

  const Loaded& loaded_;
  const Driver& driver_;
  bool profile_;
  DeviceMemory arena_, error_;
  std::vector<DeviceMemory> input_staging_, output_staging_;  // for host tensors, as large as any entry needs
  std::vector<DevicePtr> inputs_, outputs_;                   // of the current run
  std::vector<Program> programs_;                             // one for each entry
  StreamHandle stream_ = nullptr;
  std::vector<EventHandle> events_;  // before each step and after the last, when profiling
  std::vector<uint64_t> times_;
};

}  // namespace tw::runtime::cuda
