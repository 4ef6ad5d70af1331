#include "plan/reasons.h"

#include <charconv>

#include "support/lexer.h"

namespace tw::plan {
namespace {

constexpr std::string_view kEdge = "edge ", kValue = "why ", kProduct = "product ", kFused = "fused", kApart = "apart";

std::string text_of(const Why& why) {
  std::string out = quote_string(why.rule);
  for (const auto& [name, value] : why.numbers) out += fmt::format(" {}={}", name, quote_string(fmt::to_string(value)));
  return out + " : " + quote_string(why.text);
}

Why read_reason(Lexer& lexer) {
  Why why;
  why.rule = lexer.string("a rule");
  while (!lexer.accept(":")) {
    const std::string name = lexer.identifier("the name of a number");
    lexer.expect("=");
    const std::string text = lexer.string("a number");
    double value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
      lexer.fail("expected a number");
    why.numbers.emplace_back(name, value);
  }
  why.text = lexer.string("a sentence");
  return why;
}

}  // namespace

std::string to_string(const Reasons& reasons) {
  std::string out;
  for (const EdgeReason& e : reasons.edges) {
    out += kEdge;
    for (const std::string* name : {&e.value, &e.from, &e.to, &e.to_value, &e.from_group, &e.to_group})
      out += quote_string(*name) + " ";
    out += fmt::format("{} {}\n", e.is_fused ? kFused : kApart, text_of(e.why));
  }
  for (const ValueReason& v : reasons.values)
    out += fmt::format("{}{} {}\n", kValue, quote_string(v.value), text_of(v.why));
  for (const ProductReason& p : reasons.products)
    out += fmt::format("{}{} {}\n", kProduct, quote_string(p.node), text_of(p.why));
  return out;
}

bool take_line(const std::string& line, Reasons& reasons) {
  const bool is_edge = line.starts_with(kEdge);
  const bool is_product = line.starts_with(kProduct);
  if (!is_edge && !is_product && !line.starts_with(kValue)) return false;
  Lexer lexer(line);
  lexer.next();
  if (is_edge) {
    EdgeReason e;
    for (std::string* name : {&e.value, &e.from, &e.to, &e.to_value, &e.from_group, &e.to_group})
      *name = lexer.string("a name");
    e.is_fused = lexer.accept(kFused);
    if (!e.is_fused) lexer.expect(kApart);
    e.why = read_reason(lexer);
    reasons.edges.push_back(std::move(e));
  } else if (is_product) {
    ProductReason p{lexer.string("a node"), {}};
    p.why = read_reason(lexer);
    reasons.products.push_back(std::move(p));
  } else {
    ValueReason v{lexer.string("a value"), {}};
    v.why = read_reason(lexer);
    reasons.values.push_back(std::move(v));
  }
  if (!lexer.at_end()) lexer.expected("the end of the line");
  return true;
}

}  // namespace tw::plan
