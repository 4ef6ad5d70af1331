// Transposes sink: f(transpose(x), c) = transpose(f(x, transposed c)) for element-wise f, and concat likewise. On the
// way two of them merge, or cancel when one is the other's inverse.
#include <algorithm>

#include "support/join.h"
#include "te/materialize.h"
#include "transform/passes.h"
#include "transform/roles.h"
#include "transform/rules.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

constexpr int64_t kMaxConstantBytes = 1 << 20;  // of an operand that would have to be transposed too
constexpr size_t kMaxSweeps = 1000;             // every step moves one transpose towards the outputs

class Sinker {
 public:
  explicit Sinker(Editor& editor) : editor_(editor) {}

  bool sweep() {
    bool changed = false;
    editor_.for_each([&](const Node& node) { changed = sink_through(node) || changed; });
    for (size_t n = 0; n < editor_.node_count(); ++n) changed = apply_rules(editor_, movement_rules(), n) || changed;
    return changed;
  }

 private:
  bool sink_through(const Node& node) {
    const bool concat = node.op == "concat";
    const bool elementwise = is_pointwise(editor_.ops(), node);
    if ((!elementwise && !concat) || node.outputs.size() != 1) return false;
    const Ints perm = common_order(node);
    if (perm.empty() || !can_move_all(node, perm, concat)) return false;
    Node moved = node;
    for (ValueId& in : moved.inputs) in = moved_operand(in, perm);
    if (concat) moved.attrs["axis"] = perm[normal_axis(node.int_attr("axis"), perm.size())];
    const ValueId inner = editor_.add(std::move(moved));
    return editor_.replace(node.outputs[0], editor_.emit(node, "transpose", {inner}, {{"perm", perm}}));
  }

  static size_t normal_axis(int64_t axis, size_t rank) {
    return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
  }

  // The transposed operand `id` of a node whose result has that rank; null when it is none, or read elsewhere too.
  const Node* transpose_of(ValueId id, size_t rank) const {
    const Node* node = id == kAbsent ? nullptr : editor_.producer(id, "transpose");
    if (node == nullptr || editor_.type(id).shape.size() != rank || editor_.graph().is_output(id)) return nullptr;
    return node;
  }

  // The order of all transposed operands; empty when there is none or they differ.
  Ints common_order(const Node& node) const {
    const size_t rank = editor_.type(node.outputs[0]).shape.size();
    Ints perm;
    for (const ValueId in : node.inputs) {
      const Node* transpose = transpose_of(in, rank);
      if (transpose == nullptr) continue;
      const Ints& order = transpose->ints_attr("perm");
      if (!perm.empty() && perm != order) return {};
      perm = order;
    }
    return perm;
  }

  bool can_move_all(const Node& node, const Ints& perm, bool concat) const {
    return std::ranges::all_of(node.inputs, [&](ValueId in) {
      if (in == kAbsent) return true;
      if (transpose_of(in, perm.size()) != nullptr) return is_read_by_one(in);
      const graph::Value& value = editor_.value(in);
      if (value.type.elements() == 1 && !concat) return true;
      return value.is_constant() && value.type.bytes() <= kMaxConstantBytes;
    });
  }

  // A transpose with other readers would stay: nothing is gained by a second one.
  bool is_read_by_one(ValueId id) const {
    const std::vector<int>& readers = editor_.readers(id);
    return std::ranges::all_of(readers, [&](int r) { return r == readers.front(); });
  }

  // The operand for the node before the transpose.
  ValueId moved_operand(ValueId in, const Ints& perm) {
    if (in == kAbsent) return in;
    if (const Node* transpose = transpose_of(in, perm.size())) return transpose->inputs[0];
    // One element is the same in every order.
    return editor_.type(in).elements() == 1 ? in : moved_constant(in, perm);
  }

  // Constant operand, seen as one of full rank: dim perm[j] of the result is dim j.
  ValueId moved_constant(ValueId in, const Ints& perm) {
    const graph::Value value = editor_.value(in);
    const Shape shape = joined(Shape(perm.size() - value.type.shape.size(), 1), value.type.shape);
    const Ints inverse = inverse_of(perm);
    const Shape moved = permuted(shape, inverse);
    auto bytes = te::materialize(*value.constant, static_cast<size_t>(value.type.type.bytes()), shape,
                                 Layout().reorder(inverse));
    return editor_.add_constant(value.name, {value.type.type, moved}, std::move(bytes));
  }

  Editor& editor_;
};

}  // namespace

graph::Graph sink_transposes(const graph::Graph& graph, const TransformContext& context) {
  Editor editor(graph, context.ops);
  Sinker sinker(editor);
  for (size_t sweep = 0; sinker.sweep(); ++sweep)
    TW_CHECK(sweep < kMaxSweeps, "transposes of '{}' do not come to rest", graph.name);
  // A transpose that sank below a conversion leaves it equal to that of what was not transposed.
  return eliminate_common_subexpressions(editor.finish(), context);
}

}  // namespace tw::transform
