#include "te/merge_axes.h"

#include <algorithm>
#include <set>

#include "te/rewrite.h"
#include "te/split_axes.h"

namespace tw::te {
namespace {

// For each tensor and dim d: whether dims d and d+1 may still be fused.
using PairFlags = std::map<std::string, std::vector<bool>>;

bool is_axis(const Expr& index, const Axis& axis) { return index.is_var() && index->name == axis.name; }

class PairFinder {
 public:
  explicit PairFinder(const Program& program) : program_(program) {
    for (const Tensor& t : program.inputs) add(t);
    for (const Compute& c : program.computes) {
      for (const Tensor& t : c.outputs) add(t);
    }
  }

  PairFlags run() {
    changed_ = true;
    while (changed_) {
      changed_ = false;
      for (const Compute& c : program_.computes) check_compute(c);
    }
    return flags_;
  }

 private:
  void add(const Tensor& t) {
    flags_[t.name] = std::vector<bool>(t.shape.empty() ? 0 : t.shape.size() - 1, true);
    shapes_[t.name] = t.shape;
  }

  void forbid(const std::string& tensor, size_t d) {
    if (!flags_[tensor][d]) return;
    flags_[tensor][d] = false;
    changed_ = true;
  }

  bool output_pair(const Compute& c, size_t k) const { return flags_.at(c.name())[k]; }

  void check_compute(const Compute& c) {
    // All outputs of a tuple keep one shape.
    for (const Tensor& t : c.outputs) {
      for (size_t k = 0; k + 1 < t.shape.size(); ++k) {
        if (!flags_[t.name][k]) {
          for (const Tensor& other : c.outputs) forbid(other.name, k);
        }
      }
    }
    for (const Expr& body : c.body) check_expr(c, body);
  }

  // Walks an expression; a variable met outside a fused pair of indices forbids its pairs.
  void check_expr(const Compute& c, const Expr& e) {
    if (e.op() == Op::kLoad) return check_load(c, e);
    if (e.is_var()) return forbid_axis(c, e->name);
    for (const Expr& arg : e->args) check_expr(c, arg);
  }

  void forbid_axis(const Compute& c, const std::string& name) {
    for (size_t k = 0; k < c.axes.size(); ++k) {
      if (c.axes[k].name != name) continue;
      for (const size_t pair : {k - 1, k}) {
        if (pair >= c.axes.size() || pair + 1 >= c.axes.size()) continue;  // k - 1 of k = 0 wraps around
        forbid(c.name(), pair);
      }
    }
  }

  // The axis k of `c` such that dims d and d+1 of the load are axes k and k+1 with full extents; -1 otherwise.
  int matched_pair(const Compute& c, const Expr& load, size_t d) const {
    const Shape& shape = shapes_.at(load->name);
    for (size_t k = 0; k + 1 < c.axes.size(); ++k) {
      if (is_axis(load.arg(d), c.axes[k]) && is_axis(load.arg(d + 1), c.axes[k + 1]) && shape[d] == c.axes[k].extent &&
          shape[d + 1] == c.axes[k + 1].extent) {
        return static_cast<int>(k);
      }
    }
    return -1;
  }

  void check_load(const Compute& c, const Expr& load) {
    const size_t rank = shapes_.at(load->name).size();
    std::set<size_t> kept;  // pairs of axes that this load keeps together
    for (size_t d = 0; d + 1 < rank; ++d) {
      const int k = matched_pair(c, load, d);
      if (k >= 0 && flags_[load->name][d] && output_pair(c, k)) {
        kept.insert(k);
      } else {
        forbid(load->name, d);
      }
    }
    for (size_t k = 0; k + 1 < c.axes.size(); ++k) {
      if (kept.count(k) != 0 || !output_pair(c, k)) continue;
      const auto uses = [&](const std::string& name) {
        return std::any_of(load->args.begin(), load->args.end(),
                           [&](const Expr& index) { return uses_var(index, name); });
      };
      if (uses(c.axes[k].name) || uses(c.axes[k + 1].name)) forbid(c.name(), k);
    }
    // Axes inside an index that is not a plain variable.
    for (const Expr& index : load->args) {
      if (!index.is_var()) check_expr(c, index);
    }
  }

