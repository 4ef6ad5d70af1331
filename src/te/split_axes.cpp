#include <fmt/format.h>

#include "expr/analyzer.h"
#include "support/join.h"
#include "support/math.h"
#include "te/merge_axes.h"
#include "te/reads.h"

namespace tw::te {
namespace {

// The numbers of elements in parts of an axis, each part within the next larger one.
using Parts = std::set<int64_t>;
// The parts into which each dim of a tensor is cut; none where it stays whole.
using Cuts = std::map<std::string, std::vector<Parts>>;

// By axis of `c`: the numbers by which its indices are divided.
std::map<std::string, Parts> divisors_of(const Compute& c) {
  std::map<std::string, Parts> divisors;
  const auto take = [&](const Expr& e) {
    const bool divides = e.op() == Op::kFloorDiv || e.op() == Op::kFloorMod;
    if (divides && e.arg(0).is_var() && e.arg(1).op() == Op::kIntImm && e.arg(1)->value > 1)
      divisors[e.arg(0)->name].insert(e.arg(1)->value);
  };
  for (const Expr& body : c.body) visit(body, take);
  return divisors;
}

// Whether every part is a whole number of the next smaller one.
bool nest(const Parts& parts) {
  int64_t within = 1;
  return std::ranges::all_of(parts, [&](int64_t part) { return part % std::exchange(within, part) == 0; });
}

// The extents, outermost first, that an axis of `extent` elements has by parts that nest.
Shape extents_of(int64_t extent, const Parts& parts) {
  Shape extents;
  int64_t within = 1;
  for (int64_t part : parts) extents.insert(extents.begin(), part / std::exchange(within, part));
  extents.insert(extents.begin(), ceil_div(extent, within));
  return extents;
}

class CutFinder {
 public:
  explicit CutFinder(const Program& program) : program_(program) {
    for (const Tensor& t : all_tensors(program)) cuts_[t.name].resize(t.shape.size());
  }

  /// Nothing when one dim would be cut into parts that do not nest.
  std::optional<Cuts> run() {
    for (const Compute& c : program_.computes) {
      if (c.is_reduction()) take_divisions(c);
    }
    while (changed_ && !conflict_) {
      changed_ = false;
      for (const Compute& c : program_.computes) spread(c);
    }
    return conflict_ ? std::nullopt : std::optional(cuts_);
  }

 private:
  void cut(const std::string& tensor, size_t dim, const Parts& parts) {
    Parts& known = cuts_[tensor][dim];
    const size_t before = known.size();
    known.insert(parts.begin(), parts.end());
    conflict_ = conflict_ || !nest(known);
    changed_ = changed_ || known.size() > before;
  }

  void take_divisions(const Compute& c) {
    for (const auto& [name, divisors] : divisors_of(c)) {
      const int64_t k = index_of(c.axes, name, &Axis::name);
      if (k < 0) continue;
      Parts parts = divisors;
      std::erase_if(parts, [&](int64_t part) { return part >= c.axes[k].extent || c.axes[k].extent % part != 0; });
      cut(c.name(), k, parts);
    }
  }

  // Between a compute's axes and the dims that it writes and reads along them.
  void spread(const Compute& c) {
    for (size_t k = 0; k < c.axes.size(); ++k) {
      for (const Tensor& t : c.outputs) share(t.name, k, c.name(), k);
    }
    visit_reads(c, [&](const Expr& load) {
      const Shape& shape = program_.tensor(load->name).shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        const int64_t k = load.arg(d).is_var() ? index_of(c.axes, load.arg(d)->name, &Axis::name) : -1;
        if (k >= 0 && shape[d] == c.axes[k].extent) share(load->name, d, c.name(), k);
      }
    });
  }

  void share(const std::string& a, size_t a_dim, const std::string& b, size_t b_dim) {
    cut(b, b_dim, cuts_[a][a_dim]);
    cut(a, a_dim, cuts_[b][b_dim]);
  }

  const Program& program_;
  Cuts cuts_;
  bool changed_ = false;
  bool conflict_ = false;
};

// Cuts the first reduction axis of `c` that indices divide; whether there was any.
bool split_divided(Compute& c) {
  std::map<std::string, Parts> divisors = divisors_of(c);
  const auto is_divided = [&](const Axis& axis) {
    Parts& parts = divisors[axis.name];
    std::erase_if(parts, [&](int64_t part) { return part >= axis.extent; });
    const bool whole = parts.empty() || axis.extent % *parts.rbegin() == 0;
    return !parts.empty() && nest(parts) && (whole || c.combiner.kind != CombinerKind::kTuple);
  };
  const auto found = std::ranges::find_if(c.reduce_axes, is_divided);
  if (found == c.reduce_axes.end()) return false;
  const Axis axis = *found;
  const Shape extents = extents_of(axis.extent, divisors[axis.name]);
  const auto axes = by_index(extents.size(), [&](size_t p) {
    return Axis{fmt::format("{}_{}", axis.name, p), extents[p]};
  });
  Expr value = axes[0].var();
  for (size_t p = 1; p < axes.size(); ++p) value = value * extents[p] + axes[p].var();
  c.reduce_axes = spliced(c.reduce_axes, found - c.reduce_axes.begin(), 1, axes);
  Analyzer analyzer;
  for (const Axis& a : joined(c.axes, c.reduce_axes)) analyzer.bind(a.name, 0, a.extent);
  for (Expr& body : c.body) {
    body = substitute(body, {{axis.name, value}});
    if (num_elements(extents) > axis.extent)
      body = select(value < Expr(axis.extent), body, identity_of(c.combiner.kind, body.type()));
    body = analyzer.simplify(body);
  }
  if (c.needed) c.needed = analyzer.simplify(substitute(c.needed, {{axis.name, value}}));
  return true;
}

}  // namespace

std::map<std::string, Layout> divided_axes(const Program& program) {
  std::map<std::string, Layout> layouts;
  const std::optional<Cuts> cuts = CutFinder(program).run();
  if (!cuts) return layouts;
  for (const auto& [tensor, parts] : *cuts) {
    const Shape& shape = program.tensor(tensor).shape;
    Layout layout;
    // From the back, so that earlier dims keep their numbers.
    for (size_t d = parts.size(); d-- > 0;) {
      if (!parts[d].empty()) layout = layout.split(static_cast<int>(d), extents_of(shape[d], parts[d]));
    }
    if (!layout.is_identity()) layouts[tensor] = layout;
  }
  return layouts;
}

Program split_reductions(const Program& program) {
  Program out = program;
  for (Compute& c : out.computes) {
    while (c.is_reduction() && split_divided(c)) {
    }
  }
  return out;
}

}  // namespace tw::te
