// The primitive kCarry: parts of a row in order, each of which goes on where those before it ended. A maximum of a part
// is that of all so far, as exponentials of the part want it; and what a part sums is added to what there is, in its
// place: one factor for a step and no second set of sums (Dao 2023: "FlashAttention-2", section 3.1).
#include <algorithm>

#include "schedule/stage.h"
#include "support/error.h"
#include "support/join.h"

namespace tw::schedule {
namespace {

using te::CombinerKind;

class Carry {
 public:
  Carry(State& state, Stage& tuple) : state_(state), tuple_(tuple), combiner_(tuple.compute.combiner) {
    for (const auto* axes : {&tuple.compute.axes, &tuple.compute.reduce_axes}) {
      for (const te::Axis& a : *axes) ranges_.bind(a.name, 0, a.extent);
    }
  }

  void run() {
    const size_t maximum = find_maximum();
    const Stage* part = part_of(maximum);
    if (part == nullptr || part->compute.combiner.kind != CombinerKind::kMax)
      throw UserError(fmt::format("carry: {} combines no maximum of what is attached in it", tuple_.name()));
    raise(*part, maximum);
    for (size_t k = 0; k < combiner_.result.size(); ++k) {
      leave_out_factor(k);
      continue_sum(k);
    }
  }

 private:
  Expr lhs(size_t k) const { return var(combiner_.lhs[k], tuple_.compute.outputs[k].type); }
  Expr rhs(size_t k) const { return var(combiner_.rhs[k], tuple_.compute.outputs[k].type); }

  size_t find_maximum() const {
    const auto& results = combiner_.result;
    for (size_t k = 0; k < results.size(); ++k) {
      if (equal(results[k], max(lhs(k), rhs(k)))) return k;
    }
    throw UserError(fmt::format("carry: {} combines no maxima", tuple_.name()));
  }

  // What a member has of the parts so far, at the axes of the tuple.
  Expr so_far(size_t k) const {
    const te::Tensor& t = tuple_.compute.outputs[k];
    std::vector<Expr> indices = by_index(t.shape.size(), [&](size_t d) { return tuple_.compute.axes[d].var(); });
    return t(std::move(indices));
  }

  // The one load that a member's next part is, or is where a column has one.
  Expr load_of(size_t k) const {
    const Expr& body = tuple_.compute.body[k];
    const bool padded = body.op() == Op::kSelect && is_zero(body.arg(2));
    const Expr& load = padded ? body.arg(1) : body;
    return load.op() == Op::kLoad ? load : Expr();
  }

  // The stage that computes that part inside the tuple's loop, for nobody outside of it; null where there is none.
  Stage* part_of(size_t k) const {
    const Expr load = load_of(k);
    const Stage* part = load ? state_.producer(load->name) : nullptr;
    const bool inside = part != nullptr && part->consumer == tuple_.name() && part->is_local() &&
                        tuple_.loop(part->at_loop).reduction && part->compute.outputs.size() == 1;
    return inside && part->compute.is_reduction() ? &state_.stage(part->name()) : nullptr;
  }

  // Whoever reads the maximum of a part, but the tuple, wants that of all so far.
  void raise(const Stage& part, size_t maximum) {
    const Expr load = load_of(maximum);
    for (Stage& reader : state_.stages) {
      if (reader.name() == tuple_.name()) continue;
      for (Expr& body : reader.compute.body) {
        body = rewrite(body, [&](const Expr& e) {
          if (e.op() != Op::kLoad || e->name != part.name()) return Expr();
          VarMap own;
          for (size_t d = 0; d < e->args.size(); ++d) own[part.compute.axes[d].name] = e->args[d];
          return max(substitute(at(part, load, so_far(maximum), reader), own), e);
        });
      }
    }
  }

  // What a part sums is relative to the maximum of all so far: of a exp(..) + b exp(..) the second factor is 1.
  void leave_out_factor(size_t k) {
    const Expr result = combiner_.result[k];
    const bool scales = result.op() == Op::kAdd && result.arg(1).op() == Op::kMul;
    if (scales && equal(result.arg(1).arg(0), rhs(k))) combiner_.result[k] = result.arg(0) + rhs(k);
  }

