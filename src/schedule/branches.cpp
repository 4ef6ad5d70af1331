// Selects that loops outside decide: a test around both ways.
#include "schedule/stage.h"
#include "support/error.h"
#include "te/reads.h"

namespace tw::schedule {
namespace {

// Whether every read of an attached stage in `e` meets its local buffer, wherever the loops of `stage` stand: it is
// evaluated outside of the stage's guards.
bool reads_inside(const State& state, const Expr& e, const Analyzer& ranges) {
  bool inside = true;
  visit(e, [&](const Expr& load) {
    if (load.op() != Op::kLoad) return;
    const Stage* producer = state.producer(load->name);
    if (producer == nullptr || producer->is_root()) return;
    for (size_t d = 0; d < producer->region.base.size(); ++d) {
      const Interval at = ranges.bounds(ranges.simplify(load.arg(d) - producer->region.base[d]));
      inside = inside && at.lo >= 0 && at.hi < producer->region.extent[d];
    }
  });
  return inside;
}

bool reads_attached(const State& state, const Expr& e) {
  bool found = false;
  visit(e, [&](const Expr& load) {
    const Stage* producer = load.op() == Op::kLoad ? state.producer(load->name) : nullptr;
    found = found || (producer != nullptr && !producer->is_root());
  });
  return found;
}

// Whether the loops of `stage` down to the one where it branches decide `condition`.
bool is_decided(const State& state, const Stage& stage, const Expr& condition, const Analyzer& ranges) {
  if (condition.type().is_vector() || !reads_attached(state, condition)) return false;
  const VarMap values(stage.values.begin(), stage.values.end());
  const Expr bound = ranges.simplify(substitute(condition, values));
  for (size_t i = 0; i < stage.loops.size(); ++i) {
    const Loop& l = stage.loops[i];
    const bool inside = i > stage.loop_index(stage.branch);
    if (uses_var(bound, l.var) && l.extent > 1 && (inside || l.kind != loop::ForKind::kSerial)) return false;
  }
  return reads_inside(state, bound, ranges);
}

Expr decided_condition(const State& state, const Stage& stage) {
  const Analyzer ranges = loop_ranges(state);
  Expr found;
  for (const Expr& body : stage.compute.body) {
    visit(body, [&](const Expr& e) {
      if (!found && e.op() == Op::kSelect && is_decided(state, stage, e.arg(0), ranges)) found = e.arg(0);
    });
  }
  return found;
}

Stage with_side(const Stage& stage, const Expr& condition, size_t side) {
  Stage out = stage;
  out.branch.clear();
  out.is_way = true;
  for (Expr& body : out.compute.body) {
    body = rewrite(body, [&](const Expr& e) -> Expr {
      return e.op() == Op::kSelect && equal(e.arg(0), condition) ? e.arg(side) : Expr();
    });
  }
  return out;
}

}  // namespace

void apply_branch(State& state, const Primitive& p) {
  Stage& stage = state.stage(p.stage);
  const Loop& l = stage.loop(p.loops.at(0));
  if (stage.compute.is_reduction() || !stage.branch.empty())
    throw UserError(fmt::format("branch: stage {} reduces, or branches already", p.stage));
  if (l.kind != loop::ForKind::kSerial)
    throw UserError(fmt::format("branch: loop {} of {} is vectorised or unrolled", l.name, p.stage));
  stage.branch = l.name;
}

Ways ways_of(const State& state, const Stage& stage) {
  const Expr condition = decided_condition(state, stage);
  if (!condition) throw UserError(fmt::format("branch {} {}: no select is decided there", stage.name(), stage.branch));
  return {condition, with_side(stage, condition, 1), with_side(stage, condition, 2)};
}

std::set<std::string> sources_of(const State& state, const Stage& stage) {
  std::set<std::string> sources;
  const auto add = [&](const auto& self, const Stage& reader) -> void {
    te::visit_reads(reader.compute, [&](const Expr& load) {
      const Stage* read = state.producer(load->name);
      if (read != nullptr && sources.insert(read->name()).second) self(self, *read);
    });
  };
  add(add, stage);
  return sources;
}

}  // namespace tw::schedule
