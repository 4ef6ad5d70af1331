// A loaded model and a context that runs it: what the handles of the C interface stand for.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "runtime/device.h"
#include "runtime/state.h"
#include "runtime/tensors.h"

namespace tw::runtime {

/// Immutable; shared by its contexts.
class Model {
 public:
  /// Reads the file into memory of its own, verifies it there and makes it ready on its device. Throws Error.
  static std::shared_ptr<const Model> load_file(const std::string& path, const Options& options);
  /// The same from a copy of `bytes`.
  static std::shared_ptr<const Model> load_memory(format::Bytes bytes, const Options& options);

  /// The values of the states that it begins with.
  static std::shared_ptr<State> create_state(std::shared_ptr<const Model> model, const Options& options);

  const format::Manifest& manifest() const { return artefact_.manifest(); }
  const format::Artefact& artefact() const { return artefact_; }
  const DeviceModel& device() const { return *device_; }
  /// What the ONNX model says of itself, as JSON.
  const std::string& metadata() const { return metadata_; }
  /// As callers see them.
  std::span<const format::State> states() const { return states_; }
  /// Throws Error(kInvalidArgument) when there is no such entry.
  const format::Entry& entry(int index) const;
  std::span<const format::Function> functions() const { return functions_; }
  /// Throws Error(kInvalidArgument) when there is no such function.
  const format::Function& function(int index) const;
  /// By name; throws Error(kInvalidArgument) naming those that are there.
  int find_function(std::string_view name) const;
  Entries entries_of(const format::Function& function) const {
    return Entries(manifest().entries).subspan(function.first, function.count);
  }
  /// The entry of a function for these inputs.
  int find_entry(int function, const DLTensor* inputs, int input_count) const;
  /// The entry of the same function as `entry` for these inputs, which one of them takes at once; -1: none does.
  int find_like(int entry, const DLTensor* inputs) const;
  /// Whether a run of the entry leaves other states than it finds.
  bool changes_state(int entry) const { return changes_state_[static_cast<size_t>(entry)]; }

  Model(Memory image, const Options& options);

 private:
  Memory image_;
  format::Artefact artefact_;
  std::unique_ptr<DeviceModel> device_;
  std::vector<format::Function> functions_;
  std::vector<format::State> states_;
  std::vector<bool> changes_state_;  // by entry
  std::string metadata_ = "{}";
};

/// For one thread at a time; a second thread that enters at the same time gets Error(kInvalidArgument).
class Context {
 public:
  /// With a state of its own, or with `state`, which others may have too.
  Context(std::shared_ptr<const Model> model, const Options& options, std::shared_ptr<State> state = nullptr);

  void run(int function, const DLTensor* inputs, int input_count, const DLTensor* outputs, int output_count);
  void run_entry(int entry, const DLTensor* inputs, const DLTensor* outputs);
  void run_async(int entry, const DLTensor* inputs, const DLTensor* outputs, void* stream);
  void measure_entry(int entry, const DLTensor* inputs, const DLTensor* outputs, std::span<uint64_t> times_ns);
  /// Copies a readable buffer of the last run's entry; `bytes` must be its size.
  void read_buffer(int buffer, void* destination, size_t bytes);
  std::span<const uint64_t> step_times() const { return device_->step_times(); }
  int threads() const { return device_->threads(); }
  /// The entry of the last run, or null.
  const format::Entry* last_entry() const;
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  /// The tensors of an entry's own size.
  struct Tensors {
    const DLTensor* inputs;
    const DLTensor* outputs;
  };
  template <typename Body>
  void with_state(int entry, const Body& body);
  template <typename Body>
  void run_checked(int entry, const Tensors& given, const Body& body);
  template <typename Body>
  void run_in_parts(int entry, const EntryShapes& shapes, const Tensors& given, const Body& body);

  std::shared_ptr<const Model> model_;
  std::shared_ptr<State> state_;
  std::unique_ptr<DeviceContext> device_;
  int last_entry_ = -1;
  std::atomic<bool> in_use_{false};
};

}  // namespace tw::runtime
