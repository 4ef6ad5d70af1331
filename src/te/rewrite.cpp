#include "te/rewrite.h"

#include <algorithm>

#include "expr/analyzer.h"
#include "support/error.h"
#include "support/join.h"
#include "te/reads.h"

namespace tw::te {
namespace {

using Layouts = std::map<std::string, Layout>;

bool is_idempotent(CombinerKind kind) {
  return kind == CombinerKind::kMin || kind == CombinerKind::kMax || kind == CombinerKind::kAnd ||
         kind == CombinerKind::kOr;
}

class LayoutPass {
 public:
  LayoutPass(const Program& program, const Layouts& layouts, const PadFills& fills, Indices indices)
      : old_(program), layouts_(layouts), fills_(fills), indices_(indices) {
    for (const auto& [name, layout] : layouts_) old_.tensor(name);
  }

  Program run() {
    out_.name = old_.name;
    out_.outputs = old_.outputs;
    out_.inputs = mapped(old_.inputs, [&](const Tensor& input) { return stored(input); });
    for (const Compute& compute : old_.computes) rewrite_compute(compute);
    drop_unread(out_);  // a condition that is false once indices are simple takes the last reads of computes with it
    verify(out_);
    return std::move(out_);
  }

 private:
  // A produced compute on its way from logical to storage axes.
  struct Rebuilt {
    Compute compute;
    Layout layout;
    std::vector<Expr> axis_vars;  // over the storage shape
    std::vector<Expr> logical;    // the old axes' values
    Expr inside;                  // not added by a kPad
    Analyzer analyzer;
  };

  Tensor stored(const Tensor& tensor) const {
    return {tensor.name, tensor.type, layout_of(tensor.name).storage_shape(tensor.shape)};
  }

  Layout layout_of(const std::string& name) const { return value_or(layouts_, name, Layout()); }

  Expr fill_of(const Tensor& tensor) const { return imm(tensor.type, value_or(fills_, tensor.name, 0)); }

  void rewrite_compute(const Compute& compute) {
    Rebuilt r = rebuild_axes(compute);
    for (Expr& body : r.compute.body) {
      body = rewrite_body(body, compute, r);
      if (indices_ == Indices::kSimple) body = along_units(r.analyzer.simplify(body), r.compute);
    }
    if (compute.needed) r.compute.needed = r.analyzer.simplify(rewrite_body(compute.needed, compute, r));
    if (r.inside.is_int(1)) {
      out_.computes.push_back(std::move(r.compute));
    } else if (compute.is_reduction()) {
      emit_padded_reduction(std::move(r));
    } else {
      for (size_t k = 0; k < r.compute.body.size(); ++k)
        r.compute.body[k] = select(r.inside, r.compute.body[k], fill_of(r.compute.outputs[k]));
      out_.computes.push_back(std::move(r.compute));
    }
  }

  // Computed rows of one element are read along their axis, not at 0: a tile may have more rows than that, of which its
  // other threads hold nothing.
  Expr along_units(const Expr& body, const Compute& c) const {
    return rewrite(body, [&](const Expr& e) -> Expr {
      if (e.op() != Op::kLoad || out_.find_compute(e->name) == nullptr) return {};
      std::vector<Expr> at = e->args;
      for (size_t d = 0; d < at.size(); ++d) {
        const Axis* axis = at[d].is_int(0) ? own_axis(c, e, d) : nullptr;
        if (axis != nullptr) at[d] = axis->var();
      }
      return with_args(e, std::move(at));
    });
  }

  Rebuilt rebuild_axes(const Compute& compute) const {
    Rebuilt r;
    r.compute = compute;
    r.layout = layout_of(compute.name());
    for (Tensor& output : r.compute.outputs) {
      TW_CHECK(layout_of(output.name) == r.layout, "outputs '{}' and '{}' of one compute have different layouts",
               compute.name(), output.name);
      output = stored(output);
    }
    const Shape& logical_shape = compute.outputs[0].shape;  // the first output has all axes
    const Shape& storage_shape = r.compute.outputs[0].shape;
    if (!r.layout.is_identity()) r.compute.axes = fresh_axes(storage_shape, compute.reduce_axes);
    r.axis_vars = variables(r.compute.axes);
    for (const Axis& axis : r.compute.axes) r.analyzer.bind(axis.name, 0, axis.extent);
    for (const Axis& axis : compute.reduce_axes) r.analyzer.bind(axis.name, 0, axis.extent);
    r.logical = logical_indices(r.layout, logical_shape, r.axis_vars);
    r.inside = r.analyzer.simplify(inside_padding_bounds(r.layout, logical_shape, r.axis_vars));
    return r;
  }

  static std::vector<Axis> fresh_axes(const Shape& shape, const std::vector<Axis>& taken) {
    const auto clashes = [&](const std::string& name) {
      return std::ranges::any_of(taken, [&](const Axis& axis) { return axis.name == name; });
    };
    std::vector<Axis> axes = make_axes('i', shape);
    for (Axis& axis : axes) {
      while (clashes(axis.name)) axis.name += '_';
    }
    return axes;
  }

  // Old axes become their logical values, and each access goes through its tensor's sequence.
  Expr rewrite_body(const Expr& body, const Compute& compute, const Rebuilt& r) const {
    VarMap values;
    for (size_t d = 0; d < compute.axes.size(); ++d) values.emplace(compute.axes[d].name, r.logical[d]);
    return rewrite(body, [&](const Expr& e) -> Expr {
      if (e.is_var()) return value_or(values, e->name, Expr());
      if (e.op() != Op::kLoad) return Expr();
      const auto it = layouts_.find(e->name);
      return it == layouts_.end() ? Expr() : rewrite_load(e, it->second, r);
    });
  }

