#include "expr/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>

#include "expr/elementary.h"
#include "expr/op_names.h"

namespace tw {
namespace {

class Parser {
 public:
  Parser(Lexer& lexer, const ExprScope& scope) : lexer_(lexer), scope_(scope) {}

  // Operands joined by infix operators that bind at least as tightly as `precedence`.
  Expr expression(int precedence = 1) {
    Expr left = operand();
    while (const InfixName* infix = next_infix(precedence)) {
      const Token at = lexer_.next();
      const bool swapped = at.text == ">" || at.text == ">=";
      const Expr right = expression(infix->precedence + 1);
      left = swapped ? infix_node(at, infix->op, right, left) : infix_node(at, infix->op, left, right);
    }
    return left;
  }

 private:
  const InfixName* next_infix(int precedence) const {
    if (lexer_.peek().kind != TokenKind::kPunctuation) return nullptr;
    for (const InfixName& infix : kInfixNames) {
      if (infix.text == lexer_.peek().text && infix.precedence >= precedence) return &infix;
    }
    return nullptr;
  }

  Expr operand() {
    const Token at = lexer_.peek();
    if (at.kind == TokenKind::kNumber) return number(lexer_.next(), false);
    if (lexer_.accept("(")) return parenthesised(at);
    if (lexer_.accept("-")) {
      if (lexer_.peek().kind == TokenKind::kNumber) return number(lexer_.next(), true);
      return unary(Op::kNeg, operand());
    }
    if (lexer_.accept("!") || lexer_.accept("~")) return unary(Op::kNot, operand());
    const bool quoted = at.kind == TokenKind::kString;
    const std::string name = lexer_.name("an expression");
    if (!quoted && lexer_.is("(")) return function(at);
    if (!quoted && (name == "cast" || name == "bitcast") && lexer_.is("<")) return conversion(at);
    if (lexer_.is("[")) return load_of(at);
    if (!quoted && (name == "true" || name == "false")) return int_imm(name == "true", DataType::boolean());
    return var(name, scope_.var_type ? scope_.var_type(name) : DataType::i64());
  }

  // `(x)`, or `(A[i] if p)`. The condition is read only here, so that statements may end in ` if p` of their own.
  Expr parenthesised(const Token& at) {
    Expr e = expression();
    if (lexer_.accept("if")) {
      if (e.op() != Op::kLoad || e->predicated) Lexer::fail_at(at, "only a load takes 'if'");
      const Token condition_at = lexer_.peek();
      const Expr condition = expression();
      check_bool(condition_at, condition);
      e = load_if(e->name, e.type().element(), e->args, condition);
    }
    lexer_.expect(")");
    return e;
  }

  Expr number(const Token& at, bool negative) {
    const size_t colon = at.text.find(':');
    std::optional<DataType> type = DataType::i64();
    if (colon != std::string::npos) type = parse_data_type(at.text.substr(colon + 1));
    const std::string digits = fmt::format("{}{}", negative ? "-" : "", std::string_view(at.text).substr(0, colon));
    if (!type || type->is_vector() || type->is_bool()) Lexer::fail_at(at, "the suffix of a number is a scalar type");
    return type->is_float() ? float_number(at, digits, *type) : int_number(at, digits, *type);
  }

  static Expr int_number(const Token& at, const std::string& digits, DataType type) {
    int64_t value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (code != std::errc() || end != digits.data() + digits.size()) {
      Lexer::fail_at(at,
                     fmt::format("'{}' is no {} number (floats need a type: {}:f32)", digits, to_string(type), digits));
    }
    return int_imm(value, type);
  }

  static Expr float_number(const Token& at, const std::string& digits, DataType type) {
    const char* end = digits.data() + digits.size();
    const size_t hex = digits.find("nan0x");
    if (hex != std::string::npos) {
      uint64_t bits = 0;
      const auto [stop, code] = std::from_chars(digits.data() + hex + 5, end, bits, 16);
      if (code != std::errc() || stop != end) Lexer::fail_at(at, "expected the bits of a NaN in hexadecimal");
      return float_imm(std::bit_cast<double>(bits | (hex > 0 ? uint64_t{1} << 63 : 0)), type);
    }
    // Narrow types are read as f32 so that the text is rounded once.
    double wide = 0;
    float narrow = 0;
    const bool is_f64 = type == DataType::f64();
    const auto [stop, code] =
        is_f64 ? std::from_chars(digits.data(), end, wide) : std::from_chars(digits.data(), end, narrow);
    if (code != std::errc() || stop != end)
      Lexer::fail_at(at, fmt::format("'{}' is no {} number", digits, to_string(type)));
    return float_imm(is_f64 ? wide : static_cast<double>(narrow), type);
  }

  std::vector<Expr> operands(std::string_view close) {
    std::vector<Expr> list;
    if (lexer_.accept(close)) return list;
    do {
      list.push_back(expression());
    } while (lexer_.accept(","));
    lexer_.expect(close);
    return list;
  }

  Expr load_of(const Token& at) {
    const std::optional<DataType> type = scope_.tensor_type ? scope_.tensor_type(at.text) : std::nullopt;
    if (!type) Lexer::fail_at(at, fmt::format("'{}' is no tensor or buffer here", at.text));
    lexer_.expect("[");
    return load(at.text, *type, operands("]"));
  }

