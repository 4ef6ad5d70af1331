#include "schedule/match/contraction.h"

#include "expr/affine.h"
#include "expr/analyzer.h"
#include "expr/tf32.h"
#include "te/reads.h"

namespace tw::schedule {
namespace {

constexpr double kMaxDeciding = 4096;  // points of a condition that are tried

// The load of a padded read: select(inside, load, constant).
Expr strip_guard(const Expr& e) {
  const Expr bare = te::strip_casts(e);
  if (bare.op() != Op::kSelect) return bare;
  const Expr read = te::strip_casts(bare.arg(1));
  return read.op() == Op::kLoad && bare.arg(2).op() == Op::kFloatImm ? read : bare;
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

// Coefficient of `axis` in the row-major element offset of `read` in units of bytes; 0 when it is not linear.
int64_t stride_bytes(const te::Program& program, const Expr& read, const std::string& axis) {
  const te::Tensor& tensor = program.tensor(read->name);
  const Shape strides = row_major_strides(tensor.shape);
  int64_t stride = 0;
  for (size_t d = 0; d < strides.size(); ++d) stride += coefficient_of(read.arg(d), axis).value_or(0) * strides[d];
  return stride * tensor.type.bytes();
}

}  // namespace

std::vector<te::Axis> reduction_order(const te::Program& program, const Contraction& match) {
  std::vector<te::Axis> loops = match.compute->reduce_axes;
  const auto stride = [&](const te::Axis& r) { return stride_bytes(program, match.a, r.name); };
  std::ranges::stable_sort(loops, std::greater<>(), stride);
  return loops;
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
  if (deciding.empty() || points > kMaxDeciding) return products * points;
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

Result<Contraction> match_contraction(const te::Compute& compute) {
  if (!compute.is_reduction() || compute.combiner.kind != te::CombinerKind::kSum)
    return declined("{} is no sum", compute.name());
  if (compute.outputs.size() != 1 || compute.axes.empty())
    return declined("{} has no axis or several outputs", compute.name());
  const Expr body = te::summed_term(compute.body[0]);
  const std::optional<Factors> operands = factors_of(body);
  if (!operands) return declined("{} does not sum products", compute.name());
  Contraction match;
  match.compute = &compute;
  match.words = operands->words;
  if (!body.same(compute.body[0])) match.condition = compute.body[0].arg(0);
  match.a = strip_guard(operands->a);
  match.b = strip_guard(operands->b);
  match.guarded = te::strip_casts(operands->a).op() == Op::kSelect || te::strip_casts(operands->b).op() == Op::kSelect;
  if (match.a.op() != Op::kLoad || match.b.op() != Op::kLoad)
    return declined("{} multiplies more than two reads", compute.name());
  match.tf32 = rounds_to_tf32(operands->a);
  if (match.tf32 != rounds_to_tf32(operands->b)) return declined("{} rounds one operand to tf32", compute.name());
  match.column = compute.axes.back();
  const auto rows_for = [&](const Expr& b) {
    return std::ranges::count_if(compute.axes, [&](const te::Axis& x) { return !te::uses_axis(b, x.name); });
  };
  const bool a_has = te::uses_axis(match.a, match.column.name);
  const bool b_has = te::uses_axis(match.b, match.column.name);
  if (!a_has && !b_has) return declined("no operand of {} uses its last axis", compute.name());
  // B is the operand along the column; where both are (depthwise), the one that leaves more rows to reuse it.
  if (!b_has || (a_has && rows_for(match.a) > rows_for(match.b))) std::swap(match.a, match.b);
  match.a_uses_column = te::uses_axis(match.a, match.column.name);
  const auto decides = [&](const te::Axis& axis) { return match.condition && uses_var(match.condition, axis.name); };
  if (decides(match.column)) return declined("which products {} sums depends on its columns", compute.name());
  for (size_t i = 0; i + 1 < compute.axes.size(); ++i) {
    const te::Axis& axis = compute.axes[i];
    (te::uses_axis(match.b, axis.name) || decides(axis) ? match.batch : match.rows).push_back(axis);
  }
  return match;
}

const te::Compute* find_contraction(const te::Program& program) {
  const auto found =
      std::ranges::find_if(program.computes, [](const te::Compute& c) { return match_contraction(c).ok(); });
  return found == program.computes.end() ? nullptr : &*found;
}

bool is_computed_operand(const te::Program& program, const te::Compute& c) {
  if (c.is_reduction() || c.outputs.size() != 1 || program.is_output(c.name())) return false;
  const Op op = te::strip_casts(c.body[0]).op();
  if (op == Op::kLoad || op == Op::kSelect || te::count_reads(program)[c.name()] != 1) return false;
  return std::ranges::any_of(program.computes, [&](const te::Compute& sum) {
    if (te::count_reads(sum, c.name()) == 0) return false;
    const Result<Contraction> match = match_contraction(sum);
    const bool once = match.ok() && match->a->name == c.name() && !match->a_uses_column && match->batch.empty();
    return once && te::num_points(match->rows) * te::num_points(sum.reduce_axes) == num_elements(c.outputs[0].shape);
  });
}

}  // namespace tw::schedule
