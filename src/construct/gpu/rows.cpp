// Reductions along rows on GPUs: softmax, layer norm, means. A tile is one row or a few; the threads of a row keep its
// elements, so that each is read from memory once, and combine their partial results.
#include <algorithm>
#include <numeric>

#include "construct/elementwise.h"
#include "construct/gpu/block_rows.h"
#include "schedule/match/stages.h"
#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::construct {
namespace {

constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kFewElements = 8;  // in flight of a thread, where there is one sum

// Constants whose elements a sum meets apart from each other are stored with its axis last: the matrix of a product
// with a vector.
std::map<std::string, Layout> layouts_along_sums(const GroupTask& task) {
  std::map<std::string, Layout> layouts;
  for (const te::Compute& c : task.program.computes) {
    if (c.reduce_axes.size() != 1) continue;
    te::visit_reads(c, [&](const Expr& read) {
      const int dim = te::dim_of_axis(read, c.reduce_axes[0].name);
      const auto last = static_cast<int>(read->args.size()) - 1;
      if (!task.kept.contains(read->name) || dim < 0 || dim == last) return;
      layouts[read->name] = dim_last(read->args.size(), dim);
    });
  }
  return layouts;
}

// All elements in one sum: tiles sum parts of them as rows, and one thread adds those.
Result<Candidates> construct_total(const GroupTask& task, const TargetInfo& target) {
  constexpr int64_t kMaxParts = 128;  // parts loaded at once
  Construction out;
  schedule::Schedule& s = out.schedule;
  const Result<schedule::Total> found = schedule::match_total(s, task.program);
  if (!found.ok()) return Reason{found.reason()};
  if (found->sums.size() != 1 || task.program.outputs.size() != 1) return declined("several reductions, or outputs");
  const te::Program& program = found->program;
  const te::Compute& sum = *program.find_compute(found->sums[0]);
  const auto& [elements, length] = sum.reduce_axes[0];
  if (length < kWarpThreads) return declined("rows shorter than a warp");
  int64_t bytes = 1, parts = kMaxParts;
  for (const te::Tensor& input : program.inputs) bytes = std::max<int64_t>(bytes, input.type.bytes());
  while (parts > 1 && (length % parts != 0 || length / parts < kMaxThreads * kFewElements)) parts /= 2;
  const int64_t lanes = std::gcd<int64_t>(length / parts, target.vector_bytes / bytes);
  const RowMapping mapping = row_mapping(length / parts, lanes, kFewElements);
  const std::string partial = sum.name() + ".rf", part = fmt::format("i{}", sum.axes.size());
  s.rfactor_blocks(sum.name(), elements, parts).split(partial, part, {1});
  mapping.map_to_threads(s, partial, part + ".1", elements);
  std::vector<std::string> tiles = axis_names(sum.axes);
  tiles.push_back(part + ".0");
  s.parallel(partial, tiles).unroll(sum.name(), "r0");
  out.trace = {fmt::format("{} parts, {} threads each, {} times {} elements a thread", parts, mapping.threads,
                           mapping.chunks(), mapping.lanes)};
  return Candidates{std::move(out)};
}

}  // namespace

Result<Candidates> construct_gpu_rows(const GroupTask& task, const TargetInfo& target) {
  if (!task.program.computes.empty() && te::num_points(task.program.computes.back().axes) == 1) {
    Result<Candidates> total = construct_total(task, target);
    if (total.ok() || task.program.computes.back().axes.empty()) return total;
  }
  Construction out;
  out.constant_layouts = layouts_along_sums(task);
  const Result<schedule::RowProgram> found =
      schedule::row_program(out.schedule, te::apply_layouts(task.program, out.constant_layouts));
  if (!found.ok()) return Reason{found.reason()};
  // As they are and, where a tile's memory keeps what is made of a row, with that computed where it is read: first
  // where inputs would be read again for it.
  schedule::RowProgram rows = *found;
  Candidates candidates;
  bool reads_again = false;
  for (;;) {
    Construction candidate = out;
    BlockRows block(rows, target, candidate);
    const std::string reason = block.why_declined();
    if (!reason.empty() && reason != BlockRows::kTooLong) return declined("{}", reason);
    const std::set<std::string> unkept = block.keepers();
    if (reason.empty()) {
      block.schedule_tiles();
      candidates.push_back(std::move(candidate));
      if (unkept.empty() || block.is_in_registers()) break;
    }
    reads_again = block.reads_again();
    for (const te::Compute& c : rows.program.computes) {
      if (unkept.contains(c.name())) out.schedule.inline_stage(c.name());
    }
    rows.program = te::inline_computes(rows.program, unkept);
  }
  if (reads_again && candidates.size() > 1) std::swap(candidates[0], candidates[1]);
  return candidates;
}

}  // namespace tw::construct
