// A value beside sums of its columns on GPUs: a thread computes a vector of columns at each row of a part, a few rows
// at a time, stores them and adds them to sums in its registers.
#include "construct/column_sums.h"

#include <algorithm>
#include <numeric>

#include "construct/elementwise.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

using schedule::Schedule;

constexpr int64_t kMaxThreads = 256;  // threads of a block
constexpr int64_t kSmThreads = 1024;  // resident threads of an SM that hide memory latency
constexpr int64_t kMinRows = 8;       // rows of a part: partial sums are an eighth of what is read
constexpr int64_t kMaxParts = 256;    // that one thread of the second kernel adds
constexpr int64_t kTogether = 4;      // rows loaded at once
constexpr size_t kPartCounts = 3;     // numbers of parts tried

// Elements of the widest type in memory that one access moves, of those that divide a row.
int64_t lanes_of(const schedule::ColumnSums& match, const TargetInfo& target) {
  const te::Compute& value = *match.program.find_compute(match.value);
  int64_t bytes = value.outputs[0].type.bytes();
  te::visit_reads(value, [&](const Expr& read) { bytes = std::max<int64_t>(bytes, read.type().bytes()); });
  return std::gcd(target.vector_bytes / bytes, match.reduction().axes.back().extent);
}

void schedule_threads(const SumsKernel& k, int64_t lanes, const TargetInfo& target, Schedule& s) {
  const std::string column = k.axes.back();
  std::vector<std::string> loops = k.axes;
  if (lanes > 1) {
    s.split(k.root, column, {lanes}).vectorize(k.root, column + ".1");
    loops.back() += ".0";
  }
  const int64_t points = te::num_points(k.program.find_compute(k.root)->axes) / lanes;
  const std::string thread = map_to_threads(s, k.root, loops, threads_for(points, kMaxThreads, target));
  s.compute_at(k.sums, k.root, thread, loop::Scope::kRegister);
  const int64_t together = std::gcd(kTogether, k.rows);
  s.split(k.sums, k.row, {together});
  std::vector<std::string> order(k.axes.begin(), k.axes.end() - 1);
  order.insert(order.end(), {k.row + ".0", k.row + ".1", column});
  s.reorder(k.sums, order);
  s.write_at(k.stored, k.sums, k.row + ".0").compute_at(k.value, k.sums, k.row + ".0", loop::Scope::kRegister);
  s.unroll(k.sums, k.row + ".1");
  if (lanes > 1) s.vectorize(k.sums, column);
  for (const std::string& stage : {k.stored, k.value}) {
    const std::vector<std::string> axes = te::axis_names(k.program.find_compute(stage)->axes);
    for (size_t d = 0; d + 1 < axes.size(); ++d) s.unroll(stage, axes[d]);
    if (lanes > 1) s.vectorize(stage, axes.back());
  }
}

}  // namespace

Result<Candidates> construct_gpu_sums(const GroupTask& task, const TargetInfo& target) {
  Construction base;
  const Result<schedule::ColumnSums> match = schedule::match_column_sums(base.schedule, task.program);
  if (!match.ok()) return Reason{match.reason()};
  const int64_t lanes = lanes_of(*match, target), rows = match->row().extent;
  const int64_t threads = te::num_points(match->reduction().axes) / lanes;  // of one part
  const int64_t enough = ceil_div(std::max(1, target.compute_units) * kSmThreads, threads);
  Candidates candidates;
  for (const int64_t parts : part_counts(rows, std::min({enough, rows / kMinRows, kMaxParts}), kPartCounts)) {
    Construction candidate = base;
    const Result<SumsKernel> kernel = split_rows(*match, parts, target, add_parts_on_gpu, candidate.schedule);
    if (!kernel.ok()) continue;
    schedule_threads(*kernel, lanes, target, candidate.schedule);
    candidate.trace = {
        fmt::format("{} columns by a thread, {} rows of a part, sums in {} parts", lanes, kernel->rows, parts)};
    candidates.push_back(std::move(candidate));
  }
  if (candidates.empty()) return declined("the parts of {} cannot be added", match->sum);
  return candidates;
}

}  // namespace tw::construct
