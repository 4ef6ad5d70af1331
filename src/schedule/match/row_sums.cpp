#include "schedule/match/row_sums.h"

#include "core/target_info.h"
#include "te/reads.h"

namespace tw::schedule {
namespace {

// Whether terms are of a row and a column: each read has the column last, or does not move with it.
bool sums_columns(const te::Compute& c) {
  if (!c.is_reduction() || c.combiner.kind == te::CombinerKind::kTuple || c.axes.size() != 1 ||
      c.reduce_axes.size() != 1)
    return false;
  const std::string& column = c.axes[0].name;
  bool found = false, only = true;
  te::visit_reads(c, [&](const Expr& read) {
    const bool uses = te::uses_axis(read, column);
    const auto last = static_cast<int>(read->args.size()) - 1;
    found = found || uses;
    only = only && (!uses || (te::dim_of_axis(read, column) == last && !read->predicated));
  });
  return found && only;
}

// The only one of several reductions that keeps columns.
Result<std::string> find_sum(const te::Program& program) {
  std::string found;
  for (const te::Compute& c : program.computes) {
    if (!sums_columns(c)) continue;
    if (!found.empty()) return declined("{} and {} both sum columns", found, c.name());
    found = c.name();
  }
  if (found.empty()) return declined("no sum of columns");
  return found;
}

// The terms of the sums, at [row, column].
te::Compute terms_of(const te::Compute& sum) {
  te::Compute terms;
  terms.axes = {{"i0", sum.reduce_axes[0].extent}, {"i1", sum.axes[0].extent}};
  const VarMap values = {{sum.reduce_axes[0].name, terms.axes[0].var()}, {sum.axes[0].name, terms.axes[1].var()}};
  for (size_t k = 0; k < sum.body.size(); ++k) {
    terms.body.push_back(substitute(sum.body[k], values));
    terms.outputs.push_back({sum.outputs[k].name, sum.outputs[k].type, te::shape_of(terms.axes)});
  }
  return terms;
}

// Whether the threads of a GPU's block can have equal shares of a row, few enough for their registers.
bool has_equal_shares(int64_t length) {
  constexpr int64_t kMostThreads = 1024, kMostElements = 16;
  for (int64_t threads = kWarpThreads; threads <= kMostThreads; threads += kWarpThreads) {
    if (length % threads == 0 && length / threads <= kMostElements) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> RowSums::sums_that_leave() const {
  std::vector<std::string> leaving = program.outputs;
  std::erase_if(leaving, [&](const std::string& name) { return rows.statistics.contains(name); });
  return leaving;
}

Result<RowSums> match_row_sums(Schedule& s, const te::Program& program) {
  RowSums out;
  Schedule done;
  out.program = inline_stages(done, program, [&](const te::Compute& c) { return is_once_a_row(program, c); });
  const Result<std::string> sum = find_sum(out.program);
  if (!sum.ok()) return Reason{sum.reason()};
  out.sum = *sum;
  if (has_empty_axis(out.reduction())) return declined("{} has an axis of extent 0", out.sum);
  const int64_t columns = out.reduction().axes[0].extent;
  if (!has_equal_shares(columns)) return declined("rows of {} elements are no equal shares of threads", columns);
  const Result<std::string> output = epilogue_output(out.program, out.reduction());
  if (!output.ok()) return Reason{output.reason()};
  out.output = *output;
  const auto is_of_rows = [&](const te::Compute& c) {
    return c.name() != out.sum && !te::depends_on(out.program, c, out.sum);
  };
  std::vector<std::string> leaving;
  for (const te::Compute& c : out.program.computes) {
    if (!is_of_rows(c)) continue;
    if (c.outputs.size() != 1) return declined("{} has several outputs", c.name());
    if (out.program.is_output(c.name())) leaving.push_back(c.name());
  }
  part_outputs(done, leaving, {out.program, out.rows.statistics, out.rows.kept});
  te::Program& rows = out.rows.program;
  rows = out.program;
  std::erase_if(rows.computes, [&](const te::Compute& c) { return !is_of_rows(c); });
  const bool reduces = std::ranges::any_of(rows.computes, &te::Compute::is_reduction);
  if (!reduces) return declined("no row is reduced");
  rows.computes.push_back(terms_of(out.reduction()));
  rows.outputs = leaving;
  for (const te::Tensor& t : rows.computes.back().outputs) rows.outputs.push_back(t.name);
  out.rows.rows = common_rows(rows);
  if (out.rows.rows != 1) return declined("stages of its rows share {} axes", out.rows.rows);
  te::visit_reads(out.reduction(), [&](const Expr& read) {
    if (te::dim_of_axis(read, out.row().name) == 0) out.read = read->name;
  });
  if (out.read.empty()) return declined("{} reads no rows", out.sum);
  const int64_t count = out.row().extent;
  for (const te::Compute& c : rows.computes) {
    if (c.axes.empty() || c.axes[0].extent != count) return declined("{} is not of the rows", c.name());
  }
  for (const Primitive& p : done.primitives()) s.add(p);
  return out;
}

}  // namespace tw::schedule
