// A loaded artefact for Python: runs of any number of threads, bound runs, state.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "array.h"
#include "tilewright/runtime.h"

namespace tw::python {

/// The table of the runtime. Throws ImportError when the library beside this module is older than its header.
const TwApi& api();

/// Throws StatusError with what the status says, and frees it; nothing for NULL.
void check(TwStatus* status);

template <auto Member>
struct Free {
  template <typename Handle>
  void operator()(Handle* handle) const {
    (api().*Member)(handle);
  }
};
using ModelHandle = std::unique_ptr<TwModel, Free<&TwApi::model_free>>;
using ContextHandle = std::unique_ptr<TwContext, Free<&TwApi::context_free>>;
using StateHandle = std::unique_ptr<TwState, Free<&TwApi::state_free>>;

struct LoadOptions {
  int threads = 0;    // of each run; 0: all CPUs that this process may use
  int device = 0;     // ordinal of the GPU
  std::string level;  // "x86-64-v3", of an artefact for several; "": the widest that this machine runs
  std::optional<std::string> trusted_keys;  // TwOptions::trusted_keys; nothing: those of the environment
};

struct Tensor {
  std::string name;
  DLDataType type;
  std::vector<int64_t> shape;
};

/// (label, nanoseconds) of each step of a run, in their order.
using StepTimes = std::vector<std::pair<std::string, uint64_t>>;

/// What a model keeps between its runs. Safe in any thread.
class State {
 public:
  explicit State(StateHandle handle, std::vector<Tensor> values)
      : handle_(std::move(handle)), values_(std::move(values)) {}

  const std::vector<Tensor>& values() const { return values_; }
  nanobind::object get(int index, Kind kind) const;
  void set(int index, nanobind::handle value);
  void reset();
  void save(const std::string& path) const;
  void load(const std::string& path);
  TwState* handle() const { return handle_.get(); }

 private:
  const Tensor& at(int index) const;

  StateHandle handle_;
  std::vector<Tensor> values_;
};

/// One entry with its arrays and a context of its own: run() neither copies nor allocates. Runs of several threads wait
/// for each other.
class Binding {
 public:
  Binding(ContextHandle context, int entry, std::vector<Array> inputs, std::vector<Array> outputs);
  void run();
  /// As work of a stream of the GPU, given as a number: may return before the run has ended.
  void run_async(uintptr_t stream);
  /// Times in ns of that many runs in a row, by the runtime's clock.
  std::vector<uint64_t> measure(size_t count);

 private:
  ContextHandle context_;
  int entry_;
  std::vector<Array> inputs_, outputs_;
  std::vector<DLTensor> input_tensors_, output_tensors_;
  std::mutex running_;
};

/// One function of a loaded artefact. Safe in any thread: a run borrows a context from a pool that grows to the largest
/// number of runs at the same time. Entries are numbered within the function.
class Model {
 public:
  static std::unique_ptr<Model> load_file(const std::string& path, const LoadOptions& options);
  static std::unique_ptr<Model> load_bytes(nanobind::handle bytes, const LoadOptions& options);

  /// Of the artefact; "" where it has but one. What is loaded is the first.
  std::vector<std::string> functions() const;
  /// Another one, with the same state.
  std::unique_ptr<Model> function(const std::string& name) const;

  /// What the ONNX model says of itself: a JSON object.
  std::string metadata() const { return api().model_metadata(model_.get()); }
  std::string target() const { return api().model_target(model_.get()); }
  std::vector<std::string> entries() const;
  std::vector<Tensor> inputs(int entry) const;
  std::vector<Tensor> outputs(int entry) const;

  /// Arrays in the order of the model's inputs and outputs. Runs allocate outputs in the memory of the host.
  int find_entry(const nanobind::list& inputs, Access access) const;
  nanobind::list run(const nanobind::list& inputs, Kind kind);
  /// The same, timed step by step, which adds barriers between them.
  std::pair<nanobind::list, StepTimes> run_profiled(const nanobind::list& inputs, Kind kind);
  void run_into(const nanobind::list& inputs, const nanobind::list& outputs);
  /// The same as work of a stream of the GPU, given as a number: may return before the run has ended.
  void run_async(const nanobind::list& inputs, const nanobind::list& outputs, uintptr_t stream);
  /// Uninitialised memory for the outputs of a run on these inputs, on the host.
  nanobind::list empty_outputs(const nanobind::list& inputs, Access access, Kind kind) const;
  std::unique_ptr<Binding> bind(const nanobind::list& inputs, const nanobind::list& outputs);
  /// The state that all runs of this model share; nothing where it keeps none.
  std::shared_ptr<State> state() const { return state_; }
  int threads();

 private:
  using SharedModel = std::shared_ptr<TwModel>;
  Model(SharedModel model, const LoadOptions& options, int function, std::shared_ptr<State> state);
  static std::unique_ptr<Model> loaded(ModelHandle model, const LoadOptions& options);

  enum class Profile { kNo, kYes };
  template <typename Execute>
  nanobind::list run_with(const nanobind::list& inputs, Kind kind, Execute execute) const;
  ContextHandle make_context(Profile profile) const;
  template <typename Execute>
  void run_into_with(const nanobind::list& inputs, const nanobind::list& outputs, Execute execute);
  ContextHandle take_context();
  void give_context(ContextHandle context);
  std::vector<Array> arrays(const nanobind::list& given, const std::vector<std::string>& names, Access access) const;
  int entry_of(const std::vector<DLTensor>& inputs) const;
  std::vector<Result> results(int entry, const std::vector<DLTensor>& inputs) const;
  std::vector<Tensor> describe(int count, int entry, decltype(TwApi::input_info) query) const;

  SharedModel model_;
  LoadOptions options_;
  int function_;
  TwFunctionInfo info_;
  std::vector<std::string> input_names_, output_names_;
  std::shared_ptr<State> state_;
  std::mutex pool_mutex_;
  std::vector<ContextHandle> idle_;
  std::mutex profiling_;
  ContextHandle profiled_;  // the context of run_profiled; made by its first call
};

}  // namespace tw::python
