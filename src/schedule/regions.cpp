// What a consumer reads of a producer inside one of its loops.
#include <algorithm>

#include "expr/affine.h"
#include "schedule/stage.h"
#include "support/error.h"
#include "te/reads.h"

namespace tw::schedule {
namespace {

// One dimension: indices base + lo .. base + hi, where base holds the outer variables.
struct Span {
  Expr base;
  int64_t lo = 0;
  int64_t hi = 0;
  bool everything = false;  // could not be bounded: the whole extent
};

bool is_attached_inside(const State& state, const Stage& stage, const Stage& consumer, size_t at_loop) {
  if (stage.is_root()) return false;
  if (stage.consumer == consumer.name()) return consumer.loop_index(stage.at_loop) >= at_loop;
  const Stage* next = state.producer(stage.consumer);
  return is_attached_inside(state, *next, consumer, at_loop);
}

// What does not move inside is the base, whatever it is.
Span span_of(const Expr& index, const std::set<std::string>& inner, const Analyzer& ranges) {
  Span span{int_imm(0)};
  const Sum sum = as_sum(ranges.simplify(index));
  span.lo = span.hi = sum.constant;
  for (const Term& t : sum.terms) {
    if (std::ranges::none_of(inner, [&](const std::string& v) { return uses_var(t.atom, v); })) {
      span.base = span.base + t.atom * int_imm(t.coef);
      continue;
    }
    const Interval range = ranges.bounds(t.atom);
    if (range.lo <= Interval::kMin || range.hi >= Interval::kMax) {
      span.everything = true;
      return span;
    }
    span.lo += std::min(t.coef * range.lo, t.coef * range.hi);
    span.hi += std::max(t.coef * range.lo, t.coef * range.hi);
  }
  return span;
}

// What the guards of the reader say about an index: idx = lhs + base for a guard lhs < limit, so idx < base + limit.
void bound_by_guards(Span& span, const Expr& index, const Stage& reader, const std::set<std::string>& inner,
                     const Analyzer& ranges) {
  for (const Expr& guard : reader.guards) {
    const auto distance = guarded_distance(index, guard, inner, ranges);
    if (!distance) continue;
    const Expr rest = ranges.simplify(*distance - span.base);
    if (rest.op() == Op::kIntImm) span.hi = std::min(span.hi, rest->value + guard.arg(1)->value - 1);
  }
}

Span unite(const Span& a, const Span& b) {
  Span out = a;
  out.everything = a.everything || b.everything || !equal(a.base, b.base);
  out.lo = std::min(a.lo, b.lo);
  out.hi = std::max(a.hi, b.hi);
  return out;
}

// The reads of `tensors` by `reader`, dim after dim, over its turns inside.
void add_reads(std::vector<Span>& spans, const Stage& reader, const std::vector<te::Tensor>& tensors,
               const std::set<std::string>& inner, const Analyzer& ranges) {
  const VarMap values(reader.values.begin(), reader.values.end());
  for (const Expr& read : te::reads_of(reader.compute, tensors)) {
    const bool predicated = read->predicated;  // its last argument is no index
    for (size_t d = 0; d < read->args.size() - (predicated ? 1 : 0); ++d) {
      const Expr index = substitute(read.arg(d), values);
      Span span = span_of(index, inner, ranges);
      bound_by_guards(span, index, reader, inner, ranges);
      if (spans.size() <= d) {
        spans.push_back(span);
      } else {
        spans[d] = unite(spans[d], span);
      }
    }
  }
}

Region region_of(const std::vector<Span>& spans, const Shape& shape, const Analyzer& ranges) {
  Region region;
  for (size_t d = 0; d < spans.size(); ++d) {
    const int64_t extent = spans[d].hi - spans[d].lo + 1;
    const bool whole = spans[d].everything || extent >= shape[d];
    region.base.push_back(whole ? int_imm(0) : ranges.simplify(spans[d].base + int_imm(spans[d].lo)));
    region.extent.push_back(whole ? shape[d] : extent);
  }
  return region;
}

}  // namespace

std::set<std::string> inner_vars(const State& state, const Stage& consumer, size_t at_loop) {
  std::set<std::string> inner;
  for (size_t i = at_loop + 1; i < consumer.loops.size(); ++i) inner.insert(consumer.loops[i].var);
  for (const Stage& stage : state.stages) {
    if (!is_attached_inside(state, stage, consumer, at_loop)) continue;
    for (const Loop& l : stage.loops) inner.insert(l.var);
  }
  return inner;
}

std::optional<Expr> guarded_distance(const Expr& index, const Expr& guard, const std::set<std::string>& inner,
                                     const Analyzer& ranges) {
  if (guard.op() != Op::kLt || guard.arg(1).op() != Op::kIntImm) return std::nullopt;
  const Expr distance = ranges.simplify(index - guard.arg(0));
  const bool moves = std::ranges::any_of(inner, [&](const std::string& v) { return uses_var(distance, v); });
  return moves ? std::nullopt : std::optional(distance);
}

Region read_region(const State& state, const Stage& producer, const Stage& consumer, size_t at_loop,
                   const std::set<const Stage*>& except) {
  const Analyzer ranges = loop_ranges(state);
  const std::set<std::string> inner = inner_vars(state, consumer, at_loop);
  std::vector<Span> spans;
  for (const Stage* reader : state.readers(producer)) {
    if (except.contains(reader)) continue;
    if (reader != &consumer && !is_attached_inside(state, *reader, consumer, at_loop)) {
      throw UserError(
          fmt::format("compute_at {} {}: stage {} reads it outside", producer.name(), consumer.name(), reader->name()));
    }
    add_reads(spans, *reader, producer.compute.outputs, inner, ranges);
  }
  const Shape& shape = producer.compute.outputs.front().shape;
  TW_CHECK(spans.size() == shape.size(), "nothing reads {}", producer.name());
  return region_of(spans, shape, ranges);
}

Region read_inside(const State& state, const std::string& tensor, const Stage& consumer, size_t at_loop) {
  const Analyzer ranges = loop_ranges(state);
  const std::set<std::string> inner = inner_vars(state, consumer, at_loop);
  const te::Tensor& read = state.program.tensor(tensor);
  std::vector<Span> spans;
  for (const Stage& stage : state.stages) {
    if (&stage == &consumer || is_attached_inside(state, stage, consumer, at_loop))
      add_reads(spans, stage, {read}, inner, ranges);
  }
  if (spans.empty()) throw UserError(fmt::format("{} is not read in {}", tensor, consumer.name()));
  return region_of(spans, read.shape, ranges);
}

}  // namespace tw::schedule
