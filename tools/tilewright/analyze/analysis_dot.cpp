// The analysis of a model as a picture, in the spirit of figure 2 of Ivanov et al., Data Movement Is All You Need.
#include <algorithm>
#include <map>

#include "support/text.h"
#include "tilewright/analyze/analysis_text.h"

namespace tw::cli {
namespace {

constexpr size_t kLetters = 40;  // of a name

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? "\\n" : std::string(1, c);
  }
  return out + "\"";
}

std::string_view color_of(dataflow::OperatorClass operator_class) {
  constexpr std::string_view kColors[] = {"#8dc7f0", "#f5c07a", "#a8dca0"};
  return kColors[static_cast<size_t>(operator_class)];
}

std::string node_text(size_t number, const dataflow::Operator& o) {
  const std::string work =
      o.is_view ? "view" : fmt::format("{} flop, {} a word", number_text(o.flop), number_text(o.flop_per_word()));
  return fmt::format("  o{} [fillcolor={}, label={}];\n", number, quoted(std::string(color_of(o.operator_class))),
                     quoted(fmt::format("{} ({})\n{}", shortened(o.name, kLetters), o.op, work)));
}

}  // namespace

std::string analysis_dot(const Analysis& a) {
  std::string out =
      fmt::format("digraph {} {{\n  node [shape=box, style=filled, fontname=\"sans-serif\"];\n", quoted(a.model));
  for (size_t i = 0; i < a.flow.operators.size(); ++i) out += node_text(i, a.flow.operators[i]);
  std::map<std::string, std::string> ends;  // inputs and outputs: their nodes
  const auto end = [&](int number, const std::string& value, std::string_view kind) {
    if (number >= 0) return fmt::format("o{}", number);
    const auto [found, fresh] = ends.try_emplace(fmt::format("{} {}", kind, value), fmt::format("e{}", ends.size()));
    if (fresh)
      out += fmt::format("  {} [shape=plaintext, style=\"\", label={}];\n", found->second,
                         quoted(shortened(value, kLetters)));
    return found->second;
  };
  for (const dataflow::Edge& e : a.flow.edges) {
    if (e.is_constant && e.type.elements() == 1) continue;
    const std::string from = end(e.from, e.value, "from"), to = end(e.to, e.value, "to");
    out +=
        fmt::format("  {} -> {} [label={}];\n", from, to, quoted(number_text(static_cast<double>(e.type.elements()))));
  }
  return out + "}\n";
}

}  // namespace tw::cli
