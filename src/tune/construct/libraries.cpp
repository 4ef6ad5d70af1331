// Kernels of NVIDIA's libraries. What a library does not do is declined here; which of its algorithms is the fastest,
// and whether one of them beats our own kernels, only measuring tells.
#include "tune/construct/implementable.h"

namespace tw::tune {

using format::Problem;

Result<Candidates> construct_cublaslt(const GroupTask& task, const TargetInfo&) {
  constexpr int64_t kAlgorithms = 5;
  const auto installed = task.libraries.find("cublaslt");
  if (installed == task.libraries.end()) return declined("not installed, not asked for, or nothing is measured");
  const Result<Implementable> match = match_implementable(task);
  if (!match.ok()) return Reason{match.reason()};
  const Problem& p = match->problem;
  if (const std::string refusal = format::cublaslt_refusal(p); !refusal.empty()) return declined("{}", refusal);
  Candidates candidates;
  for (int64_t i = 0; i < kAlgorithms; ++i) {
    candidates.push_back(match->by(to_string(format::LibraryCall{"cublaslt", installed->second, i, p})));
    candidates.back().trace = {fmt::format("algorithm {} of those that cuBLASLt's heuristics name", i)};
  }
  return candidates;
}

}  // namespace tw::tune
