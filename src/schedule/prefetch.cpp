// The primitive `prefetch`: lines of what a stage reads next.

#include "schedule/stage.h"
#include "support/error.h"
#include "te/reads.h"

namespace tw::schedule {
namespace {

Expr read_of(const State& state, const Stage& stage, const std::string& tensor) {
  const std::vector<Expr> reads = [&] {
    std::vector<Expr> found;
    te::visit_reads(stage.compute, [&](const Expr& load) {
      if (load->name == tensor) found.push_back(load);
    });
    return found;
  }();
  if (reads.size() != 1) throw UserError(fmt::format("stage {} reads {} {} times", stage.name(), tensor, reads.size()));
  const Stage* producer = state.producer(tensor);
  if (producer != nullptr && !producer->is_root()) throw UserError(fmt::format("{} is a local buffer", tensor));
  return reads[0];
}

}  // namespace

void apply_prefetch(State& state, const Primitive& p) {
  Stage& stage = state.stage(p.stage);
  const size_t at = stage.loop_index(p.loops.at(0));
  const Expr read = read_of(state, stage, p.option);
  const int64_t ahead = p.factors.at(0);
  const int64_t count = p.factors.at(1);
  const int64_t step = p.factors.at(2);
  // Where the current block begins: all loops that the iterations are counted over, and those inside them, at 0.
  VarMap first;
  for (size_t i = at; i < stage.loops.size(); ++i) first[stage.loops[i].var] = int_imm(0);
  Expr iteration = var(stage.loops[at].var);
  if (p.loops.size() > 1) {
    if (p.loops.size() != 3) throw UserError("a loop of the consumer is missing");
    if (stage.consumer != p.loops[1])
      throw UserError(fmt::format("stage {} is not attached in {}", p.stage, p.loops[1]));
    const Loop& outer = state.stage(p.loops[1]).loop(p.loops[2]);
    first[outer.var] = int_imm(0);
    iteration = var(outer.var) * int_imm(stage.loops[at].extent) + iteration;
  }
  const VarMap values(stage.values.begin(), stage.values.end());
  std::vector<Expr> begin;
  for (const Expr& index : read->args) begin.push_back(substitute(substitute(index, values), first));
  for (int64_t k = 0; k < count; ++k) {
    std::vector<Expr> indices = begin;
    indices.back() = indices.back() + iteration * int_imm(count * step) + int_imm(ahead + k * step);
    stage.prefetches.push_back({stage.loops[at].name, p.option, std::move(indices)});
  }
}

}  // namespace tw::schedule
