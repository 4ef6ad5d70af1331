// The text form of a graph (its grammar is in parser.cpp).
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "graph/graph.h"
#include "graph/ref_tensor.h"
#include "support/hash.h"
#include "support/join.h"
#include "support/lexer.h"
#include "support/parallel.h"

namespace tw::graph {
namespace {

constexpr int64_t kInlineElements = 16;  // constants up to this size are printed element by element
constexpr size_t kHashDigits = 16;       // of the 64 hexadecimal digits: 64 bits tell the constants of a model apart

std::string number_text(std::string digits) {
  const bool integral = digits.find_first_of(".en") == std::string::npos;  // n: inf, nan
  return integral ? digits + ".0" : digits;
}

// Shortest digits that read back to the same value of the type: those of f32 for every type it holds.
std::string float_text(double value, DataType type) {
  if (std::isnan(value)) return "nan";
  return number_text(type == DataType::f64() ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value)));
}

std::string reference_name(const Value& value, ContentHashes& hashes) {
  return fmt::format("{}.{}", value.name, hashes.of(value.constant).substr(0, kHashDigits));
}

std::string constant_text(const Value& value, ContentHashes& hashes) {
  if (!is_inline(value)) return "data " + quote_name(reference_name(value, hashes));
  const RefTensor elements = RefTensor::from_bytes(value.type, *value.constant);
  std::vector<std::string> parts = mapped(elements.floats, [&](double x) { return float_text(x, value.type.type); });
  for (int64_t x : elements.ints) parts.push_back(fmt::format("{}", x));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

struct AttrPrinter {
  std::string operator()(int64_t x) const { return fmt::format("{}", x); }
  std::string operator()(double x) const { return float_text(x, DataType::f64()); }
  std::string operator()(const std::string& x) const { return quote_string(x); }
  template <typename T>
  std::string operator()(const std::vector<T>& list) const {
    const std::vector<std::string> parts = mapped(list, *this);
    // An empty list does not show its kind; integers need no word.
    std::string kind;
    if (list.empty() && std::is_same_v<T, double>) kind = "floats ";
    if (list.empty() && std::is_same_v<T, std::string>) kind = "strings ";
    return fmt::format("{}[{}]", kind, fmt::join(parts, ", "));
  }
};

std::string named_type(const Value& value) {
  const TensorType& type = value.type;
  return fmt::format("{} : {}[{}]", quote_name(value.name), to_string(type.type), fmt::join(type.shape, ", "));
}

std::string declaration(const Value& value) {
  std::string text = named_type(value);
  if (!value.layout.is_identity()) text += " layout " + quote_string(to_string(value.layout));
  return text;
}

// Which elements of constants are printed.
enum class Elements : uint8_t { kAll, kSingle };

class Printer {
 public:
  Printer(Elements elements, ContentHashes& hashes) : elements_(elements), hashes_(hashes) {}

  std::string print(const Graph& graph, const std::string& indent) {
    const std::string inner = indent + "  ";
    std::string text = fmt::format("graph {} {{\n", quote_name(graph.name));
    for (ValueId in : graph.inputs) text += fmt::format("{}input {}\n", inner, declaration(graph.value(in)));
    for (const Value& value : graph.values) {
      if (value.is_constant()) text += fmt::format("{}const {}\n", inner, constant(value));
    }
    for (const Node& node : graph.nodes) text += inner + node_text(graph, node, inner) + "\n";
    const auto outputs = mapped(graph.outputs, [&](ValueId out) { return quote_name(graph.value(out).name); });
    text += fmt::format("{}output {}\n{}}}", inner, fmt::join(outputs, ", "), indent);
    return text;
  }

 private:
  std::string constant(const Value& value) {
    if (elements_ == Elements::kAll || value.type.elements() == 1)
      return fmt::format("{} = {}", declaration(value), constant_text(value, hashes_));
    return named_type(value);
  }

  std::string node_text(const Graph& graph, const Node& node, const std::string& indent) {
    std::vector<std::string> outputs, inputs, attrs;
    for (ValueId out : node.outputs) outputs.push_back(declaration(graph.value(out)));
    for (ValueId in : node.inputs)
      inputs.push_back(in == kAbsent ? std::string("-") : quote_name(graph.value(in).name));
    for (const auto& [key, value] : node.attrs)
      attrs.push_back(fmt::format("{} = {}", quote_name(key), std::visit(AttrPrinter{}, value)));
    std::string text =
        fmt::format("{} = {}({})", fmt::join(outputs, ", "), quote_name(node.op), fmt::join(inputs, ", "));
    if (!attrs.empty()) text += fmt::format(" {{{}}}", fmt::join(attrs, ", "));
    if (!node.name.empty()) text += fmt::format(" as {}", quote_name(node.name));
    if (node.body != nullptr) text += fmt::format(" {}", print(*node.body, indent));
    return text;
  }

  Elements elements_;
  ContentHashes& hashes_;
};

}  // namespace

bool is_inline(const Value& value) {
  if (value.type.elements() > kInlineElements) return false;
  RefTensor elements = RefTensor::from_bytes(value.type, *value.constant);
  for (double& x : elements.floats) x = std::isnan(x) ? std::numeric_limits<double>::quiet_NaN() : x;
  return std::ranges::equal(elements.to_bytes(), *value.constant);
}

const std::string& ContentHashes::of(const Bytes& bytes) {
  const auto [found, fresh] = known_.try_emplace(bytes);
  if (fresh) found->second = content_hash(*bytes);
  return found->second;
}

void ContentHashes::add(const Graph& graph) {
  std::vector<std::map<Bytes, std::string>::iterator> fresh;
  for (const Value& value : graph.values) {
    if (!value.is_constant()) continue;
    const auto [place, is_new] = known_.try_emplace(value.constant);
    if (is_new) fresh.push_back(place);
  }
  parallel_for(fresh.size(), 0, [&](size_t i) { fresh[i]->second = content_hash(*fresh[i]->first); });
}

std::string to_string(const Graph& graph) {
  ContentHashes hashes;
  return to_string(graph, hashes);
}

std::string to_string(const Graph& graph, ContentHashes& hashes) {
  return Printer(Elements::kAll, hashes).print(graph, "") + "\n";
}

std::string to_outline(const Graph& graph) {
  ContentHashes none;
  return Printer(Elements::kSingle, none).print(graph, "") + "\n";
}

std::map<std::string, Bytes> large_constants(const Graph& graph) {
  std::map<std::string, Bytes> found;
  ContentHashes hashes;
  for (const Value& value : graph.values) {
    if (value.is_constant() && !is_inline(value)) found.emplace(reference_name(value, hashes), value.constant);
  }
  for (const Node& node : graph.nodes) {
    if (node.body != nullptr) found.merge(large_constants(*node.body));
  }
  return found;
}

}  // namespace tw::graph
