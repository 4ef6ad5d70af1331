// Kernels of NVIDIA's libraries. What a library does not do is declined here; which of the ways that it offers is the
// fastest, and whether one of them beats our own kernels, only measuring tells.
#include "construct/library/implementable.h"

namespace tw::construct {
namespace {

Result<Candidates> construct_calls(const GroupTask& task, const std::string& library) {
  const auto installed = task.libraries.find(library);
  if (installed == task.libraries.end()) return declined("not installed, not asked for, or nothing is measured");
  const Result<Implementable> match = match_implementable(task);
  if (!match.ok()) return Reason{match.reason()};
  const Result<format::ProblemDescriptor> problem = with_epilogue(match->problem, match->epilogue, task.precision);
  if (!problem.ok()) return Reason{problem.reason()};
  const std::string reason = format::why_declined({library, 0, 0, *problem});
  if (!reason.empty()) return declined("{}", reason);
  const Result<std::vector<format::LibraryCall>> offers = installed->second.offers(*problem);
  if (!offers.ok()) return Reason{offers.reason()};
  Candidates candidates;
  for (const format::LibraryCall& call : *offers) {
    candidates.push_back(match->by(call));
    candidates.back().trace = {fmt::format("number {} of what {}'s heuristics name", candidates.size() - 1, library)};
  }
  return candidates;
}

}  // namespace

Result<Candidates> construct_cublaslt(const GroupTask& task, const TargetInfo&) {
  return construct_calls(task, "cublaslt");
}

Result<Candidates> construct_cudnn(const GroupTask& task, const TargetInfo&) { return construct_calls(task, "cudnn"); }

}  // namespace tw::construct
