#include "construct/column_sums.h"

#include <cmath>

#include "schedule/match/stages.h"
#include "support/join.h"
#include "te/reads.h"

namespace tw::construct {

te::Program adding_program(const te::Program& all, const std::string& partial, const std::string& sum,
                           const std::vector<std::string>& outputs) {
  te::Program rest = all;
  const std::vector<te::Tensor> parts = all.find_compute(partial)->outputs;
  std::erase_if(rest.computes, [&](const te::Compute& c) { return c.name() != sum && !te::depends_on(all, c, sum); });
  rest.outputs = outputs;
  std::erase_if(rest.inputs, [&](const te::Tensor& t) {
    return std::ranges::none_of(rest.computes, [&](const te::Compute& c) { return te::count_reads(c, t.name) > 0; });
  });
  append(rest.inputs, parts);
  return rest;
}

std::string cut_sum(schedule::Schedule& s, const te::Compute& sum, const std::string& axis, int64_t parts) {
  const std::string partial = sum.name() + ".rf";
  const std::vector<int64_t> order = joined(std::vector{std::ssize(sum.axes)}, sequence(sum.axes.size()));
  s.rfactor_blocks(sum.name(), axis, parts).layout(partial, Layout().reorder(order));
  return partial;
}

std::vector<int64_t> part_counts(int64_t rows, int64_t wanted, size_t limit) {
  std::vector<int64_t> counts;
  for (int64_t n = 1; n <= rows; ++n) {
    if (rows % n == 0) counts.push_back(n);
  }
  const auto distance = [&](int64_t n) {
    return std::abs(std::log2(static_cast<double>(n) / static_cast<double>(std::max<int64_t>(1, wanted))));
  };
  std::ranges::stable_sort(counts, {}, distance);
  counts.resize(std::min(limit, counts.size()));
  return counts;
}

Result<SumsKernel> split_rows(const SumOfRows& in, int64_t parts, const TargetInfo& target, AddParts add,
                              schedule::Schedule& s) {
  const te::Compute& sum = *in.program.find_compute(in.sum);
  SumsKernel out;
  out.row = sum.reduce_axes.front().name;
  out.rows = sum.reduce_axes.front().extent / parts;
  out.root = in.output;
  schedule::Schedule split;
  if (parts > 1) {
    out.root = cut_sum(split, sum, out.row, parts);
    const te::Program rest = adding_program(schedule::rewritten(in.program, split), out.root, in.sum, in.leaving);
    const Result<Candidates> adding = add({rest, {}}, target);
    if (!adding.ok()) return Reason{adding.reason()};
    for (const schedule::Primitive& p : adding->front().schedule.primitives()) split.add(p);
  } else {
    for (const te::Compute& c : in.program.computes) {
      if (te::depends_on(in.program, c, in.sum) && c.name() != in.output) split.inline_stage(c.name());
    }
  }
  const bool copies = parts > 1 || in.output == in.sum;
  if (copies) split.cache_write(out.root);
  out.sums = copies ? out.root + ".acc" : in.sum;
  for (const schedule::Primitive& p : split.primitives()) s.add(p);
  // Loops of the second kernel do not change the maths.
  schedule::Schedule maths;
  for (const schedule::Primitive& p : split.primitives()) {
    using enum schedule::PrimitiveKind;
    if (p.kind == kCacheWrite || p.kind == kRfactor || p.kind == kLayout || p.kind == kInline) maths.add(p);
  }
  out.program = schedule::rewritten(in.program, maths);
  out.axes = te::axis_names(out.program.find_compute(out.root)->axes);
  out.columns = out.program.find_compute(out.root)->axes.back().extent;
  return out;
}

Result<SumsKernel> split_rows(const schedule::ColumnSums& match, int64_t parts, const TargetInfo& target, AddParts add,
                              schedule::Schedule& s) {
  schedule::Schedule hold;
  hold.cache_write(match.value);
  const te::Program program = schedule::rewritten(match.program, hold);
  s.cache_write(match.value);
  Result<SumsKernel> out =
      split_rows({program, match.sum, match.output, match.sums_that_leave()}, parts, target, add, s);
  if (!out.ok()) return out;
  SumsKernel kernel = std::move(out).value();
  kernel.stored = match.value;
  kernel.value = match.value + ".acc";
  return kernel;
}

std::string keep_rows(te::Program& program, schedule::Schedule& s, schedule::ChainSegment& segment) {
  std::string stored = segment.output();
  schedule::Schedule keep;
  keep.cache_write(stored);
  s.cache_write(stored);
  program = schedule::rewritten(program, keep);
  if (segment.sum == stored) segment.sum = stored + ".acc";
  segment.stages.back() = stored + ".acc";
  return stored;
}

te::Program without_rows(te::Program program, const std::string& stored) {
  std::erase_if(program.computes, [&](const te::Compute& c) { return c.name() == stored; });
  std::erase(program.outputs, stored);
  return program;
}

}  // namespace tw::construct
