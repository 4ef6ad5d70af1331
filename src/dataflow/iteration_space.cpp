#include "dataflow/iteration_space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "dataflow/axis_classes.h"
#include "expr/word_product.h"
#include "support/join.h"
#include "te/reads.h"

namespace tw::dataflow {
namespace {

std::set<std::string> names_of(const std::vector<te::Axis>& axes) {
  std::set<std::string> names;
  for (const te::Axis& a : axes) names.insert(a.name);
  return names;
}

// Axes of `wanted` in `e`; nothing where `e` reads no tensor.
std::set<std::string> moves_along(const Expr& e, const std::set<std::string>& wanted) {
  std::set<std::string> used;
  bool reads = false;
  visit(e, [&](const Expr& x) {
    reads = reads || x.op() == Op::kLoad;
    if (x.is_var() && wanted.contains(x->name)) used.insert(x->name);
  });
  return reads ? used : std::set<std::string>();
}

void add_factors(const Expr& e, std::vector<Expr>& factors) {
  const Expr bare = te::strip_casts(e);
  if (const std::optional<WordOperands> words = match_word_product(bare)) {
    append(factors, {words->a, words->b});
  } else if (bare.op() == Op::kMul) {
    for (const Expr& factor : bare->args) add_factors(factor, factors);
  } else {
    factors.push_back(bare);
  }
}

// Independent axes of a sum of products along which some of the factors that are summed over move, and others do not.
std::set<std::string> special_axes(const te::Compute& c) {
  if (!c.is_reduction() || c.combiner.kind != te::CombinerKind::kSum || c.body.size() != 1) return {};
  std::vector<Expr> factors;
  add_factors(te::summed_term(te::strip_casts(c.body[0])), factors);
  const std::set<std::string> own = names_of(c.axes), summed = names_of(c.reduce_axes);
  std::map<std::string, size_t> moving;
  size_t operands = 0;
  for (const Expr& factor : factors) {
    if (moves_along(factor, summed).empty()) continue;
    ++operands;
    for (const std::string& axis : moves_along(factor, own)) ++moving[axis];
  }
  std::set<std::string> special;
  for (const auto& [axis, count] : moving) {
    if (count < operands) special.insert(axis);
  }
  return special;
}

// Whether the compute only brings data to its place: a read, converted or behind a guard.
bool only_moves(const te::Compute& c) {
  if (c.is_reduction() || c.body.size() != 1) return false;
  Expr e = te::strip_casts(c.body[0]);
  while (e.op() == Op::kSelect) e = te::strip_casts(e.arg(1));
  return e.op() == Op::kLoad;
}

class SpaceBuilder {
 public:
  explicit SpaceBuilder(const te::Program& program)
      : program_(program), classes_(program), axes_(static_cast<size_t>(classes_.count())) {}

  IterationSpace run() {
    for (size_t c = 0; c < program_.computes.size(); ++c) {
      for (const te::Axis& r : program_.computes[c].reduce_axes) reduce(c, r);
    }
    for (size_t c = 0; c < program_.computes.size(); ++c) mark_special(c);
    for (size_t c = program_.computes.size(); c-- > 0;) {
      if (leaves(program_.computes[c])) add(c, 'i');
    }
    for (size_t c = 0; c < program_.computes.size(); ++c) {
      if (!only_moves(program_.computes[c])) add(c, 'r');
    }
    return std::move(out_);
  }

 private:
  SpaceAxis& axis(size_t compute, const std::string& name) {
    return axes_[static_cast<size_t>(classes_.of(compute, name))];
  }

  bool leaves(const te::Compute& c) const {
    return std::ranges::any_of(c.outputs, [&](const te::Tensor& out) { return program_.is_output(out.name); });
  }

