// The primitive kMatrices: a sum of products as the product of two matrices, whatever the indices of its operands. Of a
// convolution the left one is what im2col gathers (Chellapilla, Puri, Simard 2006); it is a stage, so that a schedule
// decides where its elements are stored and for how long.
#include <algorithm>

#include "expr/affine.h"
#include "expr/tf32.h"
#include "schedule/stage.h"
#include "support/error.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::schedule {
namespace {

// Axes that count as one index, the last one fastest.
struct Digits {
  std::vector<te::Axis> axes;
  int64_t multiple = 1;  // zeros fill the matrices up to a multiple of this

  int64_t extent() const { return te::num_points(axes); }
  int64_t padded() const { return ceil_div(extent(), multiple) * multiple; }

  Expr number() const {
    Expr all = int_imm(0);
    for (const te::Axis& axis : axes) all = all * int_imm(axis.extent) + axis.var();
    return all;
  }

  // Adds the value that each axis has in the number `index`.
  void take_apart(const Expr& index, VarMap& values) const {
    Expr rest = index;
    for (size_t i = axes.size(); i-- > 0;) {
      const Expr extent = int_imm(axes[i].extent);
      values[axes[i].name] = i == 0 ? rest : floor_mod(rest, extent);
      rest = floor_div(rest, extent);
    }
  }

  bool used_by(const Expr& e) const {
    return std::ranges::any_of(axes, [&](const te::Axis& a) { return a.extent > 1 && uses_var(e, a.name); });
  }
};

// A reduction axis by which the left operand moves as by its last axis of rows.
struct FilterPositions {
  te::Axis axis;
  int64_t distance = 1;  // in lines, between a filter position and the next

  int64_t halo() const { return (axis.extent - 1) * distance; }
};

struct Roles {
  Digits rows, columns, steps;
  std::optional<Digits> batch;
  std::optional<FilterPositions> positions;
  int64_t right_steps = 0;  // that the right operand's tensor has: zeros behind those of the sum
  int64_t halo = 0;         // lines of zeros behind those of the last axis of rows
};

// "i0$i2": these of `known`, each of which has one place in all roles.
Digits take_digits(const std::string& names, std::vector<te::Axis>& known, int64_t multiple) {
  Digits digits{{}, multiple};
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find('$', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    const auto axis = std::ranges::find(known, name, &te::Axis::name);
    if (axis == known.end()) throw UserError(fmt::format("no axis {} is left", name));
    digits.axes.push_back(*axis);
    known.erase(axis);
    begin = end + 1;
  }
  return digits;
}

Roles roles_of(const te::Compute& c, const Primitive& p) {
  std::vector<te::Axis> axes = c.axes, reductions = c.reduce_axes;
  Roles roles;
  roles.rows = take_digits(p.loops[0], axes, p.factors[0]);
  roles.columns = take_digits(p.loops[1], axes, p.factors[1]);
  roles.steps = take_digits(p.loops[2], reductions, p.factors[2]);
  roles.right_steps = std::max(roles.steps.extent(), p.factors.size() > 3 ? p.factors[3] : 0);
  if (p.factors.size() > 4) roles.halo = p.factors[4];
  roles.rows.axes.back().extent += roles.halo;
  if (p.loops.size() > 3) roles.batch = take_digits(p.loops[3], axes, 1);
  if (!p.option.empty()) {
    const Digits positions = take_digits(p.option, reductions, 1);
    if (positions.axes.size() > 1) throw UserError(fmt::format("the filter positions of {} are of one axis", c.name()));
    roles.positions = FilterPositions{positions.axes.front()};
  }
  if (!axes.empty() || !reductions.empty()) throw UserError(fmt::format("some axes of {} have no role", c.name()));
  return roles;
}

// What is stored of an operand: conversions of 16-bit floats, around or inside a guard, and roundings to tf32 are left
// to the product.
Expr stored(const Expr& e) {
  if (e.op() == Op::kCast && e.arg(0).type().is_half()) return stored(e.arg(0));
  if (const Expr* rounded = tf32_operand(e)) return stored(*rounded);
  if (e.op() == Op::kSelect && is_zero(e.arg(2))) {
    const Expr inner = stored(e.arg(1));
    return select(e.arg(0), inner, imm(inner.type(), 0));
  }
  return e;
}

// `value` where `condition` holds, else 0; null conditions hold always.
Expr zero_unless(const Expr& condition, const Expr& value) {
  if (!condition) return value;
  if (value.op() == Op::kSelect && is_zero(value.arg(2)))
    return select(condition && value.arg(0), value.arg(1), value.arg(2));
  return select(condition, value, imm(value.type(), 0));
}

Expr both(const Expr& a, const Expr& b) { return !a ? b : !b ? a : a && b; }

te::Tensor over(const std::string& name, DataType type, const std::vector<te::Axis>& axes) {
  return {name, type, te::shape_of(axes)};
}

// Finds by how many rows of x, the last axis of rows, the left operand moves from one filter position to the next, and
// has x go on to where the last filter position reads.
void place_positions(Roles& roles, const Expr& left, const Expr& condition) {
  te::Axis& x = roles.rows.axes.back();
  FilterPositions& positions = *roles.positions;
  visit(left, [&](const Expr& e) {
    if (e.op() == Op::kLoad) positions.distance = te::position_distance(e, x.name, positions.axis.name);
  });
  const Analyzer ranges;
  const Expr at_first = substitute(left, {{positions.axis.name, int_imm(0)}});
  const Expr moved = substitute(at_first, {{x.name, x.var() + positions.axis.var() * int_imm(positions.distance)}});
  const bool overlaps = positions.distance > 0 && equal(ranges.simplify(moved), ranges.simplify(left));
  if (!overlaps || (condition && uses_var(condition, positions.axis.name)))
    throw UserError(fmt::format("the left operand does not move by {} as by {}", positions.axis.name, x.name));
  x.extent += positions.halo();
}

// Up to which value of `axis` what `e` reads is there: `known`, or more where its tensor goes on.
int64_t end_of_reads(const te::Program& program, const Expr& e, const std::vector<te::Axis>& axes, const te::Axis& axis,
                     int64_t known) {
  const auto is_inside = [&](const Expr& index, int64_t extent, int64_t until) {
    Analyzer ranges;
    for (const te::Axis& a : axes) ranges.bind(a.name, 0, a.name == axis.name ? until : a.extent);
    const Interval range = ranges.bounds(index);
    return range.lo >= 0 && range.hi < extent;
  };
  int64_t end = axis.extent;
  visit(e, [&](const Expr& load) {
    if (load.op() != Op::kLoad) return;
    const Shape& shape = program.tensor(load->name).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (!uses_var(load.arg(d), axis.name) || is_inside(load.arg(d), shape[d], axis.extent)) continue;
      end = std::min(end, is_inside(load.arg(d), shape[d], shape[d]) ? std::max(known, shape[d]) : known);
    }
  });
  return end;
}

