// What a kind of device does for the runtime: DeviceModel holds the code and weights of a model where that device can
// use them; DeviceContext holds the memory of one caller and runs entries.
#pragma once
#include <dlpack/dlpack.h>

#include <memory>
#include <span>

#include "runtime/extents.h"
#include "runtime/format/container.h"
#include "runtime/options.h"

namespace tw::runtime {

class DeviceContext {
 public:
  virtual ~DeviceContext() = default;
  /// Runs an entry. `inputs` and `outputs` were checked against it (tensors.h) at the extents that were set: tensors of
  /// the entry's own size take the place of smaller ones. Throws Error(kInputValue) when a kernel refused a value.
  virtual void run(int entry, const DLTensor* inputs, const DLTensor* outputs) = 0;
  /// How large the extents of the entry that runs next are.
  virtual void set_extents(const Extents& extents) = 0;
  /// The same as work of a stream of the device, where it has streams: may return before the run has ended.
  virtual void run_async(int entry, const DLTensor* inputs, const DLTensor* outputs, void* /*stream*/) {
    run(entry, inputs, outputs);
  }
  /// Like run, but the entry runs once for each of `times_ns`, which receive how long those runs took: between tensors
  /// where the device has them.
  virtual void measure(int entry, const DLTensor* inputs, const DLTensor* outputs, std::span<uint64_t> times_ns) = 0;
  /// Copies the whole of a buffer in the arena or the weights; of one that moves the bytes at its offset.
  virtual void read_buffer(int entry, int buffer, void* destination) = 0;
  /// Times of the last run's steps, in ns, in the order of the entry's steps, each of all its turns together; empty
  /// without Options::profile.
  virtual std::span<const uint64_t> step_times() const = 0;
  /// Largest number of CPU threads that a run uses.
  virtual int threads() const = 0;
};

/// A part of the block that a model's states lie in.
struct StateRange {
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// That block, on the device. No run uses it during a call.
class DeviceState {
 public:
  virtual ~DeviceState() = default;
  /// Copies a part of it to or from memory of `device`, one that DeviceModel::accepts.
  virtual void get(StateRange range, void* to, DLDevice device) = 0;
  virtual void set(StateRange range, const void* from, DLDevice device) = 0;
  /// Copies between the host's memory and such memory of `device`.
  virtual void to_host(void* to, const void* from, DLDevice device, size_t bytes) = 0;
  virtual void from_host(void* to, DLDevice device, const void* from, size_t bytes) = 0;
  /// All zeros.
  virtual void clear() = 0;
};

class DeviceModel {
 public:
  virtual ~DeviceModel() = default;
  /// Memory for the states; its content is undefined.
  virtual std::unique_ptr<DeviceState> create_state(const Options& options) const = 0;
  /// `state` is of this model and outlives the context.
  virtual std::unique_ptr<DeviceContext> create_context(const Options& options, DeviceState& state) const = 0;
  /// Whether run accepts tensors in the memory of `device`.
  virtual bool accepts(DLDevice device) const = 0;
};

/// Makes the code of the artefact's only target ready to run, for a GPU after checking that it is the one. `artefact`
/// must outlive the result. Throws Error (kIncompatible, kDevice, kOutOfMemory).
std::unique_ptr<DeviceModel> load_cpu_model(const format::Artefact& artefact, const Options& options);
#ifdef TW_RUNTIME_CUDA
std::unique_ptr<DeviceModel> load_cuda_model(const format::Artefact& artefact, const Options& options);
#endif

/// Values that kernels store into the error word.
enum class KernelError : int32_t { kIndexOutOfRange = 1, kTooManyRows = 2 };

/// "WHERE: an index is out of range ...": the message for a nonzero error word; where is "step 'NAME'".
std::string value_error_message(const std::string& where, int32_t error);

}  // namespace tw::runtime
