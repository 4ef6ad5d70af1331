#include <algorithm>

#include "construct/library/implementable.h"
#include "support/join.h"
#include "targets/registry.h"
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

constexpr size_t kMaxRows = 8;  // template rows measured of a group

// Why there is no kernel of a row that computes it.
std::string why_not_built(const Fit& fit, bool can_build) {
  const templates::GemmDescriptor& p = fit.product;
  if (!p.a_by_rows) return "kernels are built for left sides that lie by rows";
  if (p.output != p.operand) return "no kernel with results in f32: 'tilewright templates build --epilogue none_f32'";
  return can_build ? "not built: 'tilewright templates build' does it"
                   : "no kernel with this epilogue is built, and nvcc or CUTLASS is missing to compile one";
}

// Rows whose kernel with this very epilogue is built, best first, and those that are built without epilogue where
// theirs can be compiled: autotuning decides whether it is (driver/code/template_code.h).
Result<std::vector<const Row*>> find_rows(const Fit& fit, const TargetInfo& target, bool stored_b) {
  const TemplateLibrary library({templates::template_folder()});
  const std::vector<const Row*> fitting = templates::ranked(fit.product, target);
  const auto row_of_kind = std::ranges::find_if(templates::rows(), [&](const Row& row) {
    return templates::is_conv(row.family) == fit.product.is_conv && templates::is_for(row.family, target.name);
  });
  std::string reason = fitting.empty() ? why_declined(*row_of_kind, fit.product, target) : "";
  const bool can_build = library.can_build();
  const Fit plain = fit.without_epilogue();
  std::vector<const Row*> found;
  for (const Row* row : fitting) {
    reason = templates::why_declined(*row, fit.epilogue, fit.product.output);
    if (reason.empty() && row->family == templates::Family::kConvSm90 && !stored_b) reason = "filters are computed";
    if (!reason.empty()) continue;
    if (library.find(fit.instance(*row, target.name)).ok() ||
        (can_build && library.find(plain.instance(*row, target.name)).ok()))
      found.push_back(row);
    if (found.size() == kMaxRows) break;
    reason = why_not_built(fit, can_build);
  }
  if (found.empty()) return declined("{}", reason);
  return found;
}

// Constants are stored as instances are built: right sides of products by rows, of tf32 by columns.
void turn_constants(const construct::GroupTask& task, Fit& fit, construct::Implementable& match) {
  format::Operand& b = match.problem.b;
  const bool by_rows = fit.product.operand != DataType::f32();
  if (!task.kept.contains(b.name) || fit.product.is_conv || fit.product.batch != 1 || fit.product.b_by_rows == by_rows)
    return;
  const size_t rank = task.program.tensor(b.name).shape.size();
  std::vector<int64_t> dims;
  for (size_t d = rank; d > 0; --d) dims.push_back(static_cast<int64_t>(d) - 1);
  match.layouts[b.name] = match.layouts[b.name].reorder(dims);
  b.transposed = !by_rows;
  b.line = by_rows ? match.problem.n : match.problem.k;
  fit.product.b_by_rows = by_rows;
}

}  // namespace

Result<construct::Candidates> construct_templates(const construct::GroupTask& task, const TargetInfo& target) {
  Result<construct::Implementable> found = construct::match_implementable(task);
  if (!found) return Reason{found.reason()};
  construct::Implementable match = std::move(found).value();
  match.problem = templates::as_product(std::move(match.problem));
  Result<Fit> fitted = templates::fit(match.problem, match.epilogue);
  if (!fitted) return Reason{fitted.reason()};
  Fit fit = std::move(fitted).value();
  const std::string& b = match.problem.b.name;
  const bool is_kept = task.kept.contains(b);
  if (is_kept && num_elements(task.program.tensor(b).shape) != match.problem.span(match.problem.b))
    return declined("a part of a constant");
  turn_constants(task, fit, match);
  const Result<std::vector<const Row*>> rows = find_rows(fit, target, is_kept);
  if (!rows) return Reason{rows.reason()};
  // TMA convolutions want filters inside of the window's pixels.
  std::vector<int64_t> by_pixel = sequence(task.program.tensor(b).shape.size());
  std::rotate(by_pixel.begin(), by_pixel.begin() + 1, by_pixel.end() - 1);
  construct::Candidates candidates;
  for (const Row* row : *rows) {
    construct::Implementable stored = match;
    if (row->family == templates::Family::kConvSm90) stored.layouts[b] = stored.layouts[b].reorder(by_pixel);
    candidates.push_back(stored.by(loop::TemplateCall{name_of(*row), match.problem, match.epilogue}));
    candidates.back().predicted_ns = predicted_cycles(*row, fit.product, target) / target.sm.cycles_per_ns;
    candidates.back().trace = {fmt::format("row {} of the template library", name_of(*row))};
  }
  return candidates;
}

#else

Result<construct::Candidates> construct_templates(const construct::GroupTask&, const TargetInfo&) {
  return declined("this build has no CUDA (TW_CUDA=OFF)");
}

#endif

}  // namespace tw::targets
