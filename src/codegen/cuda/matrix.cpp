#include "codegen/cuda/matrix.h"

#include <functional>

#include "core/model_units.h"
#include "expr/tf32.h"
#include "support/error.h"
#include "support/join.h"

namespace tw::codegen {
namespace {

using loop::Stmt;
using loop::StmtKind;

// The variables of a step: rows are half * 8 + row, columns pair * 2 + column.
struct Places {
  std::string half, column, step, row, pair;
};

Places places_of(const Stmt& nest, const ThreadGroup& group) {
  constexpr int64_t kRows = 8, kPairs = 4, kSteps = 16;
  const size_t loops = group.loops.size();
  const bool lanes = loops >= 2 && group.loops[loops - 2]->extent == kRows && group.loops[loops - 1]->extent == kPairs;
  TW_CHECK(lanes && group.threads % kWarpThreads == 0,
           "a matrix step of threads that are no warps of 8 rows by 4 pairs");
  const auto is_loop = [](const Stmt& s, int64_t extent) { return loop::is_matrix_loop(s) && s->extent == extent; };
  TW_CHECK(is_loop(nest, 2) && is_loop(nest->body[0], 2) && is_loop(nest->body[0]->body[0], kSteps),
           "a matrix step other than 2 halves by 2 columns by 16 steps");
  return {nest->var, nest->body[0]->var, nest->body[0]->body[0]->var, group.loops[loops - 2]->var,
          group.loops[loops - 1]->var};
}

// The load below a conversion to f32, or below a rounding to tf32.
const Expr& load_of(const Expr& operand) {
  const Expr* rounded = tf32_operand(operand);
  if (rounded != nullptr && rounded->op() == Op::kLoad) return *rounded;
  TW_CHECK(operand.op() == Op::kCast && operand.arg(0).op() == Op::kLoad && operand.arg(0).type().is_half(),
           "{} is no element of 16 bits, nor one of tf32", to_string(operand));
  return operand.arg(0);
}

// A matrix loop and those inside, each the only statement of the one around it.
std::vector<Stmt> nest_of(const Stmt& nest) {
  std::vector<Stmt> loops;
  for (Stmt s = nest; loop::is_matrix_loop(s); s = s->body[0]) loops.push_back(s);
  return loops;
}

// A store sums[..] = fma(f32(left), f32(right), sums[..]); the columns' element names the variable `pair`.
struct MmaOperands {
  const Expr &left, &right;
};

MmaOperands operands_of(const Stmt& store, const std::string& pair) {
  const Expr& sum = store->value;
  TW_CHECK(store->kind == StmtKind::kStore && sum.op() == Op::kFma && !store->predicate, "a matrix step without sum");
  const bool swapped = uses_var(sum.arg(0), pair);
  const MmaOperands p{load_of(sum.arg(swapped ? 1 : 0)), load_of(sum.arg(swapped ? 0 : 1))};
  TW_CHECK(p.left.type() == p.right.type(), "{} multiplies two types", to_string(sum));
  return p;
}

// Where the lanes of a warp name rows of matrices, as values of the variables of a step: lines that are rows, and steps
// that are; and the places of eight lines in turn.
struct LaneRows {
  VarMap by_lines, by_steps;
  std::vector<VarMap> lines;
};

// `number` from 0 to 7.
std::vector<VarMap> eight(const std::function<VarMap(const Expr& number)>& at) {
  std::vector<VarMap> all;
  for (int64_t i = 0; i < 8; ++i) all.push_back(at(int_imm(i)));
  return all;
}

// Whether the elements at these places are neighbours along the last dim.
bool are_neighbours(const Expr& load, const std::vector<VarMap>& places, const Analyzer& ranges) {
  for (size_t i = 1; i < places.size(); ++i) {
    for (size_t d = 0; d < load->args.size(); ++d) {
      const Expr& index = load->args[d];
      const Expr distance = ranges.simplify(substitute(index, places[i]) - substitute(index, places[0]));
      if (!distance.is_int(d + 1 == load->args.size() ? static_cast<int64_t>(i) : 0)) return false;
    }
  }
  return true;
}

std::optional<MatrixRows> matrix_rows(const Expr& load, int count, const LaneRows& at, const std::string& step,
                                      const Analyzer& ranges) {
  if (!load.type().is_half()) return std::nullopt;
  const bool by_lines = are_neighbours(load, eight([&](const Expr& i) { return VarMap{{step, i}}; }), ranges);
  if (!by_lines && !are_neighbours(load, at.lines, ranges)) return std::nullopt;
  return MatrixRows{ranges.simplify(substitute(load, by_lines ? at.by_lines : at.by_steps)), !by_lines, count};
}

// Of the rows' operand, whose four matrices are halves of rows, then of steps.
LaneRows lanes_of_rows(const Places& at) {
  const Expr lane = var(at.row) * int_imm(4) + var(at.pair), of_eight = floor_mod(lane, int_imm(8));
  const Expr half = floor_mod(floor_div(lane, int_imm(8)), int_imm(2));
  const Expr steps = floor_div(lane, int_imm(16)) * int_imm(8);
  return {{{at.half, half}, {at.row, of_eight}, {at.step, steps}},
          {{at.half, half}, {at.row, int_imm(0)}, {at.step, steps + of_eight}},
          eight([&](const Expr& i) {
            return VarMap{{at.row, i}};
          })};
}

// Of the columns' operand, whose two matrices are halves of steps.
LaneRows lanes_of_columns(const Places& at) {
  const Expr lane = var(at.row) * int_imm(4) + var(at.pair), of_eight = floor_mod(lane, int_imm(8));
  const Expr steps = floor_mod(floor_div(lane, int_imm(8)), int_imm(2)) * int_imm(8);
  const auto line = [&](const Expr& i) {
    return VarMap{{at.pair, floor_div(i, int_imm(2))}, {at.column, floor_mod(i, int_imm(2))}};
  };
  LaneRows lanes = {line(of_eight), line(int_imm(0)), eight(line)};
  lanes.by_lines[at.step] = steps;
  lanes.by_steps[at.step] = steps + of_eight;
  return lanes;
}

std::vector<Expr> indices_at(const Stmt& store, const VarMap& place, const Analyzer& ranges) {
  return mapped(store->indices, [&](const Expr& index) { return ranges.simplify(substitute(index, place)); });
}

}  // namespace

MatrixStep matrix_step(const Stmt& nest, const ThreadGroup& group, const Analyzer& ranges) {
  const Places at = places_of(nest, group);
  const Stmt& store = nest->body[0]->body[0]->body[0];
  const auto [left, right] = operands_of(store, at.pair);
  const bool apart =
      !uses_var(left, at.pair) && !uses_var(left, at.column) && !uses_var(right, at.row) && !uses_var(right, at.half);
  TW_CHECK(apart, "{} is no product of rows and columns", to_string(store->value));

  MatrixStep out;
  out.type = left.type();
  out.sums = store->buffer;
  const int64_t together = out.type == DataType::f32() ? 4 : 2, lists = 4 / together;
  const auto add = [&](const Expr& load, VarMap values, int64_t list) {
    std::vector<Expr>& loads = out.operands.emplace_back();
    for (int64_t i = 0; i < together; ++i) {
      values[at.step] = var(at.pair) * int_imm(together) + int_imm(8 * list + i);
      loads.push_back(ranges.simplify(substitute(load, values)));
    }
  };
  for (int64_t i = 0; i < 2 * lists; ++i) add(left, {{at.half, int_imm(i % 2)}}, i / 2);
  for (int64_t i = 0; i < 4; ++i)
    out.d[i] = indices_at(store, {{at.half, int_imm(i / 2)}, {at.column, int_imm(i % 2)}}, ranges);
  // What holds rows of A holds columns of B.
  const VarMap column = {{at.pair, floor_div(var(at.row), int_imm(2))},
                         {at.column, floor_mod(var(at.row), int_imm(2))}};
  for (int64_t i = 0; i < lists; ++i) add(right, column, i);
  out.a = matrix_rows(left, 4, lanes_of_rows(at), at.step, ranges);
  out.b = matrix_rows(right, 2, lanes_of_columns(at), at.step, ranges);
  return out;
}

namespace {

constexpr size_t kWarpLoops = 3;  // of a warp's step; those of a group have more

}  // namespace

bool is_warp_step(const Stmt& nest) { return nest_of(nest).size() == kWarpLoops; }

bool is_group_step(const Stmt& nest) { return nest_of(nest).size() > kWarpLoops; }

std::vector<Stmt> group_steps(const std::vector<Stmt>& stmts) { return outermost(stmts, is_group_step); }

GroupStep group_step(const Stmt& nest, const ThreadGroup& group, const Analyzer& ranges) {
  constexpr int64_t kWarps = 4, kRows = 8, kPairs = 4, kSteps = 16;
  const size_t loops = group.loops.size();
  const auto thread = [&](size_t from_end) { return group.loops[loops - from_end]; };
  const bool lanes = loops >= 3 && thread(3)->extent == kWarps && thread(2)->extent == kRows &&
                     thread(1)->extent == kPairs && group.threads % (kWarps * kWarpThreads) == 0;
  TW_CHECK(lanes, "a matrix step of threads that are no groups of 4 warps of 8 rows by 4 pairs");
  std::vector<Stmt> eighths = nest_of(nest);  // without the first and the last two loops
  const Stmt steps = eighths.back(), columns = eighths[eighths.size() - 2];
  eighths.resize(eighths.size() - 2);
  eighths.erase(eighths.begin());
  const bool sizes = nest->extent == 2 && columns->extent == 2 && steps->extent == kSteps;
  TW_CHECK(sizes, "a matrix step other than 2 halves by eighths of columns by 2 columns by 16 steps");
  const Stmt& store = steps->body[0];
  const auto& [left, right] = operands_of(store, thread(1)->var);

  std::vector<std::string> own = {nest->var, columns->var, steps->var, thread(3)->var, thread(2)->var, thread(1)->var};
  for (const Stmt& l : eighths) own.push_back(l->var);
  VarMap origin;
  for (const std::string& name : own) origin[name] = int_imm(0);
  // How far the element moves along the lines and along the steps when one variable goes from 0 to 1.
  const auto moves = [&](const Expr& load, const std::string& name, int64_t lines, int64_t along) {
    VarMap one = origin;
    one[name] = int_imm(1);
    const size_t last = load->args.size() - 1;
    for (size_t d = 0; d < load->args.size(); ++d) {
      const Expr distance = ranges.simplify(substitute(load.arg(d), one) - substitute(load.arg(d), origin));
      if (!distance.is_int(d == last ? along : d + 1 == last ? lines : 0)) return false;
    }
    return true;
  };
  int64_t all = 1;
  for (size_t i = eighths.size(); i-- > 0; all *= eighths[i]->extent) {
    TW_CHECK(moves(left, eighths[i]->var, 0, 0) && moves(right, eighths[i]->var, 8 * all, 0),
             "{}: eighths of columns that are not one behind the other", to_string(store->value));
  }
  const bool of_rows = moves(left, nest->var, kRows, 0) && moves(left, columns->var, 0, 0) &&
                       moves(left, steps->var, 0, 1) && moves(left, thread(3)->var, 2 * kRows, 0) &&
                       moves(left, thread(2)->var, 1, 0) && moves(left, thread(1)->var, 0, 0);
  const bool of_columns = moves(right, nest->var, 0, 0) && moves(right, columns->var, 1, 0) &&
                          moves(right, steps->var, 0, 1) && moves(right, thread(3)->var, 0, 0) &&
                          moves(right, thread(2)->var, 0, 0) && moves(right, thread(1)->var, 2, 0);
  TW_CHECK(of_rows && of_columns, "{} is no product of rows and columns", to_string(store->value));

  GroupStep out{left.type(), all * 8, substitute(left, origin), substitute(right, origin), store->buffer, {}};
  for (int64_t e = 0; e < all; ++e) {
    for (int64_t i = 0; i < 4; ++i) {
      VarMap place = {{nest->var, int_imm(i / 2)}, {columns->var, int_imm(i % 2)}};
      int64_t rest = e;
      for (size_t l = eighths.size(); l-- > 0; rest /= eighths[l]->extent)
        place[eighths[l]->var] = int_imm(rest % eighths[l]->extent);
      out.d.push_back(indices_at(store, place, ranges));
    }
  }
  return out;
}

}  // namespace tw::codegen
