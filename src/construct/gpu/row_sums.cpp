// Rows that are reduced and leave beside sums of their columns (schedule/match/row_sums.h), on GPUs: a block takes the
// rows of its part one after the other, or two at a time, whose elements its threads hold, and adds to sums that they
// hold, too. Memory gets a row of sums of each part, which a second kernel adds.
#include "schedule/match/row_sums.h"

#include <algorithm>

#include "construct/column_sums.h"
#include "construct/gpu/block_rows.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

constexpr int64_t kSmThreads = 1024;  // resident threads of an SM that hide memory latency
constexpr int64_t kMinRows = 8;       // rows of a part: partial sums are an eighth of what is read
constexpr int64_t kMaxParts = 512;    // that one thread of the second kernel adds
constexpr size_t kPartCounts = 3;     // numbers of parts tried

// How a block goes through its rows.
struct Way {
  int64_t elements, together;  // of a row that a thread has; rows at once
};
constexpr Way kWays[] = {{8, 2}, {8, 1}, {16, 1}, {32, 1}};

// What follows the sums reads nothing that the rows hold: it is of another kernel.
bool is_apart(const schedule::RowSums& match) {
  const std::map<std::string, int> of_rows = te::count_reads(match.rows.program);
  return std::ranges::none_of(match.program.computes, [&](const te::Compute& c) {
    return te::depends_on(match.program, c, match.sum) &&
           std::ranges::any_of(match.program.inputs, [&](const te::Tensor& t) {
             return te::count_reads(c, t.name) > 0 && of_rows.contains(t.name);
           });
  });
}

// The sums, beside the stages of the rows: their axes are the part, then those of the row's layout, then the rows.
void schedule_sums(const SumsKernel& k, const RowMapping& mapping, int64_t together, schedule::Schedule& s) {
  const std::string part = k.axes.front(), column = k.axes.back();
  s.layout(k.sums, mapping.layout(1));
  s.split(k.root, part, {1});
  mapping.map_to_threads(s, k.root, part + ".1", column);
  s.parallel(k.root, {part + ".0"});
  s.compute_at(k.sums, k.root, part + ".0", loop::Scope::kRegister);
  s.split(k.sums, k.row, {together});
  s.reorder(k.sums, {"i0", k.row + ".0", k.row + ".1", "i1", "i2", "i3"});
  s.unroll(k.sums, k.row + ".1");
  mapping.map_axes_to_threads(s, k.sums, 1);
}

// Why rows do not fit; empty when they do.
std::string add_candidates(const schedule::RowSums& match, const Construction& base, const Way& way,
                           const TargetInfo& target, Candidates& candidates) {
  const auto sums = std::ssize(match.reduction().outputs);
  Construction held = base;
  BlockRows rows(match.rows, target, held);
  const std::string reason = rows.why_declined();
  if (!reason.empty() && reason != BlockRows::kTooLong) return reason;
  if (!rows.fits_turns(way.elements, sums, way.together)) return "rows longer than the registers of a block hold";
  rows.lay_out_kept();
  const int64_t count = match.row().extent, threads = rows.mapping().threads;
  const int64_t enough = std::max(1, target.compute_units) * kSmThreads / threads;
  const SumOfRows sum{match.program, match.sum, match.output, match.sums_that_leave()};
  for (const int64_t parts : part_counts(count, std::min({enough, count / kMinRows, kMaxParts}), kPartCounts)) {
    if (parts == 1 || count / parts % way.together != 0) continue;
    Construction candidate = held;
    const Result<SumsKernel> kernel = split_rows(sum, parts, target, add_parts_on_gpu, candidate.schedule);
    if (!kernel.ok()) return kernel.reason();
    schedule_sums(*kernel, rows.mapping(), way.together, candidate.schedule);
    rows.schedule_turns(
        {kernel->root, kernel->axes.front() + ".0", kernel->sums, kernel->row + ".0", rows.held_name(match.read)},
        candidate.schedule);
    candidate.trace = {
        fmt::format("{} rows at once, {} of a part, {} threads a row, {} times {} elements a thread, "
                    "sums in {} parts",
                    way.together, kernel->rows, threads, rows.mapping().chunks(), rows.mapping().lanes, parts)};
    candidates.push_back(std::move(candidate));
  }
  return "";
}

}  // namespace

Result<Candidates> construct_gpu_row_sums(const GroupTask& task, const TargetInfo& target) {
  Construction base;
  const Result<schedule::RowSums> match = schedule::match_row_sums(base.schedule, task.program);
  if (!match.ok()) return Reason{match.reason()};
  if (!is_apart(*match)) return declined("what follows {} reads what its rows read", match->sum);
  Candidates candidates;
  std::string reason;
  for (const Way& way : kWays) {
    const std::string why = add_candidates(*match, base, way, target, candidates);
    if (reason.empty()) reason = why;
  }
  if (candidates.empty()) return declined("{}", reason.empty() ? "its rows are no parts of several" : reason);
  return candidates;
}

}  // namespace tw::construct