  Expr conversion(const Token& at) {
    lexer_.expect("<");
    const Token type_at = lexer_.peek();
    const std::optional<DataType> type = parse_data_type(lexer_.identifier("a type"));
    if (!type || type->is_vector()) Lexer::fail_at(type_at, fmt::format("'{}' is no scalar type", type_at.text));
    lexer_.expect(">");
    lexer_.expect("(");
    const Expr x = expression();
    lexer_.expect(")");
    if (at.text == "cast") return cast(*type, x);
    if (x.type().bits() != type->bits()) Lexer::fail_at(at, "bitcast between types of unequal width");
    return bitcast(*type, x);
  }

  Expr function(const Token& at) {
    lexer_.expect("(");
    if (at.text == "ramp" || at.text == "broadcast" || at.text == "extract") return vector_node(at);
    const std::vector<Expr> args = operands(")");
    for (const FunctionName& known : kFunctionNames) {
      if (known.text != at.text) continue;
      check_arity(at, known.arity, args.size());
      return function_node(at, known.op, args);
    }
    const ElementaryFunction* elementary = find_elementary(at.text);
    if (!elementary) Lexer::fail_at(at, fmt::format("unknown function '{}'", at.text));
    check_arity(at, elementary->arity, args.size());
    for (const Expr& x : args) check_same(at, args[0], x);
    if (!args[0].type().is_float()) Lexer::fail_at(at, fmt::format("'{}' takes floats", at.text));
    return call(at.text, args);
  }

  Expr function_node(const Token& at, Op op, const std::vector<Expr>& args) {
    if (op == Op::kSelect) {
      check_bool(at, args[0]);
      check_same(at, args[1], args[2]);
      check_lanes(at, args);
      return select(args[0], args[1], args[2]);
    }
    if (op == Op::kFma) {
      check_same(at, args[0], args[1]);
      check_same(at, args[0], args[2]);
      if (!args[0].type().is_float()) Lexer::fail_at(at, "'fma' takes floats");
      return fma(args[0], args[1], args[2]);
    }
    if (args.size() == 2) return infix_node(at, op, args[0], args[1]);
    return is_lane_reduction(op) ? reduce_lanes(op, args[0]) : unary(op, args[0]);
  }

  Expr vector_node(const Token& at) {
    std::vector<Expr> args = {expression()};
    lexer_.expect(",");
    if (at.text == "ramp") {
      args.push_back(expression());
      check_same(at, args[0], args[1]);
      lexer_.expect(",");
    }
    const int64_t count = lexer_.integer("a number of lanes");
    lexer_.expect(")");
    const int64_t min = at.text == "extract" ? 0 : 2;
    const int64_t max = at.text == "extract" ? args[0].type().lanes() - 1 : INT32_MAX;
    if (count < min || count > max) Lexer::fail_at(at, fmt::format("'{}' with {} lanes", at.text, count));
    if (at.text == "extract") return extract(args[0], static_cast<int>(count));
    if (args[0].type().is_vector()) Lexer::fail_at(at, fmt::format("'{}' takes scalars", at.text));
    return at.text == "ramp" ? ramp(args[0], args[1], static_cast<int>(count))
                             : broadcast(args[0], static_cast<int>(count));
  }

  Expr infix_node(const Token& at, Op op, const Expr& a, const Expr& b) {
    check_same(at, a, b);
    return binary(op, a, b);
  }

  static void check_arity(const Token& at, size_t wanted, size_t found) {
    if (wanted != found) Lexer::fail_at(at, fmt::format("'{}' takes {} operands, found {}", at.text, wanted, found));
  }
  static void check_bool(const Token& at, const Expr& e) {
    if (!e.type().is_bool()) Lexer::fail_at(at, fmt::format("expected a condition, found a {}", to_string(e.type())));
  }
  static void check_lanes(const Token& at, const std::vector<Expr>& args) {
    int lanes = 1;
    for (const Expr& x : args) {
      const int mine = x.type().lanes();
      if (mine > 1 && lanes > 1 && mine != lanes)
        Lexer::fail_at(at, fmt::format("vectors of {} and {} lanes", lanes, mine));
      lanes = std::max(lanes, mine);
    }
  }
  // Operands have one element type, and one number of lanes unless they are scalars (which are broadcast).
  static void check_same(const Token& at, const Expr& a, const Expr& b) {
    check_lanes(at, {a, b});
    if (a.type().element() == b.type().element()) return;
    Lexer::fail_at(at,
                   fmt::format("operands of '{}' are {} and {}", at.text, to_string(a.type()), to_string(b.type())));
  }

  Lexer& lexer_;
  const ExprScope& scope_;
};

}  // namespace

Expr parse_expr(Lexer& lexer, const ExprScope& scope) { return Parser(lexer, scope).expression(); }

Expr parse_expr(std::string_view text, const ExprScope& scope) {
  Lexer lexer(text);
  Expr e = parse_expr(lexer, scope);
  if (!lexer.at_end()) lexer.expected("the end");
  return e;
}

}  // namespace tw
