// The compiler as a function: ONNX in, artefact out. The phases are import, transform, plan, lower, code, assemble.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/precision.h"
#include "driver/cubins.h"
#include "driver/hal/hal.h"
#include "driver/tuner_options.h"
#include "frontend/onnx/import.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "plan/plan.h"
#include "runtime/format/container.h"
#include "tune/construct/construct.h"

namespace tw::driver {

/// Whether kernels of libraries race with ours where candidates are measured.
enum class Libraries : uint8_t { kNone, kAuto };

struct CompileOptions {
  /// A name of targets::find_target, or several CPU levels for one artefact: "cpu:x86-64-v4,cpu:x86-64-v3".
  std::string target = "cpu";
  hal::HalOptions hal;                                  // the figures of the target "cpu"
  std::vector<frontend::ImportOptions> imports = {{}};  // one for each combination of shapes; each becomes an entry
  Precision precision = Precision::kDefault;
  /// f32, f16 or bf16: what the model's f32 values are stored and multiplied as, where that keeps their meaning. Inputs
  /// and outputs keep their types.
  DataType dtype = DataType::f32();
  Libraries libraries = Libraries::kAuto;
  std::vector<std::string> disabled_passes;    // graph or loop passes by name
  std::vector<std::string> disabled_families;  // of the targets' constructors, by name
  bool all_optional_off = false;
  std::string plan_text;       // replay this plan instead of constructing one
  std::string dump_directory;  // IR after every pass, as NNN_phase_pass.txt
  std::string stop_after;      // pass name; no artefact is made
  int threads = 0;             // for code generation; 0: all
  CubinOptions cubins;         // GPU kernels: where they are compiled, and where they are kept
  /// Measuring, off unless there is a worker. Without a plan to replay: groups with several candidates.
  TunerOptions tuning;
  /// Called as phases go on: "import", "transform", "measure" (when there is something), "lower", "code", "assemble".
  std::function<void(std::string_view phase, int64_t done, int64_t total)> progress;
};

struct PassTime {
  std::string phase;
  std::string pass;
  int64_t nanoseconds = 0;
};

struct Compiled {
  format::Manifest manifest;
  std::map<std::string, std::vector<uint8_t>> sections;
  plan::Plan plan;
  std::vector<PassTime> times;
  int64_t kernels = 0;          // different ones
  int64_t winograd_groups = 0;  // of all entries: whose algorithm rounds more than its operator
  int64_t opset = 0;
  std::vector<std::string> warnings;
  std::vector<std::string> external_files;  // that the model was read from besides its own, absolute paths
  bool complete = true;  // all was measured that should have been: the budget sufficed, nobody interrupted
};

/// The libraries that may compute groups on `target`: those installed here that the options allow.
tune::Libraries usable_libraries(const CompileOptions& options, const TargetInfo& target);

/// Imports the model once for each of options.imports.
std::vector<frontend::ImportResult> import_file(const std::string& path, const CompileOptions& options);

/// Compiles one model for one or several combinations of input shapes into one artefact: an entry for each on each
/// target, kernels of a target and weights that are equal stored once. Throws UserError, Unsupported, UsageError,
/// ResourceError, InternalError.
Compiled compile_file(const std::string& path, const CompileOptions& options);
Compiled compile_imported(const std::vector<frontend::ImportResult>& models, const CompileOptions& options);
/// One combination of shapes.
Compiled compile_graph(const graph::Graph& source, const CompileOptions& options);

/// The bytes of the artefact, and the same written atomically to `path`.
std::vector<uint8_t> artefact_bytes(const Compiled& compiled);
void write_artefact(const Compiled& compiled, const std::string& path);

}  // namespace tw::driver
