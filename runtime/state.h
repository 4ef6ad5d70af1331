// What a model's contexts keep from one run to the next: the values of its states, on its device.
#pragma once
#include <memory>
#include <shared_mutex>
#include <string>

#include "runtime/device.h"

namespace tw::runtime {

/// Of one context or shared by several. Its functions wait for runs that use it, and may be called from any thread.
class State {
 public:
  /// Of the model of `artefact` on `device`, which live as long as `owner`, with the initial values. Throws
  /// Error(kOutOfMemory).
  State(std::shared_ptr<const void> owner, const format::Artefact& artefact, const DeviceModel& device,
        const Options& options);

  /// Copies state number `index` to the tensor `to`, or from the tensor `from`: of its type and shape, compact, in host
  /// memory or that of the model's device. Tensors and files have rows, however the device has it. Throws
  /// Error(kInvalidArgument).
  void get(int index, const DLTensor& to);
  void set(int index, const DLTensor& from);
  /// The initial values again.
  void reset();
  /// All values as a .safetensors file, atomically; and back. load() refuses a file that has not all of them, or
  /// others, with Error(kInvalidArgument), and has changed nothing then.
  void save(const std::string& path);
  void load(const std::string& path);

  bool is_of(const format::Artefact& artefact) const { return &artefact == &artefact_; }
  /// For the time of a run: shared where the run changes no state.
  std::shared_mutex& mutex() { return mutex_; }
  DeviceState& on_device() { return *device_; }

 private:
  const format::State& row(int index) const;
  std::vector<uint8_t> read_all();

  const std::shared_ptr<const void> owner_;
  const format::Artefact& artefact_;
  const std::vector<format::State> seen_;
  const DeviceModel& model_;
  std::unique_ptr<DeviceState> device_;
  std::shared_mutex mutex_;
};

}  // namespace tw::runtime
