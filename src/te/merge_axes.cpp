#include "te/merge_axes.h"

#include <algorithm>

#include "expr/affine.h"
#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::te {
namespace {

// For each tensor and dim d: whether dims d and d+1 may still be fused.
using PairFlags = std::map<std::string, std::vector<bool>>;

bool is_number(const Expr& index) { return index.op() == Op::kIntImm; }
bool is_axis(const Expr& index, const Axis& axis) { return index.is_var() && index->name == axis.name; }

// Where the pairs of reduction axes of a compute are kept, beside those of tensors.
std::string reduction_key(const Compute& c) { return c.name() + " reduction"; }

class PairFinder {
 public:
  explicit PairFinder(const Program& program) : program_(program) {
    for (const Tensor& t : all_tensors(program)) add(t);
    for (const Compute& c : program.computes) {
      flags_[reduction_key(c)] = std::vector<bool>(c.reduce_axes.empty() ? 0 : c.reduce_axes.size() - 1, true);
    }
  }

  PairFlags run() {
    changed_ = true;
    while (changed_) {
      changed_ = false;
      for (const Compute& c : program_.computes) check_compute(c);
    }
    for (const Compute& c : program_.computes) flags_.erase(reduction_key(c));
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

  // Neighbours among the output's axes, or among the reduction axes.
  struct AxisPairs {
    const std::vector<Axis>& axes;
    std::string key;
  };
  static std::vector<AxisPairs> axis_pairs(const Compute& c) {
    return {{c.axes, c.name()}, {c.reduce_axes, reduction_key(c)}};
  }

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

  // Walks an expression; a variable met outside a fused pair of indices forbids its pairs. A sum that counts points row
  // by row, as the number of an element does, keeps those that it runs through as one.
  void check_expr(const Compute& c, const Expr& e) {
    if (e.op() == Op::kLoad) return check_load(c, e);
    if (e.is_var()) return forbid_axis(c, e->name);
    const auto linear = e.op() == Op::kAdd ? as_linear(e) : std::nullopt;
    if (linear) return check_sum(c, *linear);
    for (const Expr& arg : e->args) check_expr(c, arg);
  }

  void check_sum(const Compute& c, const LinearForm& sum) {
    const std::map<std::string, int64_t> terms(sum.terms.begin(), sum.terms.end());
    const auto factor = [&](const Axis& axis) { return value_or(terms, axis.name, 0); };
    for (const auto& [axes, key] : axis_pairs(c)) {
      for (size_t k = 0; k + 1 < axes.size(); ++k) {
        if (factor(axes[k]) != factor(axes[k + 1]) * axes[k + 1].extent) forbid(key, k);
      }
    }
  }

  void forbid_axis(const Compute& c, const std::string& name) {
    for (const auto& [axes, key] : axis_pairs(c)) {
      for (size_t k = 0; k + 1 < axes.size(); ++k) {
        if (axes[k].name == name || axes[k + 1].name == name) forbid(key, k);
      }
    }
  }

  // Whether dims d and d+1 of the load are axes k and k+1 with full extents.
  bool is_pair(const std::vector<Axis>& axes, size_t k, const Expr& load, size_t d) const {
    const Shape& shape = shapes_.at(load->name);
    return is_axis(load.arg(d), axes[k]) && is_axis(load.arg(d + 1), axes[k + 1]) && shape[d] == axes[k].extent &&
           shape[d + 1] == axes[k + 1].extent;
  }

  void check_load(const Compute& c, const Expr& load) {
    const size_t rank = shapes_.at(load->name).size();
    std::set<std::pair<std::string, size_t>> kept;  // pairs of axes that this load keeps together
    for (size_t d = 0; d + 1 < rank; ++d) {
      bool keeps = is_number(load.arg(d)) && is_number(load.arg(d + 1));
      for (const auto& [axes, key] : axis_pairs(c)) {
        for (size_t k = 0; k + 1 < axes.size(); ++k) {
          if (!is_pair(axes, k, load, d) || !flags_[load->name][d] || !flags_[key][k]) continue;
          kept.insert({key, k});
          keeps = true;
        }
      }
      if (!keeps) forbid(load->name, d);
    }
    const auto uses = [&](const Axis& axis) {
      return std::ranges::any_of(load->args, [&](const Expr& index) { return is_axis(index, axis); });
    };
    for (const auto& [axes, key] : axis_pairs(c)) {
      for (size_t k = 0; k + 1 < axes.size(); ++k) {
        if (!kept.contains({key, k}) && (uses(axes[k]) || uses(axes[k + 1]))) forbid(key, k);
      }
    }
    // Axes inside an index that is not a plain variable: it may count points row by row, too.
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

bool follows(const Program& program, const Compute& c, const auto& is_wanted) {
  return std::ranges::any_of(
      program.computes, [&](const Compute& other) { return is_wanted(other) && depends_on(program, c, other.name()); });
}

// The dim of rows of a product whose columns are combined by a maximum before they multiply others, as scores of
// attention are; nothing where that is no program of one.
std::optional<size_t> rows_of_scores(const Program& program) {
  const auto sums = [](const Compute& c) { return c.is_reduction() && c.combiner.kind == CombinerKind::kSum; };
  for (const Compute& score : program.computes) {
    const auto is_maximum = [&](const Compute& c) {
      return c.is_reduction() && c.combiner.kind == CombinerKind::kMax && depends_on(program, c, score.name());
    };
    const auto weighs = [&](const Compute& c) {
      return sums(c) && c.axes.size() == score.axes.size() && follows(program, c, is_maximum);
    };
    if (sums(score) && score.axes.size() > 1 && std::ranges::any_of(program.computes, weighs))
      return score.axes.size() - 2;
  }
  return std::nullopt;
}

// One query keeps its axis, too.
PairFlags unit_axes(const Program& program) {
  const std::optional<size_t> query = rows_of_scores(program);
  PairFlags flags;
  for (const Tensor& t : all_tensors(program)) {
    std::vector<bool>& pairs = flags[t.name] = unit_pairs(t.shape);
    const bool computed = query && program.find_compute(t.name) != nullptr;
    if (!computed || t.shape.size() <= *query || t.shape[*query] != 1) continue;
    const auto d = static_cast<std::ptrdiff_t>(*query);
    if (d > 0) pairs[*query - 1] = false;
    const bool has_elements =
        std::any_of(t.shape.begin() + d, t.shape.end(), [](int64_t extent) { return extent > 1; });
    if (has_elements) pairs[*query] = false;
  }
  return flags;
}

void fuse(Relaid& relaid, const PairFlags& flags) {
  std::map<std::string, Layout> fusions;
  for (const auto& [tensor, pairs] : flags) {
    const Layout layout = fuse_runs(pairs);
    if (!layout.is_identity()) fusions[tensor] = layout;
  }
  relaid.apply(fusions);
}

// Whether a and b occur in `c` only as a * E + b within an index, E the extent of b.
bool runs_as_one(const Compute& c, const Axis& a, const Axis& b) {
  bool one = true;
  const auto check = [&](const auto& self, const Expr& e) -> void {
    if (e.op() == Op::kLoad) {
      for (const Expr& index : e->args) {
        if (!uses_var(index, a.name) && !uses_var(index, b.name)) continue;
        const auto linear = as_linear(index);
        std::map<std::string, int64_t> factor;
        if (linear) factor.insert(linear->terms.begin(), linear->terms.end());
        one = one && linear && factor[a.name] == factor[b.name] * b.extent && factor[b.name] != 0;
      }
      return;
    }
    one = one && !(e.is_var() && (e->name == a.name || e->name == b.name));
    for (const Expr& arg : e->args) self(self, arg);
  };
  for (const Expr& body : c.body) check(check, body);
  return one;
}

// Where all elements are one row, whose reductions leave one result each: the row gets an axis of its own, as there is
// where rows are several.
std::map<std::string, Layout> only_row(const Program& program) {
  std::map<std::string, Layout> layouts;
  bool reduces = false;
  for (const Compute& c : program.computes) {
    if (c.axes.size() != 1) return {};
    const bool one = c.axes[0].extent == 1;
    if (c.is_reduction() && !one) return {};
    reduces = reduces || c.is_reduction();
    if (one) continue;
    for (const Tensor& t : c.outputs) layouts[t.name] = Layout().split(0, {1, t.shape[0]});
  }
  return reduces ? layouts : std::map<std::string, Layout>();
}

}  // namespace

std::map<std::string, Layout> mergeable_axes(const Program& program) {
  Relaid relaid{program, {}};
  relaid.apply(divided_axes(program));
  fuse(relaid, unit_axes(relaid.program));
  fuse(relaid, PairFinder(relaid.program).run());
  relaid.apply(only_row(relaid.program));
  return relaid.layouts;
}

Program order_reductions(const Program& program) {
  Program out = program;
  for (Compute& c : out.computes) {
    if (c.reduce_axes.size() < 2 || c.combiner.kind == CombinerKind::kTuple || c.needed) continue;
    std::optional<Expr> only;
    bool is_one = true;
    visit_reads(c, [&](const Expr& read) {
      is_one = is_one && (!only || equal(*only, read));
      only = read;
    });
    const auto dim_of = [&](const Axis& axis) {
      return std::ranges::find_if((*only)->args, [&](const Expr& index) { return is_axis(index, axis); });
    };
    const auto has_dim = [&](const Axis& axis) { return dim_of(axis) != (*only)->args.end(); };
    if (is_one && only && std::ranges::all_of(c.reduce_axes, has_dim))
      std::ranges::stable_sort(c.reduce_axes, {}, dim_of);
  }
  return out;
}

Program merge_reductions(const Program& program) {
  Program out = program;
  for (Compute& c : out.computes) {
    for (size_t r = c.reduce_axes.size(); r-- > 1;) {
      const Axis a = c.reduce_axes[r - 1];
      const Axis b = c.reduce_axes[r];
      if (!runs_as_one(c, a, b)) continue;
      for (Expr& body : c.body) body = substitute(body, {{a.name, int_imm(0)}});
      c.reduce_axes[r].extent = a.extent * b.extent;
      c.reduce_axes.erase(c.reduce_axes.begin() + static_cast<long>(r) - 1);
    }
  }
  return out;
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
