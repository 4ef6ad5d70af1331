#include "codegen/cuda/matrix.h"

#include "core/model_units.h"
#include "support/error.h"

namespace tw::codegen {
namespace {

using loop::Stmt;
using loop::StmtKind;

// The variables of a step: rows are half * 8 + row, columns pair * 2 + column.
struct Places {
  std::string half, column, step, row, pair;
};

bool is_matrix_loop(const Stmt& s, int64_t extent) {
  return s->kind == StmtKind::kFor && s->for_kind == loop::ForKind::kMatrix && s->extent == extent;
}

Places places_of(const Stmt& nest, const ThreadGroup& group) {
  constexpr int64_t kRows = 8, kPairs = 4, kSteps = 16;
  const size_t loops = group.loops.size();
  const bool lanes = loops >= 2 && group.loops[loops - 2]->extent == kRows && group.loops[loops - 1]->extent == kPairs;
  TW_CHECK(lanes && group.threads % kWarpThreads == 0,
           "a matrix step of threads that are no warps of 8 rows by 4 pairs");
  TW_CHECK(
      is_matrix_loop(nest, 2) && is_matrix_loop(nest->body[0], 2) && is_matrix_loop(nest->body[0]->body[0], kSteps),
      "a matrix step other than 2 halves by 2 columns by 16 steps");
  return {nest->var, nest->body[0]->var, nest->body[0]->body[0]->var, group.loops[loops - 2]->var,
          group.loops[loops - 1]->var};
}

// The load below a conversion to f32.
const Expr& load_of(const Expr& operand) {
  TW_CHECK(operand.op() == Op::kCast && operand.arg(0).op() == Op::kLoad && operand.arg(0).type().is_half(),
           "{} is no element of 16 bits", to_string(operand));
  return operand.arg(0);
}

}  // namespace

MatrixStep matrix_step(const Stmt& nest, const ThreadGroup& group, const Analyzer& ranges) {
  const Places at = places_of(nest, group);
  const Stmt& store = nest->body[0]->body[0]->body[0];
  const Expr& sum = store->value;
  TW_CHECK(store->kind == StmtKind::kStore && sum.op() == Op::kFma && !store->predicate, "a matrix step without sum");
  const bool swapped = uses_var(sum.arg(0), at.pair);
  const Expr& left = load_of(sum.arg(swapped ? 1 : 0));
  const Expr& right = load_of(sum.arg(swapped ? 0 : 1));
  const bool apart = !uses_var(left, at.pair) && !uses_var(left, at.column) && !uses_var(right, at.row) &&
                     !uses_var(right, at.half) && left.type() == right.type();
  TW_CHECK(apart, "{} is no product of rows and columns", to_string(sum));

  MatrixStep out;
  out.type = left.type();
  out.sums = store->buffer;
  const auto element = [&](const Expr& load, VarMap values, int64_t step) {
    values[at.step] = var(at.pair) * int_imm(2) + int_imm(step);
    return ranges.simplify(substitute(load, values));
  };
  const auto pair = [&](const Expr& load, const VarMap& values, int64_t step) {
    return MatrixStep::Pair{element(load, values, step), element(load, values, step + 1)};
  };
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t half = i % 2;
    out.a[i] = pair(left, {{at.half, int_imm(half)}}, i / 2 * 8);
    const VarMap place = {{at.half, int_imm(i / 2)}, {at.column, int_imm(i % 2)}};
    for (const Expr& index : store->indices) out.d[i].push_back(ranges.simplify(substitute(index, place)));
  }
  // What holds rows of A holds columns of B.
  const VarMap column = {{at.pair, floor_div(var(at.row), int_imm(2))},
                         {at.column, floor_mod(var(at.row), int_imm(2))}};
  for (int64_t i = 0; i < 2; ++i) out.b[i] = pair(right, column, i * 8);
  return out;
}

}  // namespace tw::codegen