  Expr rewrite_load(const Expr& e, const Layout& layout, const Rebuilt& r) const {
    const Tensor& tensor = old_.tensor(e->name);
    std::vector<Expr> indices(e->args.begin(), e->args.begin() + static_cast<int64_t>(tensor.shape.size()));
    // Read at exactly the point being written, under one layout: forward after backward is the identity.
    bool same_point = layout == r.layout && tensor.shape.size() == r.logical.size() &&
                      layout.storage_shape(tensor.shape) == r.compute.outputs[0].shape;
    for (size_t d = 0; same_point && d < indices.size(); ++d) same_point = indices[d].same(r.logical[d]);
    indices = same_point ? r.axis_vars : storage_indices(layout, tensor.shape, std::move(indices));
    return e->predicated ? load_if(e->name, e.type(), std::move(indices), e->args.back())
                         : load(e->name, e.type(), std::move(indices));
  }

  void emit_padded_reduction(Rebuilt r) {
    const bool leaves = std::ranges::any_of(r.compute.outputs, [&](const Tensor& t) { return old_.is_output(t.name); });
    bool filled = false;
    if (!reads_stay_inside(r)) filled = guard_bodies(r);
    if (!leaves || filled) {
      out_.computes.push_back(std::move(r.compute));
      return;
    }
    std::vector<Compute> fills;
    for (Tensor& output : r.compute.outputs) {
      Compute fill{.outputs = {output}, .axes = r.compute.axes, .reduce_axes = {}, .body = {}, .combiner = {}};
      output.name = fresh_name(output.name + "_raw");
      fill.body = {select(r.inside, output(r.axis_vars), fill_of(fill.outputs[0]))};
      fills.push_back(std::move(fill));
    }
    out_.computes.push_back(std::move(r.compute));
    out_.computes.insert(out_.computes.end(), fills.begin(), fills.end());
  }

  // Replaces the bodies in the padding by values that change nothing; true when the padding then holds the fill.
  bool guard_bodies(Rebuilt& r) const {
    const Combiner& combiner = r.compute.combiner;
    const bool empty = std::ranges::any_of(r.compute.reduce_axes, [](const Axis& axis) { return axis.extent == 0; });
    const bool absorbs = is_idempotent(combiner.kind) && !empty;
    bool filled = combiner.kind != CombinerKind::kTuple;  // combining two tuple identities need not give an identity
    for (size_t k = 0; k < r.compute.body.size(); ++k) {
      const Expr fill = fill_of(r.compute.outputs[k]);
      const bool starts_neutral =
          combiner.kind != CombinerKind::kTuple && equal(combiner.identity[k], identity_of(combiner.kind, fill.type()));
      const bool by_fill = absorbs && starts_neutral;
      const Expr idle =
          by_fill || combiner.kind == CombinerKind::kTuple ? Expr() : identity_of(combiner.kind, fill.type());
      const Expr otherwise = by_fill ? fill : idle ? idle : combiner.identity[k];
      r.compute.body[k] = select(r.inside, r.compute.body[k], otherwise);
      filled = filled && (by_fill || equal(combiner.identity[k], fill));
    }
    return filled;
  }

  // Whether every read keeps inside its tensor when the axes also run over the padding. An index that avoids the axes
  // of the guard takes only values that it also takes outside the padding, unless a condition depends on those axes.
  bool reads_stay_inside(const Rebuilt& r) const {
    const auto uses_guarded = [&](const Expr& e) {
      return std::ranges::any_of(
          r.compute.axes, [&](const Axis& axis) { return uses_var(r.inside, axis.name) && uses_var(e, axis.name); });
    };
    bool conditional = false;
    for (const Expr& body : r.compute.body) {
      visit(body, [&](const Expr& e) {
        if (e.op() == Op::kSelect) conditional = conditional || uses_guarded(e.arg(0));
        if (e->predicated) conditional = conditional || uses_guarded(e->args.back());
      });
    }
    bool inside = true;
    visit_reads(r.compute, [&](const Expr& load) {
      const Tensor tensor = stored(old_.tensor(load->name));
      for (size_t d = 0; d < tensor.shape.size(); ++d) {
        const Interval range = r.analyzer.bounds(load.arg(d));
        const bool bounded = range.lo >= 0 && range.hi < tensor.shape[d];
        inside = inside && (bounded || (!conditional && !uses_guarded(load.arg(d))));
      }
    });
    return inside;
  }

  std::string fresh_name(const std::string& wanted) const {
    const auto taken = [&](const std::string& name) {
      const auto is_it = [&](const Tensor& t) { return t.name == name; };
      return std::ranges::any_of(old_.inputs, is_it) || old_.find_compute(name) || out_.find_compute(name);
    };
    std::string name = wanted;
    while (taken(name)) name += '_';
    return name;
  }

  const Program& old_;
  const Layouts& layouts_;
  const PadFills& fills_;
  Indices indices_;
  Program out_;
};

}  // namespace

Program apply_layouts(const Program& program, const Layouts& layouts, const PadFills& fills, Indices indices) {
  return LayoutPass(program, layouts, fills, indices).run();
}

}  // namespace tw::te
