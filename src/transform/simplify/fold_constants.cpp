// Constant folding. Three ways, by what the node does: reshapes share the bytes, transposes move them, everything else
// is evaluated by the reference and rounded; the last only as long as it stays cheap, as it works on f64 copies.
#include <algorithm>

#include "te/materialize.h"
#include "transform/editor.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

constexpr int64_t kSmallBytes = 64 * 1024;           // what may be stored although it is larger than its inputs
constexpr int64_t kStoredBytes = 16 << 20;           // what all of that may be: masks, biases of positions
constexpr int64_t kWeightShare = 8;                  // and this share of the model's constants
constexpr int64_t kReferenceElements = 24'000'000;   // read and written by one evaluation: some 600 MB of f64
constexpr int64_t kContractionElements = 1'000'000;  // the same for sums of products: a second of the reference

bool has_constant_inputs(const Editor& editor, const Node& node) {
  if (node.inputs.empty()) return false;
  return std::ranges::all_of(node.inputs, [&](ValueId in) { return in == kAbsent || editor.value(in).is_constant(); });
}

int64_t constant_bytes(const graph::Graph& graph) {
  int64_t bytes = 0;
  for (const graph::Value& v : graph.values) bytes += v.is_constant() ? v.type.bytes() : 0;
  return bytes;
}

// Whether constants alone are made of it.
bool is_folded_further(const Editor& editor, const Node& node) {
  const ValueId out = node.outputs[0];
  return !editor.graph().is_output(out) && std::ranges::all_of(editor.readers(out), [&](int reader) {
    return std::ranges::all_of(editor.graph().nodes[reader].inputs, [&](ValueId in) {
      return in == out || in == kAbsent || editor.value(in).is_constant();
    });
  });
}

// `larger`: bytes that results may still have beyond those of their inputs.
bool is_cheap(const Editor& editor, const Node& node, int64_t& larger) {
  int64_t read_bytes = 0;
  int64_t elements = 0;
  int64_t written_bytes = 0;
  for (const ValueId in : node.inputs) {
    if (in == kAbsent) continue;
    read_bytes += editor.type(in).bytes();
    elements += editor.type(in).elements();
  }
  for (const ValueId out : node.outputs) {
    written_bytes += editor.type(out).bytes();
    elements += editor.type(out).elements();
  }
  const graph::OpDef& op = editor.ops().at(node.op);
  if (op.op_class == graph::OpClass::kOpaque) return false;  // what a loop costs, its tensors do not say
  const bool sums = op.op_class == graph::OpClass::kContraction;
  // A contraction would read words that are packed anew in every run.
  const bool packs = node.op == "pack_words";
  if (elements > (sums ? kContractionElements : kReferenceElements)) return false;
  if (written_bytes <= kSmallBytes || written_bytes <= read_bytes || packs) return true;
  const bool repeats = node.op == "expand" && !is_folded_further(editor, node);  // who reads it repeats elements itself
  if (repeats || written_bytes - read_bytes > larger) return false;
  larger -= written_bytes - read_bytes;
  return true;
}

std::vector<graph::Bytes> evaluate(const Editor& editor, const Node& node) {
  std::vector<graph::RefTensor> inputs;
  for (const ValueId in : node.inputs) {
    inputs.push_back(in == kAbsent ? graph::RefTensor::zeros({DataType::f32(), {0}}) : elements_of(editor.value(in)));
  }
  std::vector<graph::Bytes> results;
  const std::vector<graph::RefTensor> outputs =
      editor.ops().at(node.op).reference(graph::make_call(editor.graph(), node), inputs);
  for (const graph::RefTensor& t : outputs) results.push_back(bytes_of(t));
  return results;
}

// The node's results, or nothing when it is not folded.
std::vector<graph::Bytes> fold(const Editor& editor, const Node& node, int64_t& larger) {
  if (!has_constant_inputs(editor, node)) return {};
  const graph::Value& first = editor.value(node.inputs[0]);
  if (node.op == "reshape" || node.op == "identity") return {first.constant};
  if (node.op == "transpose") {
    return {share(te::materialize(*first.constant, static_cast<size_t>(first.type.type.bytes()), first.type.shape,
                                  Layout().reorder(node.ints_attr("perm"))))};
  }
  return is_cheap(editor, node, larger) ? evaluate(editor, node) : std::vector<graph::Bytes>();
}

}  // namespace

graph::Graph fold_constants(const graph::Graph& graph, const TransformContext& context) {
  Editor editor(graph, context.ops);
  int64_t larger = kStoredBytes + constant_bytes(graph) / kWeightShare;
  editor.for_each_old([&](const Node& node) {
    const std::vector<graph::Bytes> results = fold(editor, node, larger);
    for (size_t k = 0; k < results.size(); ++k) {
      if (editor.use_count(node.outputs[k]) == 0) continue;
      const graph::Value& out = editor.value(node.outputs[k]);
      const bool copies_already = node.op == "identity" && editor.graph().is_output(node.outputs[k]);
      if (copies_already && editor.readers(node.outputs[k]).empty()) continue;
      editor.replace(node.outputs[k], editor.add_constant(out.name, out.type, results[k]));
    }
  });
  return editor.finish();
}

}  // namespace tw::transform
