#include "schedule/contraction.h"

#include <algorithm>

#include "expr/affine.h"
#include "expr/analyzer.h"
#include "expr/tf32.h"
#include "expr/word_product.h"

namespace tw::schedule {
namespace {

Expr strip_casts(const Expr& e) {
  if (e.op() == Op::kCast) return strip_casts(e.arg(0));
  const Expr* rounded = tf32_operand(e);
  return rounded ? strip_casts(*rounded) : e;
}

constexpr double kMostDeciding = 4096;  // points of a condition that are tried

// The load of a padded read: select(inside, load, constant).
Expr strip_guard(const Expr& e) {
  const Expr bare = strip_casts(e);
  if (bare.op() != Op::kSelect) return bare;
  const Expr read = strip_casts(bare.arg(1));
  return read.op() == Op::kLoad && bare.arg(2).op() == Op::kFloatImm ? read : bare;
}

void add_parts(const Expr& condition, const VarMap& point, std::vector<Expr>& parts) {
  if (condition.op() == Op::kAnd) {
    for (const Expr& part : condition->args) add_parts(part, point, parts);
    return;
  }
  bool reads = false;
  visit(condition, [&](const Expr& e) { reads = reads || e.op() == Op::kLoad; });
  if (!reads) parts.push_back(substitute(condition, point));
}

struct Factors {
  Expr a, b;
  std::optional<WordFormat> words;
};

// The factors of a product, of numbers or of words of them.
std::optional<Factors> factors_of(const Expr& e) {
  if (e.op() == Op::kMul) return Factors{e.arg(0), e.arg(1), std::nullopt};
  const std::optional<WordOperands> words = match_word_product(e);
  if (!words) return std::nullopt;
  return Factors{words->a, words->b, words->format};
}

}  // namespace

std::vector<Expr> nonzero_conditions(const te::Compute& sum,
                                     const std::function<const te::Compute*(const std::string& tensor)>& find) {
  std::vector<Expr> conditions;
  const Expr body = summed_term(sum.body[0]);
  if (body.op() != Op::kMul) return conditions;
  for (const Expr& operand : body->args) {
    const Expr read = strip_casts(operand);
    const te::Compute* source = read.op() == Op::kLoad ? find(read->name) : nullptr;
    if (source == nullptr || source->is_reduction() || source->body.size() != 1) continue;
    const Expr& padded = source->body[0];
    const bool with_zeros =
        padded.op() == Op::kSelect && padded.arg(2).op() == Op::kFloatImm && padded.arg(2)->number == 0;
    if (!with_zeros) continue;
    VarMap point;
    for (size_t d = 0; d < source->axes.size(); ++d) point.insert_or_assign(source->axes[d].name, read.arg(d));
    add_parts(padded.arg(0), point, conditions);
  }
  return conditions;
}

Expr summed_term(const Expr& body) {
  const bool conditional = body.op() == Op::kSelect && body.arg(2).op() == Op::kFloatImm && body.arg(2)->number == 0;
  return conditional ? body.arg(1) : body;
}

double count_products(const Contraction& match) {
  std::vector<te::Axis> deciding;
  double products = 1;
  double points = 1;
  for (const auto* axes : {&match.compute->axes, &match.compute->reduce_axes}) {
    for (const te::Axis& axis : *axes) {
      const bool decides = match.condition && uses_var(match.condition, axis.name);
      if (decides) deciding.push_back(axis);
      (decides ? points : products) *= static_cast<double>(axis.extent);
    }
  }
  if (deciding.empty() || points > kMostDeciding) return products * points;
  const Analyzer analyzer;
  return products * static_cast<double>(count_points(deciding, [&](const VarMap& point) {
           return !analyzer.simplify(substitute(match.condition, point)).is_int(0);
         }));
}

int64_t count_points(std::span<const te::Axis> axes, const std::function<bool(const VarMap& point)>& holds) {
  VarMap point;
  const auto count = [&](const auto& self, size_t d) -> int64_t {
    if (d == axes.size()) return holds(point) ? 1 : 0;
    int64_t sum = 0;
    for (int64_t i = 0; i < axes[d].extent; ++i) {
      point.insert_or_assign(axes[d].name, int_imm(i));
      sum += self(self, d + 1);
    }
    return sum;
  };
  return count(count, 0);
}

bool uses_axis(const Expr& read, const std::string& axis) {
  return std::any_of(read->args.begin(), read->args.end(), [&](const Expr& index) { return uses_var(index, axis); });
}

int64_t tap_distance(const Expr& read, const std::string& pixel, const std::string& tap) {
  int64_t distance = 0;
  for (const Expr& index : read->args) {
    if (!uses_var(index, tap)) continue;
    if (distance != 0 || coefficient_of(index, pixel) != 1) return 0;
    distance = coefficient_of(index, tap).value_or(0);
  }
  return std::max<int64_t>(0, distance);
}

int dim_of_axis(const Expr& read, const std::string& axis) {
  for (size_t d = 0; d < read->args.size(); ++d) {
    if (read.arg(d).is_var() && read.arg(d)->name == axis) return static_cast<int>(d);
  }
  return -1;
}

Result<Contraction> match_contraction(const te::Compute& compute) {
  if (!compute.is_reduction() || compute.combiner.kind != te::CombinerKind::kSum)
    return declined("{} is no sum", compute.name());
  if (compute.outputs.size() != 1 || compute.axes.empty())
    return declined("{} has no axis or several outputs", compute.name());
  const Expr body = summed_term(compute.body[0]);
  const std::optional<Factors> operands = factors_of(body);
  if (!operands) return declined("{} does not sum products", compute.name());
  Contraction match;
  match.compute = &compute;
  match.words = operands->words;
  if (!body.same(compute.body[0])) match.condition = compute.body[0].arg(0);
  match.a = strip_guard(operands->a);
  match.b = strip_guard(operands->b);
  match.guarded = strip_casts(operands->a).op() == Op::kSelect || strip_casts(operands->b).op() == Op::kSelect;
  if (match.a.op() != Op::kLoad || match.b.op() != Op::kLoad)
    return declined("{} multiplies more than two reads", compute.name());
  match.tf32 = rounds_to_tf32(operands->a);
  if (match.tf32 != rounds_to_tf32(operands->b)) return declined("{} rounds one operand to tf32", compute.name());
  match.column = compute.axes.back();
  const auto rows_for = [&](const Expr& b) {
    return std::count_if(compute.axes.begin(), compute.axes.end(),
                         [&](const te::Axis& x) { return !uses_axis(b, x.name); });
  };
  const bool a_has = uses_axis(match.a, match.column.name);
  const bool b_has = uses_axis(match.b, match.column.name);
  if (!a_has && !b_has) return declined("no operand of {} uses its last axis", compute.name());
  // B is the operand along the column; where both are (depthwise), the one that leaves more rows to reuse it.
  if (!b_has || (a_has && rows_for(match.a) > rows_for(match.b))) std::swap(match.a, match.b);
  match.a_uses_column = uses_axis(match.a, match.column.name);
  for (size_t i = 0; i + 1 < compute.axes.size(); ++i) {
    const te::Axis& axis = compute.axes[i];
    (uses_axis(match.b, axis.name) ? match.batch : match.rows).push_back(axis);
  }
  const auto decides = [&](const te::Axis& axis) { return match.condition && uses_var(match.condition, axis.name); };
  if (decides(match.column) || std::any_of(match.rows.begin(), match.rows.end(), decides))
    return declined("which products {} sums depends on its rows or columns", compute.name());
  return match;
}

const te::Compute* find_contraction(const te::Program& program) {
  const auto found =
      std::ranges::find_if(program.computes, [](const te::Compute& c) { return match_contraction(c).ok(); });
  return found == program.computes.end() ? nullptr : &*found;
}

}  // namespace tw::schedule
