// Rows of loops on targets whose kernels read and write several elements at once: each turn's row has to begin where
// such an access may. A row that does not is made one of a whole number of accesses, with zeros at its end.
#include <algorithm>

#include "support/math.h"
#include "transform/editor.h"
#include "transform/loops/unroll.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

constexpr int64_t kDeviceAccess = 16;  // bytes: what kernels on GPUs read and write at once

// Elements of a row with room for whole accesses; that of the row itself where it has them.
int64_t padded_elements(const TensorType& row) {
  return round_up(row.bytes(), kDeviceAccess) / std::max(1, row.type.bytes());
}
bool is_aligned(const TensorType& row) { return row.bytes() % kDeviceAccess == 0; }

// x, which has `first` leading dims before those of a row, with rows of `elements`; and the other way round.
using Emit = std::function<ValueId(std::string op, ValueId x, Attrs attrs)>;
ValueId widened(const Emit& emit, ValueId x, const Shape& leading, const TensorType& row) {
  Shape flat = leading;
  flat.push_back(row.elements());
  Ints pads(2 * flat.size(), 0);
  pads.back() = padded_elements(row) - row.elements();
  return emit("pad", emit("reshape", x, {{"shape", flat}}), {{"pads", pads}});
}
ValueId narrowed(const Emit& emit, ValueId x, const Shape& leading, const TensorType& row) {
  Shape flat = leading, whole = leading;
  flat.push_back(row.elements());
  whole.insert(whole.end(), row.shape.begin(), row.shape.end());
  const Ints starts(flat.size(), 0), steps(flat.size(), 1);
  return emit("reshape", emit("slice", x, {{"starts", starts}, {"steps", steps}, {"extents", flat}}),
              {{"shape", whole}});
}

class RowAligner {
 public:
  RowAligner(Editor& editor, const Node& loop)
      : editor_(editor), loop_(loop), repeat_(graph::repeat_of(loop)), names_(*loop.body) {}

  void run() {
    if (!needs_room()) return;
    Node aligned = loop_;
    aligned.body = std::make_shared<const Graph>(aligned_body());
    for (size_t k = 0; k < repeat_.carried + repeat_.scanned; ++k) {
      if (is_aligned(input_row(k))) continue;
      const Shape leading = k < repeat_.carried ? Shape{} : Shape{repeat_.turns};
      aligned.inputs[k] = widened(outside(), loop_.inputs[k], leading, input_row(k));
    }
    const std::vector<ValueId> made = editor_.add_all(std::move(aligned));
    for (size_t j = 0; j < made.size(); ++j) {
      const TensorType row = output_row(j);
      if (editor_.use_count(loop_.outputs[j]) == 0) continue;
      editor_.replace(loop_.outputs[j],
                      is_aligned(row) ? made[j] : narrowed(outside(), made[j], {repeat_.rows[j]}, row));
    }
  }

 private:
  TensorType input_row(size_t k) const { return loop_.body->value(loop_.body->inputs[k]).type; }
  TensorType output_row(size_t j) const { return loop_.body->value(loop_.body->outputs[j]).type; }

  bool needs_room() const {
    for (size_t k = 0; k < repeat_.carried + repeat_.scanned; ++k) {
      if (!is_aligned(input_row(k))) return true;
    }
    for (size_t j = 0; j < repeat_.rows.size(); ++j) {
      if (!is_aligned(output_row(j))) return true;
    }
    return false;
  }

  Emit outside() const {
    return [this](std::string op, ValueId x, Attrs attrs) {
      return editor_.emit(loop_, std::move(op), {x}, std::move(attrs));
    };
  }

  Graph aligned_body() {
    Graph body = *loop_.body;
    const std::vector<Node> nodes = std::move(body.nodes);
    body.nodes.clear();
    const auto emit = [&](std::string op, ValueId x, Attrs attrs) {
      Node node{.op = std::move(op), .name = loop_.name, .attrs = std::move(attrs), .inputs = {x}};
      return graph::append_node(body, editor_.ops(), std::move(node), &names_)[0];
    };
    std::vector<ValueId> renamed(body.values.size());
    for (size_t v = 0; v < renamed.size(); ++v) renamed[v] = static_cast<ValueId>(v);
    for (size_t k = 0; k < repeat_.carried + repeat_.scanned; ++k) {
      const TensorType row = input_row(k);
      if (is_aligned(row)) continue;
      const ValueId given = body.inputs[k];
      body.inputs[k] = body.add_value(body.value(given).name, {row.type, {padded_elements(row)}}, &names_);
      renamed[given] = narrowed(emit, body.inputs[k], {}, row);
    }
    const auto now = [&](ValueId id) { return id == kAbsent ? kAbsent : renamed[id]; };
    for (Node node : nodes) {
      for (ValueId& id : node.inputs) id = now(id);
      body.nodes.push_back(std::move(node));
    }
    for (size_t j = 0; j < repeat_.rows.size(); ++j) {
      const TensorType row = output_row(j);
      body.outputs[j] = is_aligned(row) ? now(body.outputs[j]) : widened(emit, now(body.outputs[j]), {}, row);
    }
    return graph::compact(body);
  }

  Editor& editor_;
  const Node loop_;
  const graph::Repeat repeat_;
  graph::NameSet names_;
};

}  // namespace

Graph align_rows(const Graph& graph, const TransformContext& context) {
  if (context.target.kind != DeviceKind::kCuda) return graph;
  Editor editor(graph, context.ops);
  editor.for_each_old([&](const Node& node) {
    if (node.op == graph::kRepeat) RowAligner(editor, node).run();
  });
  return editor.finish();
}

}  // namespace tw::transform
