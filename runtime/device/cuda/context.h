// The memory and the stream of one caller on a GPU, and the execution of entries on that stream: each as one CUDA
// graph, or launch by launch where every step is to be timed.
#pragma once
#include <memory>
#include <vector>

#include "runtime/device.h"
#include "runtime/device/cuda/calls.h"
#include "runtime/device/cuda/launch.h"

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
  CudaContext(const Loaded& loaded, const Options& options, DevicePtr state);
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  ~CudaContext() override;

  /// Host tensors are copied in and out; tensors in this GPU's memory are used in place if they are 16-byte aligned and
  /// as large as the entry's. Returns when all is done.
  void run(int entry, const DLTensor* inputs, const DLTensor* outputs) override { measure(entry, inputs, outputs, {}); }
  /// `stream` is a StreamHandle. Waits for the end where a caller must learn of it: has_to_wait.
  void run_async(int entry, const DLTensor* inputs, const DLTensor* outputs, void* stream) override;
  /// Times are between events on the stream, without the copies; one run more goes ahead of them.
  void measure(int entry, const DLTensor* inputs, const DLTensor* outputs, std::span<uint64_t> times_ns) override;
  void set_extents(const Extents& extents) override { extents_ = extents; }
  void read_buffer(int entry, int buffer, void* destination) override;
  std::span<const uint64_t> step_times() const override { return step_times_; }
  int threads() const override { return 1; }

 private:
  struct PreparedEntry {
    std::vector<Launch> launches;                 // of the steps in all their turns, relocated
    std::vector<size_t> touching_tensors;         // the launches that take addresses of inputs or outputs
    std::vector<Clearing> clearings;              // of Entry::zeros
    std::unique_ptr<LaunchGraph> graph;           // none when profiling
    std::vector<const format::CudaStep*> checks;  // by error word: the step that may store into it, in some turn
  };

  void allocate();
  void prepare_calls();
  Launch make_launch(const format::Entry& entry, const format::CudaStep& step, std::span<const int64_t> turns,
                     size_t error_word);
  PreparedEntry prepare_entry(const format::Entry& entry);
  void add_clearings(const format::Entry& entry, PreparedEntry& prepared) const;
  bool has_to_wait(const format::Entry& entry, const PreparedEntry& prepared, const DLTensor* inputs,
                   const DLTensor* outputs) const;
  void use_stream(StreamHandle stream);
  void copy_in(DevicePtr to, const DLTensor& tensor, int64_t from, int64_t bytes);
  void place_inputs(const format::Entry& entry, const DLTensor* inputs);
  void place_outputs(const format::Entry& entry, const DLTensor* outputs);
  void bind_tensors(const format::Entry& entry, PreparedEntry& prepared);
  bool relocate(const format::Entry& entry, std::span<const int64_t> turns, Launch& launch);
  void submit(PreparedEntry& prepared);
  void submit_timed(PreparedEntry& prepared, size_t times);
  void read_step_times(const format::Entry& entry, const PreparedEntry& prepared);
  void fetch_outputs(const format::Entry& entry, const DLTensor* outputs);
  DevicePtr address(const format::Buffer& buffer, size_t error_word = 0) const;
  void synchronize(const char* doing);

  const Loaded& loaded_;
  DevicePtr state_;
  const Driver& driver_;
  bool profile_;
  Stream stream_;                           // of runs that are waited for
  StreamHandle used_;                       // of the current run
  bool is_pending_ = false;                 // a run that nobody waited for may be under way
  enum Mark : size_t { kEnd, kGivenWork };  // of the last such run; what a caller's stream had before a run
  Events marks_;
  DeviceMemory arena_, error_;
  Extents extents_ = {};                                      // of the current run
  DeviceMemory extents_of_run_;                               // the same on the GPU
  Calls calls_;                                               // of all steps
  DeviceMemory workspace_;                                    // of whichever call runs
  std::vector<DeviceMemory> input_staging_, output_staging_;  // where tensors are not used in place: of any entry
  std::vector<DevicePtr> inputs_, outputs_;                   // of the current run
  std::vector<PreparedEntry> entries_;                        // one for each entry
  Events step_events_;                                        // before each launch and after the last, when profiling
  Events run_events_;                                         // before each timed run and after the last
  std::vector<uint64_t> launch_times_, step_times_;
};

}  // namespace tw::runtime::cuda