  // A sum of one thread alone begins with what its part would be added to.
  void continue_sum(size_t k) {
    Stage* part = part_of(k);
    const Expr result = combiner_.result[k];
    const auto is_shared = [](const Loop& l) { return l.reduction && l.kind == loop::ForKind::kThreads; };
    if (part == nullptr || part->compute.combiner.kind != CombinerKind::kSum || result.op() != Op::kAdd) return;
    if (!equal(result.arg(1), rhs(k)) || std::ranges::any_of(part->loops, is_shared)) return;
    if (state_.readers(*part).size() != 1) return;
    VarMap values;
    for (size_t j = 0; j < combiner_.result.size(); ++j) {
      values[combiner_.lhs[j]] = so_far(j);
      values[combiner_.rhs[j]] = tuple_.compute.body[j];
    }
    part->start = start_of(*part, load_of(k), at(*part, load_of(k), substitute(result.arg(0), values), *part));
    combiner_.result[k] = rhs(k);
  }

  // `e`, of the tuple's axes, in terms of the axes of `part`, which the tuple reads by `load`; `by` is the stage whose
  // threads want it.
  Expr at(const Stage& part, const Expr& load, const Expr& e, const Stage& by) const {
    const VarMap values = values_at(part, load);
    VarMap all = values;
    for (const te::Axis& axis : tuple_.compute.axes) {
      if (uses_var(e, axis.name) && !values.contains(axis.name)) all[axis.name] = copy_of_thread(by, axis);
    }
    const te::Axis& step = tuple_.compute.reduce_axes[0];
    all[step.name] = tuple_.values.at(step.name);
    return substitute(e, all);
  }

  // The axes of the tuple where it reads an element of `part`, in terms of those of the part.
  VarMap values_at(const Stage& part, const Expr& load) const {
    VarMap values;
    const std::vector<te::Axis> own = joined(tuple_.compute.axes, tuple_.compute.reduce_axes);
    for (size_t d = 0; d < load->args.size(); ++d) {
      const te::Axis& axis = part.compute.axes[d];
      if (!solve(ranges_.simplify(load->args[d]), axis, own, values) && axis.extent > 1)
        throw UserError(fmt::format("carry: {} reads its parts at {}, not element by element", tuple_.name(),
                                    to_string(load->args[d])));
    }
    return values;
  }

  // `e`, or the identity where the part has columns of whole tiles beyond those of the tuple.
  Expr start_of(const Stage& part, const Expr& load, Expr e) const {
    Analyzer inside;
    for (const te::Axis& a : part.compute.axes) inside.bind(a.name, 0, a.extent);
    const VarMap values = values_at(part, load);
    for (const te::Axis& axis : tuple_.compute.axes) {
      if (!values.contains(axis.name)) continue;
      const Expr has = inside.simplify(values.at(axis.name) < int_imm(axis.extent));
      if (!has.is_int(1)) e = select(has, e, part.compute.combiner.identity[0]);
    }
    return e;
  }

  // Of an axis that counts copies, one for each of the threads that share a row: that of a thread of `stage`.
  Expr copy_of_thread(const Stage& stage, const te::Axis& axis) const {
    const auto is_thread = [](const Loop& l) { return l.kind == loop::ForKind::kThreads && l.extent > 1; };
    const auto counts = [&](const Loop& l) { return uses_var(tuple_.values.at(axis.name), l.var); };
    if (std::ranges::none_of(tuple_.loops, [&](const Loop& l) { return is_thread(l) && counts(l); })) return int_imm(0);
    const auto last = std::ranges::find_if(stage.loops.rbegin(), stage.loops.rend(), is_thread);
    if (last == stage.loops.rend() || last->extent != axis.extent)
      throw UserError(fmt::format("carry: {} has no threads for {} of {}", stage.name(), axis.name, tuple_.name()));
    return var(last->var);
  }

  State& state_;
  Stage& tuple_;
  te::Combiner& combiner_;
  Analyzer ranges_;
};

}  // namespace

void apply_carry(State& state, const Primitive& p) {
  Stage& tuple = state.stage(p.stage);
  const te::Compute& c = tuple.compute;
  if (!c.is_reduction() || c.combiner.kind != CombinerKind::kTuple || c.reduce_axes.size() != 1)
    throw UserError(fmt::format("carry: {} is no reduction over a tuple by one axis", p.stage));
  Carry(state, tuple).run();
}

}  // namespace tw::schedule
