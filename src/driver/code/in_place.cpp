#include "driver/code/in_place.h"

#include "support/error.h"
#include "te/reads.h"

namespace tw::driver {
namespace {

// Every expression of the kernel, those of its stores' indices too, with loads of one buffer for those of another.
loop::Kernel read_from(loop::Kernel kernel, const std::string& from, const std::string& to) {
  const auto renamed = [&](const Expr& e) {
    return rewrite(e, [&](const Expr& x) -> Expr {
      return x.op() != Op::kLoad || x->name != from ? Expr() : te::read_from(x, to);
    });
  };
  kernel.body = loop::rewrite(kernel.body, {renamed, {}});
  std::erase_if(kernel.params, [&](const loop::Buffer& param) { return param.name == from; });
  return kernel;
}

class SliceWriter {
 public:
  SliceWriter(const InPlaceTe& slice, int64_t rows) : slice_(slice), rows_(rows) {}

  loop::Kernel run(loop::Kernel kernel) const {
    const auto whole = std::ranges::find(kernel.params, slice_.next, &loop::Buffer::name);
    if (whole == kernel.params.end()) return kernel;
    whole->shape[static_cast<size_t>(slice_.axis)] = slice_.extent;
    kernel.params.push_back({slice_.position, slice_.position_type, {slice_.positions}, loop::Scope::kParam});
    const auto moved = [&](const Expr& e) {
      return rewrite(e, [&](const Expr& x) -> Expr {
        if (x.op() != Op::kLoad || x->name != slice_.next) return Expr();
        TW_CHECK(!x->predicated, "kernel {} reads the state where it may not", kernel.name);
        return load(x->name, x.type().element(), behind_position(x->args));
      });
    };
    const auto stored = [&](const loop::Stmt& s) -> std::vector<loop::Stmt> {
      const bool names = s->kind == loop::StmtKind::kStore || s->kind == loop::StmtKind::kPrefetch;
      if (!names || s->buffer != slice_.next) return {s};
      auto node = std::make_shared<loop::StmtNode>(*s);
      node->indices = behind_position(s->indices);
      return {loop::Stmt(std::move(node))};
    };
    kernel.body = loop::rewrite(kernel.body, {moved, stored});
    return kernel;
  }

 private:
  std::vector<Expr> behind_position(std::vector<Expr> indices) const {
    const Expr which = slice_.positions == 1 ? int_imm(0) : indices[static_cast<size_t>(slice_.batch)];
    const Expr first = cast(DataType::i64(), load(slice_.position, slice_.position_type, {which}));
    Expr& index = indices[static_cast<size_t>(slice_.axis)];
    index = index + max(int_imm(0), min(first, int_imm(slice_.extent - rows_)));
    return indices;
  }

  const InPlaceTe& slice_;
  const int64_t rows_;
};

bool has_param(const loop::Kernel& kernel, const std::string& name) {
  return std::ranges::find(kernel.params, name, &loop::Buffer::name) != kernel.params.end();
}

void put_in_place(loop::Program& program, const InPlaceTe& state) {
  bool changed = false;
  for (loop::Kernel& kernel : program.kernels) {
    const auto next = std::ranges::find(kernel.params, state.next, &loop::Buffer::name);
    TW_CHECK(!changed || state.before.empty() || !has_param(kernel, state.before),
             "kernel {} reads a state that the group has changed", kernel.name);
    if (next == kernel.params.end()) continue;
    TW_CHECK(!kernel.is_implemented(), "kernel {} changes a state and has no code of ours", kernel.name);
    if (state.is_slice()) {
      const int64_t rows = next->shape[static_cast<size_t>(state.axis)];
      kernel = SliceWriter(state, rows).run(std::move(kernel));
    } else if (!state.before.empty()) {
      kernel = read_from(std::move(kernel), state.before, state.next);
    }
    changed = true;
  }
}

}  // namespace

std::string text_of(const InPlaceTe& t) {
  return fmt::format("'{}' in '{}' from '{}' {} of {} by {} axis {} of {}\n", t.next, t.before, t.position,
                     to_string(t.position_type), t.positions, t.batch, t.axis, t.extent);
}

void verify_in_place(const te::Program& program, const InPlaceTe& in_place) {
  for (const te::Compute& c : program.computes) {
    const auto is_point = [&](const Expr& load) {
      if (load->predicated || load->args.size() != c.axes.size()) return false;
      for (size_t d = 0; d < c.axes.size(); ++d) {
        const Expr& index = load.arg(d);
        const bool same = index.is_var() && index->name == c.axes[d].name;
        if (!same && !(c.axes[d].extent == 1 && index.is_int(0))) return false;
      }
      return true;
    };
    for (const Expr& body : c.body) {
      visit(body, [&](const Expr& e) {
        if (e.op() != Op::kLoad) return;
        TW_CHECK(e->name != in_place.next, "'{}' reads the state's next value", c.name());
        TW_CHECK(e->name != in_place.before || (!c.is_reduction() && is_point(e)),
                 "'{}' reads a state that it changes at other points: {}", c.name(), to_string(e));
      });
    }
  }
}

loop::Program put_in_place(const loop::Program& program, std::span<const InPlaceTe> states) {
  loop::Program out = program;
  for (const InPlaceTe& state : states) put_in_place(out, state);
  return out;
}

}  // namespace tw::driver
