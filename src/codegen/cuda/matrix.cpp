#include "codegen/cuda/matrix.h"

#include "core/target_info.h"
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
  return by_index(8, [&](int64_t i) { return at(int_imm(i)); });
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

// List number `list` of `together` elements beside each other along the sum, as a lane holds them.
struct LaneList {
  int64_t together, list;
};

std::vector<Expr> neighbours_along(const Expr& load, const Places& at, const LaneList& lanes, VarMap values,
                                   const Analyzer& ranges) {
  std::vector<Expr> loads;
  for (int64_t i = 0; i < lanes.together; ++i) {
    values[at.step] = var(at.pair) * int_imm(lanes.together) + int_imm(8 * lanes.list + i);
    loads.push_back(ranges.simplify(substitute(load, values)));
  }
  return loads;
}

constexpr size_t kWarpLoops = 3;  // of a warp's step; those of a group have more

// How far an element moves along each dim when one variable goes from 0 to 1, the others being 0.
class Moves {
 public:
  Moves(const Analyzer& ranges, const std::vector<std::string>& variables) : ranges_(ranges) {
    for (const std::string& name : variables) origin_[name] = int_imm(0);
  }

  Expr first(const Expr& load) const { return substitute(load, origin_); }

  // Whether these are the distances along the last dims; along all others 0.
  bool are(const Expr& load, const std::string& name, std::vector<int64_t> last) const {
    VarMap one = origin_;
    one[name] = int_imm(1);
    last.insert(last.begin(), load->args.size() - std::min(load->args.size(), last.size()), 0);
    for (size_t d = 0; d < load->args.size(); ++d) {
      const Expr distance =
          substitute(load.arg(static_cast<int>(d)), one) - substitute(load.arg(static_cast<int>(d)), origin_);
      if (!ranges_.simplify(distance).is_int(last[last.size() - load->args.size() + d])) return false;
    }
    return true;
  }

 private:
  const Analyzer& ranges_;
  VarMap origin_;
};

// The loops of a group's step and its threads.
struct GroupLoops {
  std::string half, column, step, warp, row, pair;
  std::vector<Stmt> eighths;  // of columns, outermost first
};

GroupLoops group_loops(const Stmt& nest, const ThreadGroup& group) {
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
  return {nest->var, columns->var, steps->var, thread(3)->var, thread(2)->var, thread(1)->var, std::move(eighths)};
}

// Whether the eighths of columns follow each other: as lines, or beside each other in lines of 64 and then in the next
// block of lines.
bool eighths_follow(const Moves& moves, const Expr& right, const GroupLoops& at, bool by_steps) {
  constexpr int64_t kLine = 8;  // eighths
  int64_t inner = 1;
  for (size_t i = at.eighths.size(); i-- > 0; inner *= at.eighths[i]->extent) {
    const Stmt& loop = at.eighths[i];
    if (loop->extent == 1) continue;
    const bool in_line = inner * loop->extent <= kLine;
    const bool follows = !by_steps ? moves.are(right, loop->var, {8 * inner, 0})
                         : in_line ? moves.are(right, loop->var, {0, 8 * inner})
                                   : inner == kLine && moves.are(right, loop->var, {1, 0, 0});
    if (!follows) return false;
  }
  return true;
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
  const auto add = [&](const Expr& load, const VarMap& values, int64_t list) {
    out.operands.push_back(neighbours_along(load, at, {together, list}, values, ranges));
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

bool is_group_step(const Stmt& nest) { return nest_of(nest).size() > kWarpLoops; }

std::vector<Stmt> group_steps(const std::vector<Stmt>& stmts) { return outermost(stmts, is_group_step); }

GroupStep group_step(const Stmt& nest, const ThreadGroup& group, const Analyzer& ranges) {
  const GroupLoops at = group_loops(nest, group);
  const Stmt& store = nest_of(nest).back()->body[0];
  const auto& [left, right] = operands_of(store, at.pair);
  std::vector<std::string> own = {at.half, at.column, at.step, at.warp, at.row, at.pair};
  for (const Stmt& l : at.eighths) own.push_back(l->var);
  const Moves moves(ranges, own);
  GroupStep out;
  out.type = left.type();
  for (const Stmt& l : at.eighths) out.columns *= l->extent;
  out.sums = store->buffer;
  out.b = moves.first(right);
  out.b_by_steps = moves.are(right, at.step, {1, 0});
  TW_CHECK(!out.b_by_steps || left.type().is_half(), "{}: columns of 32 bits an element beside each other",
           to_string(store->value));
  TW_CHECK(eighths_follow(moves, right, at, out.b_by_steps), "{}: eighths of columns that are not one behind the other",
           to_string(store->value));
  const std::vector<int64_t> column = out.b_by_steps ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{1, 0};
  const bool of_columns = (out.b_by_steps || moves.are(right, at.step, {0, 1})) && moves.are(right, at.half, {}) &&
                          moves.are(right, at.column, column) &&
                          moves.are(right, at.pair, {2 * column[0], 2 * column[1]}) && moves.are(right, at.warp, {}) &&
                          moves.are(right, at.row, {});
  const bool of_rows = std::ranges::all_of(at.eighths, [&](const Stmt& l) { return moves.are(left, l->var, {}); }) &&
                       moves.are(left, at.column, {});
  const bool in_lines = moves.are(left, at.half, {8, 0}) && moves.are(left, at.step, {0, 1}) &&
                        moves.are(left, at.warp, {16, 0}) && moves.are(left, at.row, {1, 0}) &&
                        moves.are(left, at.pair, {});
  out.a_by_steps = left.type().is_half() && moves.are(left, at.half, {0, 8}) && moves.are(left, at.step, {1, 0}) &&
                   moves.are(left, at.warp, {0, 16}) && moves.are(left, at.row, {0, 1}) && moves.are(left, at.pair, {});
  if (in_lines || out.a_by_steps) {
    out.a = moves.first(left);
  } else {
    TW_CHECK(left.type().is_half(), "{}: rows of 32 bits an element in no lines", to_string(store->value));
    const Places places{at.half, at.column, at.step, at.row, at.pair};
    for (int64_t i = 0; i < 4; ++i)
      out.held.push_back(neighbours_along(left, places, {2, i / 2}, {{at.half, int_imm(i % 2)}}, ranges));
  }
  TW_CHECK(of_rows && of_columns, "{} is no product of rows and columns", to_string(store->value));
  for (int64_t e = 0; e < out.columns / 8; ++e) {
    for (int64_t i = 0; i < 4; ++i) {
      VarMap place = {{at.half, int_imm(i / 2)}, {at.column, int_imm(i % 2)}};
      int64_t rest = e;
      for (size_t l = at.eighths.size(); l-- > 0; rest /= at.eighths[l]->extent)
        place[at.eighths[l]->var] = int_imm(rest % at.eighths[l]->extent);
      out.d.push_back(indices_at(store, place, ranges));
    }
  }
  return out;
}

}  // namespace tw::codegen
