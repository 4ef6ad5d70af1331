// Running artefacts from C++: a thin owner of the runtime's C objects, and arrays for its tensors.
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor_type.h"
#include "driver/failure.h"
#include "graph/ref_tensor.h"

struct TwModel;
struct TwContext;
struct TwState;
struct TwOptions;

namespace tw::artefact {

/// Row-major elements in host memory.
struct Array {
  TensorType type;
  std::vector<std::byte> bytes;
};

Array to_array(const graph::RefTensor& tensor);
graph::RefTensor to_reference(const Array& array);

/// A failure of the runtime, with the exit code that the command gives for it.
class RuntimeFailure : public driver::CodedFailure {
 public:
  using CodedFailure::CodedFailure;
};

struct NamedType {
  std::string name;
  TensorType type;
};

struct StepTime {
  std::string name;
  double microseconds = 0;
};

struct SessionOptions {
  int threads = 0;  // 0: every CPU of the affinity mask that the CPU quota pays for
  bool profile = false;
  std::string level = {};     // of an artefact for several: its name; empty: the best one that this machine runs
  std::string function = {};  // of an artefact of several: its name; empty: the first
  /// Gets what the runtime warns of, such as threads that are not there.
  std::function<void(const std::string& sentence)> notice = {};
};

/// A loaded artefact with one context, for one of its functions. Whose it is was asked before. Not thread safe. Every
/// member throws RuntimeFailure on a runtime status.
///
/// Seen from here a run is a function, states or not: what the artefact keeps is set as the last of the inputs before a
/// run and read as the last of the outputs after it.
class Session {
 public:
  static Session load_memory(const std::vector<uint8_t>& bytes, const SessionOptions& options);

  /// Of the artefact, in their order; "" where it has but one.
  std::vector<std::string> functions() const;
  /// Names of the entries: one for each function and compiled combination of input shapes.
  std::vector<std::string> entries() const;
  /// Those of the session's function: their numbers, at least one.
  std::vector<int> own_entries() const;
  /// Of one of them, or of the first.
  std::vector<NamedType> inputs(int entry) const;
  std::vector<NamedType> inputs() const { return inputs(own_entries().front()); }
  /// The same at the extents that the shapes of some inputs say, as far as the entry takes them.
  std::vector<NamedType> inputs(int entry, const std::map<std::string, Shape>& given) const;
  std::vector<NamedType> outputs(int entry) const;
  std::vector<NamedType> outputs() const { return outputs(own_entries().front()); }
  /// What the artefact keeps, under the names of its inputs, and with the values that it begins with.
  std::vector<NamedType> states() const;
  std::vector<Array> initial_states() const;
  /// Whether a run leaves other values than it finds.
  bool changes_states() const;
  /// As the last run left it.
  std::vector<Array> kept_states() const { return get_states(state_.get()); }
  int threads() const;
  /// What the code is for: "x86-64-v4"; where the artefact has several levels, the one in use.
  std::string target() const;
  bool is_on_gpu() const { return target().starts_with("sm_"); }
  /// The entry for inputs of these types and shapes; a RuntimeFailure when there is none.
  int find_entry(const std::vector<Array>& inputs) const;

  /// Runs the entry of the shapes of `inputs` (in order) and returns the outputs. Wrong types or shapes are a
  /// RuntimeFailure.
  std::vector<Array> run(const std::vector<Array>& inputs);
  /// Binds inputs and outputs once, and sets the states; then run_bound() only runs.
  void bind(std::vector<Array> inputs);
  void run_bound();
  /// Runs `count` times in a row; how long each took, in ms: on a GPU the time of its own work, without copies from and
  /// to the host.
  std::vector<double> measure_bound(size_t count);

  /// Times of the last run's steps; needs SessionOptions::profile.
  std::vector<StepTime> last_profile() const;
  /// The entry that the last bind() or run() chose.
  int bound_entry() const;
  /// Names of the readable buffers of the bound entry, by index; empty names for others.
  std::vector<std::string> buffer_names() const;
  std::vector<std::byte> read_buffer(int index) const;

 private:
  struct Deleter {
    void operator()(TwModel* model) const;
    void operator()(TwContext* context) const;
    void operator()(TwState* state) const;
  };
  using Notice = std::function<void(const std::string& sentence)>;
  Session(TwModel* model, const TwOptions& options, std::unique_ptr<Notice> notice);
  void choose(const std::string& function);

  std::unique_ptr<Notice> notice_;  // the model and the context refer to it
  std::unique_ptr<TwModel, Deleter> model_;
  void set_states(std::span<const Array> values);
  std::vector<Array> get_states(TwState* state) const;

  std::unique_ptr<TwContext, Deleter> context_;
  std::unique_ptr<TwState, Deleter> state_;
  int function_ = 0;
  struct Bound;
  std::vector<NamedType> outputs_for(const Bound& bound) const;
  std::shared_ptr<Bound> bound_;
};

}  // namespace tw::artefact
