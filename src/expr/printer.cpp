#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "expr/op_names.h"
#include "support/lexer.h"

namespace tw {
namespace {

void print(const Expr& e, std::string& out);

void print_list(const ExprNode& node, size_t begin, size_t end, std::string& out) {
  for (size_t i = begin; i < end; ++i) {
    if (i > begin) out += ", ";
    print(node.args[i], out);
  }
}

void print_call(std::string_view name, const ExprNode& node, std::string& out) {
  out += name;
  out += '(';
  print_list(node, 0, node.args.size(), out);
  out += ')';
}

// The shortest text that reads back to the same bits, with the type as suffix.
void print_float(const ExprNode& node, std::string& out) {
  const double x = node.number;
  if (std::isnan(x)) {
    constexpr uint64_t kSign = uint64_t{1} << 63;
    const uint64_t bits = std::bit_cast<uint64_t>(x);
    const uint64_t quiet = std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN());
    if (bits & kSign) out += '-';
    out += (bits & ~kSign) == quiet ? "nan" : fmt::format("nan0x{:x}", bits & ~kSign);
  } else if (node.type == DataType::f64()) {
    out += fmt::format("{}", x);
  } else {
    out += fmt::format("{}", static_cast<float>(x));
  }
  out += ':' + to_string(node.type);
}

void print_int(const ExprNode& node, std::string& out) {
  if (node.type.is_bool()) {
    out += node.value ? "true" : "false";
    return;
  }
  out += fmt::format("{}", node.value);
  if (node.type != DataType::i64()) out += ':' + to_string(node.type);
}

void print_load(const ExprNode& node, std::string& out) {
  const size_t rank = node.args.size() - (node.predicated ? 1 : 0);
  if (node.predicated) out += '(';
  out += quote_name(node.name) + '[';
  print_list(node, 0, rank, out);
  out += ']';
  if (node.predicated) {
    out += " if ";
    print(node.args[rank], out);
    out += ')';
  }
}

void print_prefix(std::string_view sign, const ExprNode& node, std::string& out) {
  out += sign;
  print_call("", node, out);
}

void print_vector(const ExprNode& node, std::string& out) {
  const bool is_ramp = node.op == Op::kRamp;
  out += is_ramp ? "ramp(" : node.op == Op::kBroadcast ? "broadcast(" : "extract(";
  print_list(node, 0, node.args.size(), out);
  out += fmt::format(", {})", node.op == Op::kExtract ? node.value : node.type.lanes());
}

void print_operator(const ExprNode& node, std::string& out) {
  for (const FunctionName& name : kFunctionNames) {
    if (name.op == node.op) return print_call(name.text, node, out);
  }
  out += '(';
  print(node.args[0], out);
  out += fmt::format(" {} ", infix_name(node));
  print(node.args[1], out);
  out += ')';
}

void print(const Expr& e, std::string& out) {
  if (!e) {
    out += "<null>";
    return;
  }
  const ExprNode& node = *e;
  switch (node.op) {
    case Op::kIntImm:
      return print_int(node, out);
    case Op::kFloatImm:
      return print_float(node, out);
    case Op::kVar:
      out += quote_name(node.name);
      return;
    case Op::kNeg:
      return print_prefix("-", node, out);
    case Op::kNot:
      return print_prefix(node.type.is_bool() ? "!" : "~", node, out);
    case Op::kCast:
      return print_call(fmt::format("cast<{}>", to_string(node.type.element())), node, out);
    case Op::kBitcast:
      return print_call(fmt::format("bitcast<{}>", to_string(node.type.element())), node, out);
    case Op::kCall:
      return print_call(node.name, node, out);
    case Op::kLoad:
      return print_load(node, out);
    case Op::kRamp:
    case Op::kBroadcast:
    case Op::kExtract:
      return print_vector(node, out);
    default:
      return print_operator(node, out);
  }
}

}  // namespace

std::string to_string(const Expr& e) {
  std::string out;
  print(e, out);
  return out;
}

}  // namespace tw
