#include "targets/cuda_sm90/templates.h"

#include <algorithm>

#include "tune/construct/implementable.h"
#ifdef TW_HAVE_CUDA
#include "templates/fit.h"
#include "templates/library.h"
#endif

namespace tw::targets {

#ifdef TW_HAVE_CUDA
namespace {

using templates::Fit;
using templates::Row;
using templates::TemplateLibrary;

constexpr size_t kMostRows = 8;       // that are measured
constexpr double kCyclesPerNs = 1.7;  // of NVIDIA's data center GPUs since Ampere, about

// Rows whose kernel with this very epilogue is built, best first. Where there is none, the best row that is built
// without epilogue: it is compiled with this one when it is tried, which takes as long as all measuring.
Result<std::vector<const Row*>> find_rows(const Fit& fit, const TargetInfo& target) {
  const TemplateLibrary library({templates::template_folder()});
  const std::vector<const Row*> fitting = templates::ranked(fit.product, target);
  std::string reason = fitting.empty() ? refusal(templates::rows().front(), fit.product, target) : "";
  std::vector<const Row*> exact, plain;
  for (const Row* row : fitting) {
    if (row->stream_k || row->family == templates::Family::kConvSm90) continue;  // not yet: docs/adr/0019
    reason = templates::refusal(*row, fit.epilogue, fit.product.output);
    if (!reason.empty()) continue;
    templates::Instance instance = fit.instance(*row);
    const Result<templates::BuiltTemplate> built = library.find(instance);
    if (built.ok()) exact.push_back(row);
    if (exact.size() == kMostRows) break;
    instance.epilogue = {};
    if (!built.ok()) reason = built.reason();
    if (exact.empty() && plain.empty() && library.find(instance).ok()) plain.push_back(row);
  }
  if (exact.empty()) exact = plain;
  if (exact.empty()) return declined("{}", reason);
  return exact;
}

// Constants can be stored as templates want them: a product's right side by rows.
void turn_constants(const tune::GroupTask& task, Fit& fit, tune::Implementable& match) {
  const std::string& b = match.problem.b.name;
  if (!task.constants.contains(b)) return;
  const bool turned = fit.b_turned || (!fit.product.is_conv && !fit.product.b_by_rows && fit.product.batch == 1);
  if (!turned) return;
  const size_t rank = task.program.tensor(b).shape.size();
  std::vector<int64_t> dims;
  for (size_t d = rank; d > 0; --d) dims.push_back(static_cast<int64_t>(d) - 1);

  match.layouts[b] = match.layouts[b].reorder(dims);
  if (fit.b_turned) return;
  match.problem.b.transposed = false;
  match.problem.b.line = match.problem.n;
  fit.product.b_by_rows = true;
}

}  // namespace

Result<tune::Candidates> construct_templates(const tune::GroupTask& task, const TargetInfo& target) {
  Result<tune::Implementable> found = tune::match_implementable(task);
  if (!found) return Reason{found.reason()};
  tune::Implementable match = std::move(found).value();
  Result<Fit> fitted = templates::fit(match.problem);
  if (!fitted) return Reason{fitted.reason()};
  Fit fit = std::move(fitted).value();
  if (fit.b_turned && !task.constants.contains(match.problem.b.name)) return declined("filters that are computed");
  const bool is_constant = task.constants.contains(match.problem.b.name);
  if (is_constant &&
      num_elements(task.program.tensor(match.problem.b.name).shape) != match.problem.span(match.problem.b))
    return declined("a part of a constant");
  turn_constants(task, fit, match);
  const Result<std::vector<const Row*>> rows = find_rows(fit, target);
  if (!rows) return Reason{rows.reason()};
  tune::Candidates candidates;
  for (const Row* row : *rows) {
    candidates.push_back(match.by(to_string(templates::Implementation{*row, match.problem})));
    candidates.back().predicted_ns = predicted_cycles(*row, fit.product, target) / kCyclesPerNs;
    candidates.back().trace = {fmt::format("row {} of the template library", name_of(*row))};
  }
  return candidates;
}

#else

Result<tune::Candidates> construct_templates(const tune::GroupTask&, const TargetInfo&) {
  return declined("this build has no CUDA (TW_CUDA=OFF)");
}

#endif

}  // namespace tw::targets