  const Program& program_;
  PairFlags flags_;
  std::map<std::string, Shape> shapes_;
  bool changed_ = false;
};

Layout fuse_runs(const std::vector<bool>& pairs) {
  Layout layout;
  // From the back, so that earlier dims keep their numbers.
  for (size_t d = pairs.size(); d-- > 0;) {
    if (!pairs[d]) continue;
    size_t first = d;
    while (first > 0 && pairs[first - 1]) --first;
    layout = layout.fuse(static_cast<int>(first), static_cast<int>(d - first + 2));
    d = first;
  }
  return layout;
}

// Dims of extent 1 join the next other one, the last ones the one before: a run that ends in d has pairs[d] false.
std::vector<bool> unit_pairs(const Shape& shape) {
  std::vector<bool> pairs(shape.empty() ? 0 : shape.size() - 1);
  bool rest_is_unit = true;
  for (size_t d = pairs.size(); d-- > 0;) {
    rest_is_unit = rest_is_unit && shape[d + 1] == 1;
    pairs[d] = shape[d] == 1 || rest_is_unit;
  }
  return pairs;
}

PairFlags unit_axes(const Program& program) {
  PairFlags flags;
  for (const Tensor& t : program.inputs) flags[t.name] = unit_pairs(t.shape);
  for (const Compute& c : program.computes) {
    for (const Tensor& t : c.outputs) flags[t.name] = unit_pairs(t.shape);
  }
  return flags;
}

// Layouts so far, and the program under them.
struct Regrouped {
  Program program;
  std::map<std::string, Layout> layouts;

  void apply(const std::map<std::string, Layout>& more) {
    if (more.empty()) return;
    program = apply_layouts(program, more);
    for (const auto& [tensor, layout] : more) {
      for (const LayoutPrimitive& p : layout.primitives()) layouts[tensor] = layouts[tensor].then(p);
    }
  }

  void fuse(const PairFlags& flags) {
    std::map<std::string, Layout> fusions;
    for (const auto& [tensor, pairs] : flags) {
      const Layout layout = fuse_runs(pairs);
      if (!layout.is_identity()) fusions[tensor] = layout;
    }
    apply(fusions);
  }
};

}  // namespace

std::map<std::string, Layout> mergeable_axes(const Program& program) {
  Regrouped regrouped{program, {}};
  regrouped.apply(divided_axes(program));
  regrouped.fuse(unit_axes(regrouped.program));
  regrouped.fuse(PairFinder(regrouped.program).run());
  return regrouped.layouts;
}

Program drop_unit_reductions(const Program& program) {
  Program out = program;
  for (Compute& c : out.computes) {
    VarMap zeros;
    for (size_t r = c.reduce_axes.size(); r-- > 0;) {
      if (c.reduce_axes[r].extent != 1 || c.reduce_axes.size() == 1) continue;
      zeros[c.reduce_axes[r].name] = int_imm(0);
      c.reduce_axes.erase(c.reduce_axes.begin() + static_cast<long>(r));
    }
    if (zeros.empty()) continue;
    for (Expr& body : c.body) body = substitute(body, zeros);
  }
  return out;
}

Program bind_scalars(const Program& program, const std::map<std::string, double>& scalars) {
  Program out = program;
  std::erase_if(out.inputs, [&](const Tensor& t) { return scalars.count(t.name) != 0; });
  for (Compute& c : out.computes) {
    for (Expr& body : c.body) {
      body = rewrite(body, [&](const Expr& e) -> Expr {
        if (e.op() != Op::kLoad) return Expr();
        const auto found = scalars.find(e->name);
        return found == scalars.end() ? Expr() : imm(e.type(), found->second);
      });
    }
  }
  return out;
}

}  // namespace tw::te