// One matrix: the operand at [batch, line, step], zeros in what fills it up. Where the columns' tensor goes on it is
// read instead: beyond the columns, which are no results, and up to the last step at which it has zeros itself.
te::Compute matrix(const te::Program& program, const std::string& name, const Roles& roles, const Digits& lines,
                   const Expr& operand, const Expr& condition) {
  te::Compute out;
  VarMap values;
  std::vector<std::pair<te::Axis, int64_t>> ends;  // of axes that zeros fill up
  const auto add = [&](const Digits& digits, int64_t more = 0) {
    const te::Axis axis{fmt::format("i{}", out.axes.size()), digits.padded() + more};
    out.axes.push_back(axis);
    digits.take_apart(axis.var(), values);
    if (axis.extent != digits.extent()) ends.emplace_back(axis, digits.extent());
    return axis.name;
  };
  const bool left = &lines == &roles.rows;
  if (roles.batch) add(*roles.batch);
  if (roles.positions && left) values[roles.positions->axis.name] = int_imm(0);
  if (roles.positions && !left) add(Digits{{roles.positions->axis}});
  add(lines, roles.positions && left ? roles.positions->halo() : 0);
  const std::string step = add(roles.steps);
  const Expr value = substitute(stored(operand), values);
  Expr guard;
  if (left && roles.halo > 0) {
    const te::Axis& last = roles.rows.axes.back();
    guard = values.at(last.name) < int_imm(last.extent - roles.halo);
  }
  for (const auto& [axis, known] : ends) {
    int64_t end = left ? known : end_of_reads(program, value, out.axes, axis, known);
    if (axis.name == step && !left) end = std::min(end, roles.right_steps);
    if (end < axis.extent) guard = both(guard, axis.var() < int_imm(end));
  }
  if (condition) guard = both(guard, substitute(condition, values));
  out.body = {zero_unless(guard, value)};
  out.outputs = {over(name, out.body[0].type(), out.axes)};
  return out;
}

