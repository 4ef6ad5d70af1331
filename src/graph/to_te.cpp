// The te program of a group: placeholders, then the computes of each node. Tensors are named after operators and
// positions, never after the model's values: groups of equal maths have equal programs. A value that is several
// operands of products is an input for each of them (te/operands.h): x * x and x * z have equal programs, too.
#include <algorithm>
#include <cctype>

#include "graph/op.h"
#include "support/error.h"
#include "support/join.h"
#include "te/operands.h"

namespace tw::graph {
namespace {

class Translator {
 public:
  Translator(const Graph& group, const OpTable& ops) : group_(group), ops_(ops), tensors_(group.values.size()) {}

  GroupProgram run() {
    for (ValueId in : group_.inputs) add_placeholder(in);
    for (const Node& node : group_.nodes) translate(node);
    const auto outputs = mapped(group_.outputs, [&](ValueId out) { return output_tensor(out); });
    result_.output_tensors = mapped(outputs, &te::Tensor::name);
    te::SeparateOperands separate = te::separate_operands(builder_.finish(group_.name, outputs));
    result_.program = std::move(separate.program);
    result_.inputs = mapped(separate.sources, [&](size_t i) { return result_.inputs[i]; });
    return std::move(result_);
  }

 private:
  void add_placeholder(ValueId id) {
    const Value& value = group_.value(id);
    tensors_.at(id) =
        builder_.placeholder(fmt::format("x{}", result_.inputs.size()), value.type.type, value.type.shape);
    result_.inputs.push_back(id);
  }

  const te::Tensor& tensor(ValueId id) {
    if (tensors_.at(id).name.empty()) {
      TW_CHECK(group_.value(id).is_constant(), "group '{}' reads '{}' before it is computed", group_.name,
               group_.value(id).name);
      add_placeholder(id);
    }
    return tensors_[id];
  }

  void translate(const Node& node) {
    TW_CHECK(!node.is_group(), "group '{}' holds the group '{}': a te program has one level", group_.name, node.name);
    const OpDef& op = ops_.at(node.op);
    TW_CHECK(op.te != nullptr, "operator '{}' has no te definition", node.op);
    const auto inputs = mapped(node.inputs, [&](ValueId in) { return in == kAbsent ? te::Tensor{} : tensor(in); });
    const size_t before = builder_.computes().size();
    const std::vector<te::Tensor> outputs = op.te(make_call(group_, node), builder_, inputs);
    for (size_t c = before; c < builder_.computes().size(); ++c) {
      for (const te::Tensor& t : builder_.computes()[c].outputs)
        result_.nodes[t.name] = fmt::format("{} ({})", node.name, node.op);
    }
    TW_CHECK(outputs.size() == node.outputs.size(), "te of '{}' ({}) gave {} tensors for {} outputs", node.name,
             node.op, outputs.size(), node.outputs.size());
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Value& value = group_.value(node.outputs[k]);
      TW_CHECK(outputs[k].type == value.type.type && outputs[k].shape == value.type.shape,
               "te of '{}' ({}): output {} is {}{}, not {}", node.name, node.op, k, to_string(outputs[k].type),
               tw::to_string(outputs[k].shape), to_string(value.type));
      tensors_.at(node.outputs[k]) = outputs[k];
    }
  }

  // An output that is a placeholder, or leaves twice, is copied: every output of a program is a compute of its own.
  te::Tensor output_tensor(ValueId id) {
    const te::Tensor source = tensor(id);
    bool copied = group_.value(id).is_constant() || group_.producer(id) < 0;
    for (const std::string& name : written_) copied = copied || name == source.name;
    const te::Tensor result = copied ? builder_.compute(source.name + "_copy", source.shape,
                                                        [&](const std::vector<Expr>& i) { return source(i); })
                                     : source;
    written_.push_back(result.name);
    return result;
  }

  const Graph& group_;
  const OpTable& ops_;
  te::Builder builder_;
  std::vector<te::Tensor> tensors_;  // by value; empty name: not there yet
  std::vector<std::string> written_;
  GroupProgram result_;
};

}  // namespace

GroupProgram to_te(const Graph& group, const OpTable& ops) { return Translator(group, ops).run(); }

std::string in_words_of_graph(std::string_view text, const std::map<std::string, std::string>& nodes) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  std::string out;
  while (!text.empty()) {
    const auto end = std::ranges::find_if(text, [&](char c) { return is_part(c) != is_part(text.front()); });
    const std::string word(text.begin(), end);
    const auto node = nodes.find(word.substr(0, word.find('.')));  // matmul.acc: made of it by a schedule
    out += node == nodes.end() ? word : node->second;
    text.remove_prefix(word.size());
  }
  return out;
}

}  // namespace tw::graph
