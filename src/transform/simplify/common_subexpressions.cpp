#include <algorithm>

#include "transform/editor.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

constexpr size_t kSamples = 64;  // bytes of a constant in its key; equal keys are compared in full

std::string text_of(const graph::Attr& attr) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        std::string text;
        if constexpr (std::is_same_v<T, int64_t>) {
          text = fmt::format("i{}", value);
        } else if constexpr (std::is_same_v<T, double>) {
          text = fmt::format("f{:a}", value);
        } else if constexpr (std::is_same_v<T, std::string>) {
          text = fmt::format("s{}:{}", value.size(), value);
        } else {
          text = "[";
          for (const auto& x : value) text += text_of(graph::Attr(x)) + ",";
          text += "]";
        }
        return text;
      },
      attr);
}

/// Operator, attributes and inputs; exact for floats.
std::string node_key(const graph::Node& node) {
  std::string key = node.op;
  for (const auto& [name, attr] : node.attrs) key += fmt::format(" {}={}", name, text_of(attr));
  for (const ValueId in : node.inputs) key += fmt::format(" %{}", in);
  return key;
}

std::string constant_key(const graph::Value& value) {
  const std::span<const std::byte> bytes = *value.constant;
  std::string key = to_string(value.type);
  for (size_t s = 0; s < std::min(kSamples, bytes.size()); ++s) {
    key += static_cast<char>(bytes[s * bytes.size() / std::min(kSamples, bytes.size())]);
  }
  return key;
}

void merge_constants(Editor& editor) {
  std::map<std::string, std::vector<ValueId>> seen;
  const auto count = static_cast<ValueId>(editor.graph().values.size());
  for (ValueId id = 0; id < count; ++id) {
    if (!editor.value(id).is_constant() || editor.graph().is_output(id)) continue;
    std::vector<ValueId>& alike = seen[constant_key(editor.value(id))];
    const auto equal = std::ranges::find_if(alike, [&](ValueId other) {
      return editor.value(other).constant == editor.value(id).constant ||
             std::ranges::equal(*editor.value(other).constant, *editor.value(id).constant);
    });
    if (equal == alike.end()) {
      alike.push_back(id);
    } else {
      editor.replace(id, *equal);
    }
  }
}

}  // namespace

graph::Graph eliminate_common_subexpressions(const graph::Graph& graph, const TransformContext& context) {
  Editor editor(graph, context.ops);
  merge_constants(editor);
  std::map<std::string, std::vector<ValueId>> seen;  // results
  editor.for_each_old([&](const Node& node) {
    if (node.body != nullptr) return;  // a loop: its key would be all that it does
    const auto [first, fresh] = seen.try_emplace(node_key(node), node.outputs);
    for (size_t k = 0; !fresh && k < node.outputs.size(); ++k) editor.replace(node.outputs[k], first->second[k]);
  });
  return editor.finish();
}

}  // namespace tw::transform