// Of the matrices that `left` and `right` became.
te::Compute product(const te::Compute& sum, const Roles& roles, const te::Compute& lhs, const te::Compute& rhs,
                    const Expr& left, const Expr& right) {
  te::Compute out;
  out.axes = lhs.axes;
  const size_t row = out.axes.size() - 2;
  out.axes[row].extent = roles.rows.padded();
  out.axes.back().extent = roles.columns.padded();
  out.reduce_axes = {{"r0", lhs.axes.back().extent}};
  Expr at_row = out.axes[row].var();
  std::vector<Expr> at_column;
  if (roles.positions) {
    const te::Axis positions{"r1", roles.positions->axis.extent};
    out.reduce_axes.push_back(positions);
    at_row = at_row + positions.var() * int_imm(roles.positions->distance);
    at_column.push_back(positions.var());
  }
  at_column.push_back(out.axes.back().var());
  out.combiner = sum.combiner;
  const DataType type = sum.outputs[0].type;
  out.outputs = {over(sum.name() + ".acc", type, out.axes)};
  const auto read = [&](const te::Compute& operand, const std::vector<Expr>& line, const Expr& was) {
    std::vector<Expr> indices = by_index(row, [&](size_t d) { return out.axes[d].var(); });
    indices.insert(indices.end(), line.begin(), line.end());
    indices.push_back(var("r0"));
    const Expr element = operand.outputs[0](indices);
    return rounds_to_tf32(was) ? to_tf32(element) : cast(type, element);
  };
  out.body = {read(lhs, {at_row}, left) * read(rhs, at_column, right)};
  return out;
}

}  // namespace

void apply_matrices(State& state, const Primitive& p) {
  te::Program program = current_program(state);
  const auto at = std::ranges::find(program.computes, p.stage, [](const te::Compute& c) { return c.name(); });
  if (at == program.computes.end()) throw UserError(fmt::format("no stage {}", p.stage));
  te::Compute& sum = *at;
  const bool sums = sum.is_reduction() && sum.combiner.kind == te::CombinerKind::kSum && sum.body.size() == 1;
  const Expr term = sums ? te::summed_term(sum.body[0]) : Expr();
  if (!sums || term.op() != Op::kMul || !term.type().is_float())
    throw UserError(fmt::format("stage {} is no sum of float products", p.stage));
  Roles roles = roles_of(sum, p);
  const Expr condition = term.same(sum.body[0]) ? Expr() : sum.body[0].arg(0);
  const bool swapped = roles.columns.used_by(term.arg(0)) || roles.rows.used_by(term.arg(1));
  const Expr left = term.arg(swapped ? 1 : 0), right = term.arg(swapped ? 0 : 1);
  if (roles.columns.used_by(left) || roles.rows.used_by(right))
    throw UserError(fmt::format("an operand of {} uses both rows and columns", p.stage));
  if (condition && (roles.columns.used_by(condition) || roles.rows.used_by(condition)))
    throw UserError(fmt::format("which products {} sums depends on its rows or columns", p.stage));
  if (roles.positions) place_positions(roles, left, condition);

  te::Compute lhs = matrix(program, p.stage + ".lhs", roles, roles.rows, left, condition);
  te::Compute rhs = matrix(program, p.stage + ".rhs", roles, roles.columns, right, Expr());
  te::Compute acc = product(sum, roles, lhs, rhs, left, right);
  for (const te::Compute* made : {&lhs, &rhs, &acc}) check_fresh(state, made->name());
  std::vector<Expr> element;
  if (roles.batch) element.push_back(roles.batch->number());
  element.push_back(roles.rows.number());
  element.push_back(roles.columns.number());
  sum.body = {acc.outputs[0](element)};
  sum.reduce_axes.clear();
  sum.combiner = {};
  // Inputs are there from the start: their copies are under way while other stages compute.
  const auto from_inputs = [&](const te::Compute& c) {
    bool only = true;
    te::visit_reads(c, [&](const Expr& read) { only = only && program.find_compute(read->name) == nullptr; });
    return only;
  };
  std::vector<te::Compute> first, later;
  for (te::Compute* operand : {&lhs, &rhs}) (from_inputs(*operand) ? first : later).push_back(std::move(*operand));
  later.push_back(std::move(acc));
  program.computes.insert(at, later.begin(), later.end());
  program.computes.insert(program.computes.begin(), first.begin(), first.end());
  refresh(state, program, {p.stage});
}

}  // namespace tw::schedule
