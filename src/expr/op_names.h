// How each operator is written in text: shared by printer and parser.
#pragma once
#include <algorithm>
#include <array>
#include <string_view>

#include "expr/expr.h"

namespace tw {

/// An infix operator; the higher `precedence`, the tighter it binds. Of `>` and `>=` operands are swapped.
struct InfixName {
  std::string_view text;
  Op op;
  int precedence;
};
inline constexpr InfixName kInfixNames[] = {
    {"||", Op::kOr, 1},  {"&&", Op::kAnd, 2},       {"|", Op::kOr, 3},          {"^", Op::kXor, 4}, {"&", Op::kAnd, 5},
    {"==", Op::kEq, 6},  {"!=", Op::kNe, 6},        {"<", Op::kLt, 7},          {"<=", Op::kLe, 7}, {">", Op::kLt, 7},
    {">=", Op::kLe, 7},  {"<<", Op::kShiftLeft, 8}, {">>", Op::kShiftRight, 8}, {"+", Op::kAdd, 9}, {"-", Op::kSub, 9},
    {"*", Op::kMul, 10}, {"/", Op::kDiv, 10},       {"%", Op::kFloorMod, 10}};

/// Of a node, `&&` for bool, `&` for integers: the table lists both. Empty where it has none.
inline std::string_view infix_name(const ExprNode& node) {
  if (node.op == Op::kAnd) return node.type.is_bool() ? "&&" : "&";
  if (node.op == Op::kOr) return node.type.is_bool() ? "||" : "|";
  const auto* name = std::ranges::find(kInfixNames, node.op, &InfixName::op);
  return name == std::end(kInfixNames) ? std::string_view() : name->text;
}

/// An operator written name(operands).
struct FunctionName {
  std::string_view text;
  Op op;
  size_t arity;
};
inline constexpr std::array<FunctionName, 17> kFunctionNames = {{{"floordiv", Op::kFloorDiv, 2},
                                                                 {"floormod", Op::kFloorMod, 2},
                                                                 {"min", Op::kMin, 2},
                                                                 {"max", Op::kMax, 2},
                                                                 {"fma", Op::kFma, 3},
                                                                 {"abs", Op::kAbs, 1},
                                                                 {"floor", Op::kFloor, 1},
                                                                 {"ceil", Op::kCeil, 1},
                                                                 {"round", Op::kRound, 1},
                                                                 {"trunc", Op::kTrunc, 1},
                                                                 {"select", Op::kSelect, 3},
                                                                 {"reduce_add", Op::kReduceAdd, 1},
                                                                 {"reduce_min", Op::kReduceMin, 1},
                                                                 {"reduce_max", Op::kReduceMax, 1},
                                                                 {"reduce_mul", Op::kReduceMul, 1},
                                                                 {"reduce_and", Op::kReduceAnd, 1},
                                                                 {"reduce_or", Op::kReduceOr, 1}}};

}  // namespace tw
