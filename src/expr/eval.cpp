#include "expr/eval.h"

#include <algorithm>

#include "support/error.h"
#include "support/math.h"

namespace tw {
namespace {

// Keeps the low bits of the type, then extends its sign: two's complement.
int64_t wrap(int64_t value, DataType type) {
  if (type.is_bool()) return value != 0;
  const int unused = 64 - type.bits();
  const auto top = static_cast<int64_t>(static_cast<uint64_t>(value) << unused);
  return type.is_signed_int() ? top >> unused : static_cast<int64_t>(static_cast<uint64_t>(top) >> unused);
}

int64_t divide(Op op, int64_t a, int64_t b) {
  TW_CHECK(b != 0, "division by zero in an index");
  if (b == -1) return op == Op::kFloorMod ? 0 : static_cast<int64_t>(-static_cast<uint64_t>(a));
  return op == Op::kDiv ? a / b : op == Op::kFloorDiv ? floor_div(a, b) : floor_mod(a, b);
}

int64_t apply(Op op, DataType type, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  switch (op) {
    case Op::kAdd:
      return static_cast<int64_t>(x + y);
    case Op::kSub:
      return static_cast<int64_t>(x - y);
    case Op::kMul:
      return static_cast<int64_t>(x * y);
    case Op::kDiv:
    case Op::kFloorDiv:
    case Op::kFloorMod:
      return divide(op, a, b);
    case Op::kMin:
      return std::min(a, b);
    case Op::kMax:
      return std::max(a, b);
    case Op::kAnd:
      return a & b;
    case Op::kOr:
      return a | b;
    case Op::kXor:
      return a ^ b;
    case Op::kShiftLeft:
      return static_cast<int64_t>(x << y);
    case Op::kShiftRight:
      return type.is_signed_int() ? a >> b : static_cast<int64_t>(x >> y);
    case Op::kEq:
      return a == b;
    case Op::kNe:
      return a != b;
    case Op::kLt:
      return a < b;
    case Op::kLe:
      return a <= b;
    default:
      throw InternalError(fmt::format("operator {} in an index", static_cast<int>(op)));
  }
}

class Evaluator {
 public:
  explicit Evaluator(const std::unordered_map<std::string, int64_t>& variables) : variables_(variables) {}

  int64_t value(const Expr& e, int lane) const {
    TW_CHECK(!e.type().is_float(), "a float in the index {}", to_string(e));
    switch (e.op()) {
      case Op::kIntImm:
        return e->value;
      case Op::kVar:
        return variable(e->name);
      case Op::kBroadcast:
        return value(e.arg(0), 0);
      case Op::kRamp:
        return wrap(value(e.arg(0), 0) + value(e.arg(1), 0) * lane, e.type());
      case Op::kExtract:
        return value(e.arg(0), static_cast<int>(e->value));
      case Op::kSelect:
        return value(e.arg(0), e.arg(0).type().is_vector() ? lane : 0) ? value(e.arg(1), lane) : value(e.arg(2), lane);
      case Op::kCast:
        return wrap(value(e.arg(0), lane), e.type());
      case Op::kBitcast:
        return wrap(value(e.arg(0), lane), e.type());
      case Op::kNeg:
        return wrap(static_cast<int64_t>(-static_cast<uint64_t>(value(e.arg(0), lane))), e.type());
      case Op::kAbs:
        return wrap(magnitude(value(e.arg(0), lane)), e.type());
      case Op::kNot:
        return e.type().is_bool() ? !value(e.arg(0), lane) : wrap(~value(e.arg(0), lane), e.type());
      default:
        break;
    }
    TW_CHECK(e->args.size() == 2, "{} is no index expression", to_string(e));
    return wrap(apply(e.op(), e.arg(0).type(), value(e.arg(0), lane), value(e.arg(1), lane)), e.type());
  }

 private:
  int64_t variable(const std::string& name) const {
    const auto it = variables_.find(name);
    TW_CHECK(it != variables_.end(), "variable {} has no value", name);
    return it->second;
  }
  static int64_t magnitude(int64_t x) { return x < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x; }

  const std::unordered_map<std::string, int64_t>& variables_;
};

}  // namespace

int64_t eval_index(const Expr& e, const std::unordered_map<std::string, int64_t>& variables, int lane) {
  return Evaluator(variables).value(e, lane);
}

}  // namespace tw
