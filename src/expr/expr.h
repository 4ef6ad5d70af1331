// Scalar, vector and index expressions: immutable, shared by te (maths of a group) and loop (explicit loops).
//
// Meaning. Every expression has a type; operands of arithmetic and comparisons have equal types. Integers wrap in two's
// complement. kDiv is IEEE division on floats and truncates on integers; kFloorDiv/kFloorMod round to minus infinity.
// kMin/kMax on floats return NaN when either side is NaN. Comparisons give bool of the same lanes. kSelect evaluates
// only what it picks: a load in the branch that is not picked is never performed. Nothing is reassociated; kFma rounds
// once. kCast from float to integer truncates (saturating at the type's ends, NaN to 0), float to float rounds to
// nearest even, anything to bool is `!= 0`. Shifts are by less than the width; kShiftRight is arithmetic on signed
// types.
#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/data_type.h"
#include "expr/op.h"

namespace tw {

class Expr;

/// One node. `value` holds kIntImm's value and kExtract's lane, `number` kFloatImm's, `name` that of kVar, kCall,
/// kLoad.
struct ExprNode {
  Op op;
  DataType type;
  int64_t value = 0;
  double number = 0;
  std::string name = {};
  std::vector<Expr> args = {};
  /// kLoad only: args[rank] is a predicate; lanes where it is false are not read and give 0.
  bool predicated = false;
};

class Expr {
 public:
  Expr() = default;
  Expr(int value);      // NOLINT: index literals are i64
  Expr(int64_t value);  // NOLINT
  /// `!e` asks whether e is null, as for a pointer; the logical operator is logical_not(e).
  template <std::same_as<bool> T>
  Expr(T) = delete;
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}

  const ExprNode* operator->() const { return node_.get(); }
  const ExprNode& operator*() const { return *node_; }
  explicit operator bool() const { return node_ != nullptr; }
  DataType type() const { return node_->type; }
  Op op() const { return node_->op; }
  const Expr& arg(size_t i) const { return node_->args[i]; }
  /// Same node (not structural equality).
  bool same(const Expr& other) const { return node_ == other.node_; }
  bool is_int(int64_t value) const { return node_->op == Op::kIntImm && node_->value == value; }
  /// Number of owners of the node; 1 means that nobody else shares it.
  long use_count() const { return node_.use_count(); }
  bool is_var() const { return node_->op == Op::kVar; }

 private:
  std::shared_ptr<const ExprNode> node_;
};

// ---- Constructors. Operand types must match (checked); arithmetic on two immediates folds.
Expr int_imm(int64_t value, DataType type = DataType::i64());
Expr float_imm(double value, DataType type = DataType::f32());
/// The immediate `value` of any type: integer, bool or float; a vector type gives a broadcast.
Expr imm(DataType type, double value);
Expr var(std::string name, DataType type = DataType::i64());
Expr unary(Op op, Expr x);
Expr binary(Op op, Expr a, Expr b);
Expr fma(Expr a, Expr b, Expr c);
Expr select(Expr condition, Expr then, Expr otherwise);
Expr cast(DataType type, Expr x);
Expr bitcast(DataType type, Expr x);
Expr call(std::string name, std::vector<Expr> args);
Expr load(std::string name, DataType type, std::vector<Expr> indices);
/// A load whose lanes with a false predicate are not read and give 0.
Expr load_if(std::string name, DataType type, std::vector<Expr> indices, Expr predicate);
Expr ramp(Expr base, Expr stride, int lanes);
Expr broadcast(Expr x, int lanes);
Expr reduce_lanes(Op op, Expr x);
Expr extract(Expr x, int lane);

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);  // kDiv
Expr operator-(Expr a);
Expr operator<(Expr a, Expr b);
Expr operator<=(Expr a, Expr b);
Expr operator>(Expr a, Expr b);
Expr operator>=(Expr a, Expr b);
Expr operator==(Expr a, Expr b);
Expr operator!=(Expr a, Expr b);
// Templates, so that they take two expressions only and never a bool.
template <std::same_as<Expr> A, std::same_as<Expr> B>
Expr operator&&(A a, B b) {
  return binary(Op::kAnd, std::move(a), std::move(b));
}
template <std::same_as<Expr> A, std::same_as<Expr> B>
Expr operator||(A a, B b) {
  return binary(Op::kOr, std::move(a), std::move(b));
}
Expr logical_not(Expr a);
Expr floor_div(Expr a, Expr b);
Expr floor_mod(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);

// ---- Traversal.
/// Calls visit on every node, operands before their user; a node shared within e is visited once.
void visit(const Expr& e, const std::function<void(const Expr&)>& visit);
/// Rebuilds e bottom-up: every node, with its operands already rewritten, is replaced by rewrite(node) unless that is
/// null. Untouched subtrees keep their node (pointer equality = unchanged); shared nodes are rewritten once.
Expr rewrite(const Expr& e, const std::function<Expr(const Expr&)>& rewrite);
/// The same node with other operands (the node itself when all operands are the same).
Expr with_args(const Expr& e, std::vector<Expr> args);

using VarMap = std::unordered_map<std::string, Expr>;
/// Replaces variables by name, all at once.
Expr substitute(const Expr& e, const VarMap& values);
bool uses_var(const Expr& e, const std::string& name);
/// Whether it is the immediate 0 (not -0), or that in every lane.
bool is_zero(const Expr& e);
/// Structural equality.
bool equal(const Expr& a, const Expr& b);

// ---- Text. Prints one line that parse_expr (expr/parser.h) reads back to an equal expression.
std::string to_string(const Expr& e);

/// The lanes of these operands, or indices, together: 1, or those of the vectors among them.
int lanes_of(const std::vector<Expr>& list);
}  // namespace tw
