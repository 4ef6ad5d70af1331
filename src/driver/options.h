// What a caller of the compiler may choose.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "construct/construct.h"
#include "core/precision.h"
#include "driver/code/cubins.h"
#include "driver/machine/machine.h"
#include "driver/tune/tuner_options.h"
#include "frontend/onnx/import.h"
#include "support/shared_bytes.h"
#include "support/work_watch.h"

namespace tw::driver {

struct Like;

/// Whether steps of a GPU that need nothing of each other run side by side.
enum class Branches : uint8_t { kNone, kAuto };

/// Whether kernels of libraries are autotune candidates where candidates are measured.
enum class LibraryUse : uint8_t { kNone, kAuto };

/// How values between groups are stored: as costs predict, or as all layouts of all groups were measured.
enum class LayoutUse : uint8_t { kPredicted, kMeasured };

/// Whether all entries store a weight as the largest of them likes it best, or each as it does.
enum class Packing : uint8_t { kShared, kOwn };

/// Row-major elements; of a trained model as many bytes as it has, so nobody copies them.
struct InitialValue {
  TensorType type;
  SharedBytes bytes;

  explicit InitialValue(const graph::RefTensor& value) : type(value.type), bytes(share(value.to_bytes())) {}
  InitialValue(TensorType its_type, SharedBytes its_bytes) : type(std::move(its_type)), bytes(std::move(its_bytes)) {}
  graph::RefTensor elements() const { return graph::RefTensor::from_bytes(type, *bytes); }
};

/// An input and an output of the model that the artefact keeps from one run to the next instead.
struct StatePair {
  /// A tensor that callers see in the state: the elements behind those of the parts before it. `order` has its dims
  /// from the outermost to the innermost; empty: row by row.
  struct Part {
    std::string name;
    Shape shape;
    std::vector<int64_t> order = {};
  };
  std::string input, output;
  std::optional<InitialValue> initial = {};  // before the first run; none: zeros
  std::vector<Part> parts = {};              // what callers see instead of the state, which lies row by row then
};

/// Of dims that may be smaller than a combination of shapes says (--dim NAME=1..8): the smallest extent that its entry
/// serves.
using LeastExtents = std::map<std::string, int64_t>;

/// What decides, besides the target and what is measured, the graph before groups are formed. An artefact keeps these
/// options, so that refit makes the same graph of other weights.
struct ModelOptions {
  std::vector<frontend::ImportOptions> imports = {
      {.counts_rows = true}};            // one for each combination of shapes; each becomes an entry
  std::vector<LeastExtents> least = {};  // of each of `imports`; empty: none has a range
  Precision precision = Precision::kDefault;
  /// f32, f16 or bf16: what the model's f32 values are stored and multiplied as, where that keeps their meaning. Inputs
  /// and outputs keep their types.
  DataType dtype = DataType::f32();
  std::vector<std::string> disabled_passes;    // graph or loop passes by name
  std::vector<std::string> disabled_families;  // of the targets' constructors, by name
  bool all_optional_off = false;
  std::vector<StatePair> states;
};

/// What can be said in words has a row in option_table.cpp; what cannot is said by whoever embeds the compiler: imports
/// with tensors in them, workers, functions that are called.
struct CompileOptions : ModelOptions {
  /// A name of targets::find_target, or several CPU levels for one artefact: "cpu:x86-64-v4,cpu:x86-64-v3".
  std::string target = "cpu";
  machine::MachineOptions machine_model;  // the machine parameters of the target "cpu"
  LibraryUse libraries = LibraryUse::kAuto;
  Branches branches = Branches::kNone;
  LayoutUse layouts = LayoutUse::kPredicted;
  Packing packing = Packing::kShared;
  std::string plan_text;                  // replay this plan instead of constructing one
  std::shared_ptr<const Like> like = {};  // an artefact of the same model, see driver/like.h; null: none
  std::string dump_directory;             // IR after every pass, as NNN_phase_pass.txt
  std::string stop_after;                 // pass name; no artefact is made
  int threads = 0;                        // for code generation; 0: all
  bool no_measure = false;                // whatever `tuning` holds
  bool no_cache = false;                  // the cache of artefacts is neither asked nor filled
  CubinOptions cubins;                    // GPU kernels: where they are compiled, and where they are kept
  /// Measuring, off unless there is a worker. Without a plan to replay: groups with several candidates.
  TunerOptions tuning;
  WorkLimits limits;                 // of the import, the passes and lowering
  std::shared_ptr<WorkWatch> watch;  // of these limits, see start_watch(); null: unlimited
  /// Reads the array in a file, where an option names one (--const); unset: such options are refused.
  std::function<graph::RefTensor(const std::string& file)> read_array;
  /// Called as phases go on: "import", "transform", "measure" (when there is something), "lower", "code", "assemble".
  std::function<void(std::string_view phase, int64_t done, int64_t total)> progress;
};

/// Of combination `m` of the shapes.
inline LeastExtents least_of(const ModelOptions& options, size_t m) {
  return m < options.least.size() ? options.least[m] : LeastExtents();
}
/// Whether candidates are measured, or looked up among those that were.
bool is_measured(const CompileOptions& options);
/// The time of options.limits begins now: makes the watch, and has the imports watched too.
void start_watch(CompileOptions& options);
/// UsageError when two options contradict each other. What follows from one option for the fields of another is there
/// afterwards: measuring all candidates leaves out none, measuring nothing needs no worker.
void settle(CompileOptions& options);
/// The libraries that may compute groups on `target`: those installed here that the options allow.
construct::Libraries usable_libraries(const CompileOptions& options, const TargetInfo& target);

}  // namespace tw::driver
