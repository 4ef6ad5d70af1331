// Code generation for the chosen target: the place where the driver picks a code generator.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/target_info.h"
#include "driver/code/cubins.h"
#include "driver/code/program_code.h"
#include "loop/loop.h"
#include "runtime/format/manifest.h"
#include "support/error.h"

namespace tw::driver {

struct Generated {
  std::vector<ProgramCode> programs;  // one for each loop program
  format::ManifestTarget target;
};

/// What generation goes by.
struct CodeTools {
  int threads = 0;  // that are used; 0: all CPUs
  Cubins& cubins;
  bool mainloop_only = false;  // instead of what takes a compiler of templates long (ProgramCode::is_mainloop_only)
  std::atomic<int64_t>* compilations = nullptr;  // counts texts that NVRTC is given
  /// Called by the calling thread between its programs; what it throws ends the work.
  std::function<void(int64_t done)> progress = {};
};

/// Machine code of all programs for `target`. Unsupported when this build leaves the target's code generator out.
Generated generate(std::span<const CodeTask> tasks, const TargetInfo& target, const CodeTools& tools);

/// A program as the text that machine code is made of, to be read: "cuda" C++, or "llvm" assembly as optimized.
struct CodeText {
  std::string language;
  std::string text;  // empty where a library or a template computes the program, or this build cannot generate code
};
CodeText code_text(const CodeTask& task, const TargetInfo& target);

/// Versions of all that makes machine code for `target` of a te program and a schedule, a line each: equal texts, equal
/// code. Says nothing of libraries, whose calls hold versions of their own.
std::string code_versions(const TargetInfo& target);

/// Whether CUDA code can be generated here: a reason when this build leaves it out or NVRTC is not installed.
Result<bool> cuda_generation_available();
/// The GPU here that runs code for the target of this name ("cuda:sm_90a"), or why there is none.
Result<std::string> find_gpu(const std::string& target);

}  // namespace tw::driver
