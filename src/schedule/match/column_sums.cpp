#include "schedule/match/column_sums.h"

#include "schedule/match/stages.h"
#include "te/reads.h"

namespace tw::schedule {
namespace {

// Whether the sum reads the value at [axes with one row axis among them, in their order].
bool reads_as_columns(const te::Compute& sum, const Expr& read, int row_dim) {
  std::vector<std::string> names;
  for (const Expr& index : read->args) {
    if (!index.is_var()) return false;
    names.push_back(index->name);
  }
  if (row_dim < 0 || row_dim + 1 == static_cast<int>(names.size()) || read->predicated) return false;
  names.erase(names.begin() + row_dim);
  return std::ranges::equal(names, sum.axes, {}, {}, &te::Axis::name);
}

}  // namespace

std::vector<std::string> ColumnSums::sums_that_leave() const {
  std::vector<std::string> others = program.outputs;
  std::erase(others, value);
  return others;
}

Result<ColumnSums> match_column_sums(Schedule& s, const te::Program& program) {
  ColumnSums out;
  out.program = inline_stages(s, program);
  const Result<const te::Compute*> only = only_reduction(out.program);
  if (!only.ok()) return Reason{only.reason()};
  const te::Compute& sum = **only;
  out.sum = sum.name();
  if (has_empty_axis(sum) || sum.axes.empty() || sum.reduce_axes.size() != 1)
    return declined("{} is no reduction over one axis that keeps columns", out.sum);
  const auto sums_all = [](const Expr& body) { return te::summed_term(body).same(body); };
  if (!std::ranges::all_of(sum.body, sums_all)) return declined("{} sums some of the rows only", out.sum);
  const Result<std::string> output = epilogue_output(out.program, sum);
  if (!output.ok()) return Reason{output.reason()};
  out.output = *output;
  for (const te::Compute& c : out.program.computes) {
    const bool behind = c.name() == out.sum || te::depends_on(out.program, c, out.sum);
    if (behind) continue;
    if (!out.value.empty()) return declined("{} and {} are both computed before {}", out.value, c.name(), out.sum);
    out.value = c.name();
  }
  if (out.value.empty() || !out.program.is_output(out.value)) return declined("no value leaves beside {}", out.sum);
  const te::Compute& value = *out.program.find_compute(out.value);
  const std::vector<Expr> reads = te::distinct_reads(sum, out.value);
  for (const te::Compute& c : out.program.computes) {
    if (c.name() != out.sum && te::count_reads(c, out.value) > 0)
      return declined("{} reads {} after {}", c.name(), out.value, out.sum);
  }
  if (value.outputs.size() != 1 || reads.size() != 1) return declined("{} does not read {} once", out.sum, out.value);
  out.row_dim = te::dim_of_axis(reads[0], out.row().name);
  if (!reads_as_columns(sum, reads[0], out.row_dim))
    return declined("{} does not combine rows of {} element by element", out.sum, out.value);
  const size_t sums = out.output == out.sum ? sum.outputs.size() : 1;
  if (out.program.outputs.size() != 1 + sums) return declined("{} outputs", out.program.outputs.size());
  return out;
}

}  // namespace tw::schedule
