#include "loop/implementation.h"

#include <algorithm>

#include "expr/parser.h"
#include "runtime/format/error.h"
#include "support/error.h"
#include "support/lexer.h"

namespace tw::loop {
namespace {

constexpr std::string_view kTemplate = "template ", kEpilogue = " epilogue ";

// "ROW PROBLEM", with an epilogue behind it.
TemplateCall parse_template(std::string_view text) {
  TemplateCall out;
  out.row = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(text.size(), out.row.size() + 1));
  const size_t end = std::min(text.size(), text.find(kEpilogue));
  out.problem = format::parse_problem(text.substr(0, end));
  if (end < text.size()) out.epilogue = parse_epilogue(text.substr(end + kEpilogue.size()));
  return out;
}

}  // namespace

std::string to_string(const SumEpilogue& epilogue) {
  std::string text;
  for (const SumEpilogue::Operand& o : epilogue.operands)
    text += fmt::format("{}{}:{}:{}", text.empty() ? "" : ",", o.name, tw::to_string(o.type),
                        o.is_tensor ? "point" : "column");
  return fmt::format("{}{}{}", text, text.empty() ? "" : " ", tw::to_string(epilogue.value));
}

SumEpilogue parse_epilogue(std::string_view text) {
  Lexer lexer(text);
  SumEpilogue out;
  std::vector<DataType> types = {DataType::f32()};
  while (lexer.peek(1).text == ":") {
    const std::string name = lexer.identifier();
    lexer.expect(":");
    const auto type = parse_data_type(lexer.identifier("an element type"));
    lexer.expect(":");
    const bool is_tensor = lexer.accept("point");
    if (!is_tensor) lexer.expect("column");
    if (!type || !(type->is_half() || *type == DataType::f32())) lexer.fail("operands are f16, bf16 or f32");
    out.operands.push_back({name, *type, is_tensor});
    types.push_back(*type);
    lexer.accept(",");
  }
  ExprScope scope;
  scope.var_type = [&](const std::string& name) {
    for (size_t i = 0; i < types.size(); ++i) {
      if (name == fmt::format("x{}", i)) return types[i];
    }
    throw UserError("an epilogue has no '{}'", name);
  };
  out.value = parse_expr(lexer, scope);
  if (!lexer.at_end()) lexer.expected("the end of the epilogue");
  if (out.value.type() != DataType::f32()) throw UserError("the value of an epilogue is f32");
  visit(out.value, [](const Expr& e) {
    if (e.type().is_vector()) throw UserError("an epilogue is of single numbers");
  });
  return out;
}

std::string to_string(const Implementation& implementation) {
  if (const format::LibraryCall* call = implementation.library()) return format::to_string(*call);
  const TemplateCall* call = implementation.of_template();
  if (call == nullptr) return "";
  const std::string text = fmt::format("{}{} {}", kTemplate, call->row, format::to_string(call->problem));
  return call->epilogue.is_plain() ? text : fmt::format("{}{}{}", text, kEpilogue, to_string(call->epilogue));
}

Implementation parse_implementation(std::string_view text) try {
  if (text.starts_with(kTemplate)) return parse_template(text.substr(kTemplate.size()));
  return format::parse_library_call(text);
} catch (const format::Error& error) {
  throw UserError("{}", error.what());
}

}  // namespace tw::loop
