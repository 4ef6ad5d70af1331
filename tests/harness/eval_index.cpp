#include "tests/harness/eval_index.h"

#include "support/error.h"
#include "tests/harness/lane_words.h"

namespace tw {
namespace {

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
        return wrap_to(e.type().scalar(), wrapping_add(value(e.arg(0), 0), wrapping_mul(value(e.arg(1), 0), lane)));
      case Op::kExtract:
        return value(e.arg(0), static_cast<int>(e->value));
      case Op::kSelect:
        return value(e.arg(0), e.arg(0).type().is_vector() ? lane : 0) ? value(e.arg(1), lane) : value(e.arg(2), lane);
      case Op::kCast:
        return apply_cast(e.type().scalar(), scalar_type(e.arg(0)), word(e.arg(0), lane)).i;
      case Op::kBitcast:
        return apply_bitcast(e.type().scalar(), scalar_type(e.arg(0)), word(e.arg(0), lane)).i;
      case Op::kNeg:
      case Op::kAbs:
      case Op::kNot:
        return apply_unary(e.op(), e.type().scalar(), word(e.arg(0), lane)).i;
      default:
        break;
    }
    TW_CHECK(e->args.size() == 2, "{} is no index expression", to_string(e));
    const Word b = word(e.arg(1), lane);
    const char* reason = undefined_reason(e.op(), scalar_type(e.arg(0)), b);
    TW_CHECK(reason == nullptr, "{} in the index {}", reason, to_string(e));
    return apply_binary(e.op(), scalar_type(e.arg(0)), word(e.arg(0), lane), b).i;
  }

 private:
  int64_t variable(const std::string& name) const {
    const auto it = variables_.find(name);
    TW_CHECK(it != variables_.end(), "variable {} has no value", name);
    return it->second;
  }
  Word word(const Expr& e, int lane) const { return int_word(value(e, lane)); }
  static ScalarType scalar_type(const Expr& e) { return e.type().scalar(); }

  const std::unordered_map<std::string, int64_t>& variables_;
};

}  // namespace

int64_t eval_index(const Expr& e, const std::unordered_map<std::string, int64_t>& variables, int lane) {
  return Evaluator(variables).value(e, lane);
}

}  // namespace tw
