#include "expr/expr.h"

#include <algorithm>

#include "expr/scalar.h"
#include "support/error.h"
#include "support/math.h"

namespace tw {
namespace {

Expr make(ExprNode node) { return Expr(std::make_shared<const ExprNode>(std::move(node))); }

// Value of an i64 operation on immediates, or nothing (division by zero, an operation on bits).
std::optional<int64_t> fold_int(Op op, int64_t a, int64_t b) {
  switch (op) {
    case Op::kAdd:
      return wrapping_add(a, b);
    case Op::kSub:
      return wrapping_add(a, wrapping_mul(b, -1));
    case Op::kMul:
      return wrapping_mul(a, b);
    case Op::kDiv:
    case Op::kFloorDiv:
    case Op::kFloorMod:
      if (b == 0) return std::nullopt;
      // The quotient INT64_MIN / -1 wraps; C++ leaves it undefined.
      if (b == -1) return op == Op::kFloorMod ? 0 : wrapping_mul(a, -1);
      if (op == Op::kDiv) return a / b;
      return op == Op::kFloorDiv ? floor_div(a, b) : floor_mod(a, b);
    case Op::kMin:
      return std::min(a, b);
    case Op::kMax:
      return std::max(a, b);
    case Op::kEq:
      return a == b;
    case Op::kNe:
      return a != b;
    case Op::kLt:
      return a < b;
    case Op::kLe:
      return a <= b;
    default:
      return std::nullopt;
  }
}

// Neutral operands of index arithmetic: keeps expressions small while they are built.
Expr shortcut(Op op, const Expr& a, const Expr& b) {
  if (a.type() != DataType::i64()) return Expr();
  if (a.op() == Op::kIntImm && b.op() == Op::kIntImm) {
    if (auto value = fold_int(op, a->value, b->value)) {
      return int_imm(*value, is_comparison(op) ? DataType::boolean() : DataType::i64());
    }
  }
  if ((op == Op::kAdd || op == Op::kSub) && b.is_int(0)) return a;
  if (op == Op::kAdd && a.is_int(0)) return b;
  if ((op == Op::kMul || op == Op::kFloorDiv) && b.is_int(1)) return a;
  if (op == Op::kMul && a.is_int(1)) return b;
  if (op == Op::kMul && (a.is_int(0) || b.is_int(0))) return int_imm(0);
  if (op == Op::kFloorMod && b.is_int(1)) return int_imm(0);
  return Expr();
}

Expr shortcut_logic(Op op, const Expr& a, const Expr& b) {
  if (!a.type().is_bool() || a.type().is_vector()) return Expr();
  const int64_t neutral = op == Op::kAnd ? 1 : 0;
  if (op != Op::kAnd && op != Op::kOr) return Expr();
  if (a.is_int(neutral)) return b;
  if (b.is_int(neutral)) return a;
  if (a.is_int(1 - neutral) || b.is_int(1 - neutral)) return int_imm(1 - neutral, DataType::boolean());
  return Expr();
}

// The node of `e` with operands `args`, built by the constructor of its kind: types follow from the operands (a scalar
// that became a vector makes its users vectors).
Expr rebuild(const Expr& e, std::vector<Expr> args) {
  switch (e.op()) {
    case Op::kSelect:
      return select(args[0], args[1], args[2]);
    case Op::kFma:
      return fma(args[0], args[1], args[2]);
    case Op::kCast:
      return cast(e.type().element(), args[0]);
    case Op::kBitcast:
      return bitcast(e.type().element(), args[0]);
    case Op::kCall: {
      const int lanes = lanes_of(args);
      for (Expr& a : args) a = broadcast(a, lanes);
      return call(e->name, std::move(args));
    }
    case Op::kLoad: {
      if (!e->predicated) return load(e->name, e.type().element(), std::move(args));
      Expr predicate = args.back();
      args.pop_back();
      return load_if(e->name, e.type().element(), std::move(args), std::move(predicate));
    }
    case Op::kRamp:
      return ramp(args[0], args[1], e.type().lanes());
    case Op::kBroadcast:
      return args[0].type().is_vector() ? args[0] : broadcast(args[0], e.type().lanes());
    case Op::kExtract:
      return extract(args[0], static_cast<int>(e->value));
    default:
      if (is_lane_reduction(e.op())) return reduce_lanes(e.op(), args[0]);
      return args.size() == 1 ? unary(e.op(), args[0]) : binary(e.op(), args[0], args[1]);
  }
}

}  // namespace

Expr::Expr(int value) : Expr(int_imm(value)) {}
Expr::Expr(int64_t value) : Expr(int_imm(value)) {}

Expr int_imm(int64_t value, DataType type) {
  if (type.is_vector()) return broadcast(int_imm(value, type.element()), type.lanes());
  TW_CHECK(!type.is_float(), "integer immediate of type {}", to_string(type));
  return make({.op = Op::kIntImm, .type = type, .value = value});
}

Expr float_imm(double value, DataType type) {
  if (type.is_vector()) return broadcast(float_imm(value, type.element()), type.lanes());
  TW_CHECK(type.is_float(), "float immediate of type {}", to_string(type));
  return make({.op = Op::kFloatImm, .type = type, .number = round_to(type.scalar(), value)});
}

Expr imm(DataType type, double value) {
  return type.is_float() ? float_imm(value, type) : int_imm(static_cast<int64_t>(value), type);
}

Expr var(std::string name, DataType type) { return make({.op = Op::kVar, .type = type, .name = std::move(name)}); }

Expr unary(Op op, Expr x) {
  const DataType type = x.type();
  if (op == Op::kNeg && type == DataType::i64() && x.op() == Op::kIntImm) return int_imm(-x->value);
  if (op == Op::kNot && x.op() == Op::kIntImm && type.is_bool()) return int_imm(1 - x->value, type);
  return make({.op = op, .type = type, .args = {std::move(x)}});
}

Expr binary(Op op, Expr a, Expr b) {
  // A scalar beside a vector is broadcast: te bodies stay valid when a loop is vectorised.
  if (a.type().lanes() != b.type().lanes()) {
    const int lanes = std::max(a.type().lanes(), b.type().lanes());
    if (!a.type().is_vector()) a = broadcast(a, lanes);
    if (!b.type().is_vector()) b = broadcast(b, lanes);
  }
  TW_CHECK(a.type() == b.type(), "operands {} and {} of {} and {}", to_string(a.type()), to_string(b.type()),
           to_string(a), to_string(b));
  if (Expr folded = shortcut(op, a, b)) return folded;
  if (Expr folded = shortcut_logic(op, a, b)) return folded;
  const DataType type = is_comparison(op) ? DataType::boolean().with_lanes(a.type().lanes()) : a.type();
  return make({.op = op, .type = type, .args = {std::move(a), std::move(b)}});
}

Expr fma(Expr a, Expr b, Expr c) {
  const int lanes = std::max({a.type().lanes(), b.type().lanes(), c.type().lanes()});
  for (Expr* x : {&a, &b, &c}) {
    if (x->type().lanes() != lanes) *x = broadcast(*x, lanes);
  }
  TW_CHECK(a.type() == b.type() && b.type() == c.type() && a.type().is_float(), "fma of {}, {}, {}",
           to_string(a.type()), to_string(b.type()), to_string(c.type()));
  const DataType type = a.type();
  return make({.op = Op::kFma, .type = type, .args = {std::move(a), std::move(b), std::move(c)}});
}

Expr select(Expr condition, Expr then, Expr otherwise) {
  const int lanes = std::max(then.type().lanes(), otherwise.type().lanes());
  const int all = std::max(lanes, condition.type().lanes());
  if (condition.op() == Op::kIntImm) return condition->value ? then : otherwise;
  for (Expr* x : {&then, &otherwise}) {
    if (x->type().lanes() != all) *x = broadcast(*x, all);
  }
  TW_CHECK(condition.type().is_bool() && then.type() == otherwise.type(), "select of {}: {} or {}",
           to_string(condition.type()), to_string(then.type()), to_string(otherwise.type()));
  const DataType type = then.type();
  return make({.op = Op::kSelect, .type = type, .args = {std::move(condition), std::move(then), std::move(otherwise)}});
}

Expr cast(DataType type, Expr x) {
  type = type.with_lanes(x.type().lanes());
  if (x.type() == type) return x;
  return make({.op = Op::kCast, .type = type, .args = {std::move(x)}});
}

Expr bitcast(DataType type, Expr x) {
  type = type.with_lanes(x.type().lanes());
  TW_CHECK(type.bits() == x.type().bits(), "bitcast of {} to {}", to_string(x.type()), to_string(type));
  if (x.type() == type) return x;
  return make({.op = Op::kBitcast, .type = type, .args = {std::move(x)}});
}

Expr call(std::string name, std::vector<Expr> args) {
  TW_CHECK(!args.empty(), "call of {} without operands", name);
  const DataType type = args[0].type();
  return make({.op = Op::kCall, .type = type, .name = std::move(name), .args = std::move(args)});
}

Expr load(std::string name, DataType type, std::vector<Expr> indices) {
  type = type.with_lanes(lanes_of(indices));
  return make({.op = Op::kLoad, .type = type, .name = std::move(name), .args = std::move(indices)});
}

Expr load_if(std::string name, DataType type, std::vector<Expr> indices, Expr predicate) {
  indices.push_back(std::move(predicate));
  type = type.with_lanes(lanes_of(indices));
  return make({.op = Op::kLoad, .type = type, .name = std::move(name), .args = std::move(indices), .predicated = true});
}

Expr ramp(Expr base, Expr stride, int lanes) {
  TW_CHECK(!base.type().is_vector() && base.type() == stride.type() && lanes > 1, "ramp");
  const DataType type = base.type().with_lanes(lanes);
  return make({.op = Op::kRamp, .type = type, .args = {std::move(base), std::move(stride)}});
}

Expr broadcast(Expr x, int lanes) {
  if (x.type().lanes() == lanes) return x;
  TW_CHECK(!x.type().is_vector(), "broadcast of the vector {}", to_string(x));
  const DataType type = x.type().with_lanes(lanes);
  return make({.op = Op::kBroadcast, .type = type, .args = {std::move(x)}});
}

Expr reduce_lanes(Op op, Expr x) {
  if (!x.type().is_vector()) return x;
  const DataType type = x.type().element();
  return make({.op = op, .type = type, .args = {std::move(x)}});
}

Expr extract(Expr x, int lane) {
  if (!x.type().is_vector()) return x;
  if (x.op() == Op::kBroadcast) return x.arg(0);
  const DataType type = x.type().element();
  return make({.op = Op::kExtract, .type = type, .value = lane, .args = {std::move(x)}});
}

Expr operator+(Expr a, Expr b) { return binary(Op::kAdd, std::move(a), std::move(b)); }
Expr operator-(Expr a, Expr b) { return binary(Op::kSub, std::move(a), std::move(b)); }
Expr operator*(Expr a, Expr b) { return binary(Op::kMul, std::move(a), std::move(b)); }
Expr operator/(Expr a, Expr b) { return binary(Op::kDiv, std::move(a), std::move(b)); }
Expr operator-(Expr a) { return unary(Op::kNeg, std::move(a)); }
Expr operator<(Expr a, Expr b) { return binary(Op::kLt, std::move(a), std::move(b)); }
Expr operator<=(Expr a, Expr b) { return binary(Op::kLe, std::move(a), std::move(b)); }
Expr operator>(Expr a, Expr b) { return binary(Op::kLt, std::move(b), std::move(a)); }
Expr operator>=(Expr a, Expr b) { return binary(Op::kLe, std::move(b), std::move(a)); }
Expr operator==(Expr a, Expr b) { return binary(Op::kEq, std::move(a), std::move(b)); }
Expr operator!=(Expr a, Expr b) { return binary(Op::kNe, std::move(a), std::move(b)); }
Expr logical_not(Expr a) { return unary(Op::kNot, std::move(a)); }
Expr floor_div(Expr a, Expr b) { return binary(Op::kFloorDiv, std::move(a), std::move(b)); }
Expr floor_mod(Expr a, Expr b) { return binary(Op::kFloorMod, std::move(a), std::move(b)); }
Expr min(Expr a, Expr b) { return binary(Op::kMin, std::move(a), std::move(b)); }
Expr max(Expr a, Expr b) { return binary(Op::kMax, std::move(a), std::move(b)); }

Expr with_args(const Expr& e, std::vector<Expr> args) {
  bool same = true;
  for (size_t i = 0; i < args.size(); ++i) same = same && args[i].same(e.arg(i));
  return same ? e : rebuild(e, std::move(args));
}

int lanes_of(const std::vector<Expr>& list) {
  int lanes = 1;
  for (const Expr& e : list) lanes = std::max(lanes, e.type().lanes());
  return lanes;
}

}  // namespace tw
