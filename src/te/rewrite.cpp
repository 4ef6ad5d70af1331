#include "te/rewrite.h"

#include <algorithm>

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
    for (const auto& [name, layout] : layouts_) find_attached(name, layout);
    for (const auto& [name, layout] : layouts_) places_.try_emplace(name, name, layout);
  }

  Program run() {
    out_.name = old_.name;
    out_.outputs = old_.outputs;
    for (const Tensor& input : old_.inputs) {
      const auto place = places_.find(input.name);
      if (place == places_.end() || place->second.tensor == input.name) out_.inputs.push_back(stored(input));
    }
    for (const Compute& compute : old_.computes) rewrite_compute(compute);
    drop_unread(out_);  // a condition that is false once indices are simple takes the last reads of computes with it
    verify(out_);
    return std::move(out_);
  }

 private:
  // The tensor that an access goes to, and through which layout.
  struct Access {
    std::string tensor;
    Layout layout;
  };

  // A produced compute on its way from logical to storage axes.
  struct Rebuilt {
    Compute compute;
    Layout layout;
    std::vector<Expr> axis_vars;  // over the storage shape
    LogicalPoint at;              // the old axes' values
    Analyzer analyzer;
    Analyzer old_ranges;  // of the old axes
  };

  // What a kStoreAt attaches is stored in the other tensor, under the layout of its slice there.
  void find_attached(const std::string& name, const Layout& layout) {
    const auto is_input = [&](const std::string& t) { return index_of(old_.inputs, t, &Tensor::name) >= 0; };
    Tensor so_far = old_.tensor(name);
    Layout rest = layout;
    for (const LayoutPrimitive& p : layout.primitives()) {
      const Shape before = std::exchange(so_far.shape, apply_primitive(p, so_far.shape));
      rest = Layout({rest.primitives().begin() + 1, rest.primitives().end()});
      if (p.op != LayoutOp::kStoreAt) continue;
      TW_CHECK(is_input(name) && is_input(p.tensor), "{} of '{}': both must be inputs", tw::to_string(p), name);
      const Tensor slice = stored(old_.tensor(p.tensor));
      TW_CHECK(slice.type == so_far.type && slice.shape == spliced(before, p.dim, 1, {}),
               "{} of '{}': the slice is {} {}, the tensor {} {}", tw::to_string(p), name, to_string(slice.type),
               to_string(slice.shape), to_string(so_far.type), to_string(before));
      const Access place{name, layout_of(p.tensor).then(slice_layout(p, before)).then(rest)};
      TW_CHECK(places_.emplace(p.tensor, place).second, "{} of '{}': it is attached already", tw::to_string(p), name);
    }
  }

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
    const bool padded = !r.at.inside.is_int(1);
    if (padded && compute.is_reduction()) return emit_padded_reduction(std::move(r));
    for (size_t k = 0; padded && k < r.compute.body.size(); ++k)
      r.compute.body[k] = select(r.at.inside, r.compute.body[k], fill_of(r.compute.outputs[k]));
    out_.computes.push_back(std::move(r.compute));
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
    for (const Axis& axis : joined(r.compute.axes, compute.reduce_axes)) r.analyzer.bind(axis.name, 0, axis.extent);
    for (const Axis& axis : joined(compute.axes, compute.reduce_axes)) r.old_ranges.bind(axis.name, 0, axis.extent);
    r.at = logical_point(r.layout, logical_shape, r.axis_vars);
    r.at.inside = r.analyzer.simplify(r.at.inside);
    return r;
  }

  static std::vector<Axis> fresh_axes(const Shape& shape, const std::vector<Axis>& taken) {
    std::vector<Axis> axes = make_axes('i', shape);
    for (Axis& axis : axes) {
      while (index_of(taken, axis.name, &Axis::name) >= 0) axis.name += '_';
    }
    return axes;
  }

  // Each access goes through its tensor's sequence, in terms of the old axes, which windows are told by; then these
  // become their logical values.
  Expr rewrite_body(const Expr& body, const Compute& compute, const Rebuilt& r) const {
    VarMap values;
    for (size_t d = 0; d < compute.axes.size(); ++d) values.emplace(compute.axes[d].name, r.at.indices[d]);
    for (const Expr& axis : r.axis_vars) values.emplace(stored_point(axis)->name, axis);
    const Expr moved = rewrite(body, [&](const Expr& e) -> Expr {
      if (e.op() != Op::kLoad) return Expr();
      const auto place = places_.find(e->name);
      return place == places_.end() ? Expr() : rewrite_load(e, place->second, compute, r);
    });
    return substitute(moved, values);
  }

  // What stands for an axis over the storage shape beside the old axes.
  static Expr stored_point(const Expr& axis) { return var("stored " + axis->name); }

  Expr rewrite_load(const Expr& e, const Access& to, const Compute& compute, const Rebuilt& r) const {
    const Tensor& tensor = old_.tensor(e->name);
    std::vector<Expr> indices(e->args.begin(), e->args.begin() + std::ssize(tensor.shape));
    // Read at exactly the point being written, under one layout: forward after backward is the identity.
    const auto is_axis = [](const Expr& e, const Axis& axis) { return e.is_var() && e->name == axis.name; };
    const bool same_point = to.layout == r.layout && std::ranges::equal(indices, compute.axes, is_axis) &&
                            to.layout.storage_shape(tensor.shape) == r.compute.outputs[0].shape;
    try {
      indices = same_point ? mapped(r.axis_vars, stored_point)
                           : storage_indices(to.layout, tensor.shape, std::move(indices), &r.old_ranges);
    } catch (const InternalError& error) {
      throw InternalError("'{}' reads '{}': {}", compute.name(), e->name, error.what());
    }
    return e->predicated ? load_if(to.tensor, e.type(), std::move(indices), e->args.back())
                         : load(to.tensor, e.type(), std::move(indices));
  }

  void emit_padded_reduction(Rebuilt r) {
    const bool leaves = std::ranges::any_of(r.compute.outputs, [&](const Tensor& t) { return old_.is_output(t.name); });
    const bool filled = !reads_stay_inside(r) && guard_bodies(r);
    if (!leaves || filled) {
      out_.computes.push_back(std::move(r.compute));
      return;
    }
    std::vector<Compute> fills;
    for (Tensor& output : r.compute.outputs) {
      Compute fill{.outputs = {output}, .axes = r.compute.axes, .reduce_axes = {}, .body = {}, .combiner = {}};
      output.name = fresh_name(output.name + "_raw");
      fill.body = {select(r.at.inside, output(r.axis_vars), fill_of(fill.outputs[0]))};
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
      const Expr neutral =
          combiner.kind == CombinerKind::kTuple ? combiner.identity[k] : identity_of(combiner.kind, fill.type());
      const bool by_fill = absorbs && equal(combiner.identity[k], neutral);
      r.compute.body[k] = select(r.at.inside, r.compute.body[k], by_fill ? fill : neutral);
      filled = filled && (by_fill || equal(combiner.identity[k], fill));
    }
    return filled;
  }

  // Whether every read keeps inside its tensor when the axes also run over the padding. An index that avoids the axes
  // of the guard takes only values that it also takes outside the padding, unless a condition depends on those axes.
  bool reads_stay_inside(const Rebuilt& r) const {
    const auto uses_guarded = [&](const Expr& e) {
      return std::ranges::any_of(
          r.compute.axes, [&](const Axis& axis) { return uses_var(r.at.inside, axis.name) && uses_var(e, axis.name); });
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

  std::string fresh_name(std::string name) const {
    while (index_of(all_tensors(old_), name, &Tensor::name) >= 0 || out_.find_compute(name)) name += '_';
    return name;
  }

  const Program& old_;
  const Layouts& layouts_;
  const PadFills& fills_;
  Indices indices_;
  std::map<std::string, Access> places_;  // of tensors whose accesses change
  Program out_;
};

}  // namespace

Program apply_layouts(const Program& program, const Layouts& layouts, const PadFills& fills, Indices indices) {
  return LayoutPass(program, layouts, fills, indices).run();
}

void Relaid::apply(const std::map<std::string, Layout>& more) {
  if (more.empty()) return;
  program = apply_layouts(program, more);
  for (const auto& [tensor, layout] : more) layouts[tensor] = layouts[tensor].then(layout);
}

}  // namespace tw::te
