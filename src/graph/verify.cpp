// The rules every graph keeps; a broken one is a bug of the pass that made it.
#include <unordered_set>

#include "graph/op.h"
#include "graph/repeat.h"
#include "support/error.h"

namespace tw::graph {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, const OpTable& ops) : graph_(graph), ops_(ops), defined_(graph.values.size(), false) {}

  void run() {
    check_values();
    for (ValueId in : graph_.inputs) {
      check_id(in, "an input");
      TW_CHECK(!graph_.value(in).is_constant(), "graph '{}': the input '{}' is a constant", graph_.name,
               graph_.value(in).name);
      define(in);
    }
    for (const Node& node : graph_.nodes) check_node(node);
    for (ValueId out : graph_.outputs) {
      check_id(out, "an output");
      TW_CHECK(defined_[out], "graph '{}': nothing computes the output '{}'", graph_.name, graph_.value(out).name);
    }
  }

 private:
  void check_values() {
    std::unordered_set<std::string_view> names;
    names.reserve(graph_.values.size());
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      TW_CHECK(!value.name.empty(), "graph '{}': value {} has no name", graph_.name, v);
      TW_CHECK(names.insert(value.name).second, "graph '{}': two values are named '{}'", graph_.name, value.name);
      TW_CHECK(!value.type.type.is_vector(), "value '{}' has the vector type {}", value.name,
               to_string(value.type.type));
      for (int64_t extent : value.type.shape)
        TW_CHECK(extent >= 0, "value '{}' is {}", value.name, to_string(value.type));
      value.layout.storage_shape(value.type.shape);
      if (!value.is_constant()) continue;
      TW_CHECK(static_cast<int64_t>(value.constant->size()) == value.type.bytes(),
               "constant '{}' of type {} has {} bytes", value.name, to_string(value.type), value.constant->size());
      defined_[v] = true;
    }
  }

  void check_id(ValueId id, std::string_view what) const {
    TW_CHECK(id >= 0 && id < static_cast<ValueId>(graph_.values.size()), "graph '{}': {} is value {} of {}",
             graph_.name, what, id, graph_.values.size());
  }

  void define(ValueId id) {
    TW_CHECK(!defined_[id], "graph '{}': the value '{}' is defined twice", graph_.name, graph_.value(id).name);
    defined_[id] = true;
  }

  void check_node(const Node& node) {
    for (ValueId in : node.inputs) {
      if (in == kAbsent) continue;
      check_id(in, "a node's input");
      TW_CHECK(defined_[in], "node '{}' ({}) reads '{}' before it is computed", node.name, node.op,
               graph_.value(in).name);
    }
    TW_CHECK(!node.outputs.empty(), "node '{}' ({}) has no output", node.name, node.op);
    for (ValueId out : node.outputs) {
      check_id(out, "a node's output");
      define(out);
    }
    if (node.is_group()) {
      check_group(node);
    } else {
      check_inferred(node);
    }
  }

  void check_inferred(const Node& node) const {
    const OpDef* op = ops_.find(node.op);
    TW_CHECK(op != nullptr, "node '{}': there is no operator '{}'", node.name, node.op);
    TW_CHECK((node.body != nullptr) == (node.op == kRepeat), "node '{}' ({}): only groups and loops have bodies",
             node.name, node.op);
    if (node.body != nullptr) verify(*node.body, ops_);
    std::vector<TensorType> types;
    try {
      types = op->output_types(make_call(graph_, node));
    } catch (const UserError& e) {
      // The importer has checked the model: whatever does not fit now is the fault of a pass.
      throw InternalError("graph '{}': {}", graph_.name, e.what());
    }
    TW_CHECK(types.size() == node.outputs.size(), "node '{}' ({}) has {} outputs, its operator gives {}", node.name,
             node.op, node.outputs.size(), types.size());
    for (size_t k = 0; k < types.size(); ++k) {
      const Value& value = graph_.value(node.outputs[k]);
      TW_CHECK(value.type == types[k], "value '{}' is {}, '{}' ({}) gives {}", value.name, to_string(value.type),
               node.name, node.op, to_string(types[k]));
    }
  }

  void check_group(const Node& node) const {
    TW_CHECK(node.body != nullptr, "group '{}' has no body", node.name);
    const Graph& body = *node.body;
    verify(body, ops_);
    check_boundary(node, node.inputs, body.inputs, "inputs");
    check_boundary(node, node.outputs, body.outputs, "outputs");
  }

  void check_boundary(const Node& node, const std::vector<ValueId>& outer, const std::vector<ValueId>& inner,
                      std::string_view what) const {
    TW_CHECK(outer.size() == inner.size(), "group '{}' has {} {}, its body {}", node.name, outer.size(), what,
             inner.size());
    for (size_t k = 0; k < outer.size(); ++k) {
      TW_CHECK(outer[k] != kAbsent, "group '{}': one of its {} is absent", node.name, what);
      const Value& outside = graph_.value(outer[k]);
      const Value& inside = node.body->value(inner[k]);
      TW_CHECK(outside.type == inside.type, "group '{}': '{}' is {} outside, '{}' {} inside", node.name, outside.name,
               to_string(outside.type), inside.name, to_string(inside.type));
    }
  }

  const Graph& graph_;
  const OpTable& ops_;
  std::vector<bool> defined_;
};

}  // namespace

void verify(const Graph& graph, const OpTable& ops) { Verifier(graph, ops).run(); }

}  // namespace tw::graph