  // Whether a compute that needs the result of compute `c` has points along the class.
  bool is_applied(size_t c, int reduced) const {
    std::set<std::string> results;
    for (const te::Tensor& out : program_.computes[c].outputs) results.insert(out.name);
    for (size_t d = c + 1; d < program_.computes.size(); ++d) {
      const te::Compute& later = program_.computes[d];
      bool needs = false;
      te::visit_reads(later, [&](const Expr& load) { needs = needs || results.contains(load->name); });
      if (!needs) continue;
      for (const te::Tensor& out : later.outputs) results.insert(out.name);
      if (std::ranges::any_of(later.axes, [&](const te::Axis& a) { return classes_.of(d, a.name) == reduced; }))
        return true;
    }
    return false;
  }

  void reduce(size_t c, const te::Axis& r) {
    SpaceAxis& a = axis(c, r.name);
    a.role = AxisRole::kReduction;
    a.is_applied = a.is_applied || is_applied(c, classes_.of(c, r.name));
  }

  // A sum of products along an axis to which it is applied again is a statistic of that axis: gradients of layer norm.
  void mark_special(size_t c) {
    const te::Compute& compute = program_.computes[c];
    const bool is_statistic = std::ranges::any_of(
        compute.reduce_axes, [&](const te::Axis& r) { return is_applied(c, classes_.of(c, r.name)); });
    if (is_statistic) return;
    for (const std::string& name : special_axes(compute)) {
      SpaceAxis& a = axis(c, name);
      if (a.role == AxisRole::kIndependent) a.role = AxisRole::kSpecial;
    }
  }

  void add(size_t c, char prefix) {
    const te::Compute& compute = program_.computes[c];
    for (const auto* axes : {&compute.axes, &compute.reduce_axes}) {
      for (const te::Axis& of_compute : *axes) {
        const int number = classes_.of(c, of_compute.name);
        SpaceAxis a = axes_[static_cast<size_t>(number)];
        a.extent = of_compute.extent;
        if ((a.extent == 1 && a.role != AxisRole::kSpecial) || !added_.insert(number).second) continue;
        const bool is_own = axes == &compute.axes && prefix == 'i';
        a.name = fmt::format("{}{}", is_own ? 'i' : 'r', is_own ? &of_compute - axes->data() : summed_++);
        out_.axes.push_back(std::move(a));
      }
    }
  }

  const te::Program& program_;
  AxisClasses classes_;
  std::vector<SpaceAxis> axes_;  // by class; without name and extent
  std::set<int> added_;
  int summed_ = 0;
  IterationSpace out_;
};

}  // namespace

std::vector<SpaceAxis> IterationSpace::with(AxisRole role) const {
  std::vector<SpaceAxis> found;
  std::ranges::copy_if(axes, std::back_inserter(found), [&](const SpaceAxis& a) { return a.role == role; });
  return found;
}

IterationSpace space_of(const te::Program& program) { return SpaceBuilder(program).run(); }

std::string to_string(const IterationSpace& space) {
  constexpr std::pair<AxisRole, std::string_view> kNames[] = {
      {AxisRole::kIndependent, "independent"}, {AxisRole::kSpecial, "special"}, {AxisRole::kReduction, "reduction"}};
  std::vector<std::string> parts;
  for (const auto& [role, name] : kNames) {
    const std::vector<int64_t> extents = mapped(space.with(role), &SpaceAxis::extent);
    if (!extents.empty()) parts.push_back(fmt::format("{} {}", fmt::join(extents, " x "), name));
  }
  return parts.empty() ? "1 point" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string_view name_of(OperatorClass operator_class) {
  constexpr std::string_view kNames[] = {"contraction", "normalization", "elementwise"};
  return kNames[static_cast<size_t>(operator_class)];
}

OperatorClass class_of(const IterationSpace& space) {
  const auto has = [&](AxisRole role) { return std::ranges::count(space.axes, role, &SpaceAxis::role) > 0; };
  if (has(AxisRole::kSpecial)) return OperatorClass::kContraction;
  return has(AxisRole::kReduction) ? OperatorClass::kNormalization : OperatorClass::kElementwise;
}

}  // namespace tw::dataflow
