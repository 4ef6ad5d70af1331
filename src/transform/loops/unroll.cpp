#include "transform/loops/unroll.h"

#include <algorithm>
#include <set>

#include "graph/stacked_rows.h"
#include "support/join.h"
#include "transform/editor.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

using graph::Repeat;

// How rows are cut and stacked in an edited graph.
class RowEmitter {
 public:
  RowEmitter(Editor& editor, const Node& like) : editor_(editor), like_(like) {}

  const Shape& shape(ValueId x) const { return editor_.shape(x); }
  ValueId reshape(ValueId x, const Shape& shape) {
    return editor_.shape(x) == shape ? x : editor_.emit(like_, "reshape", {x}, {{"shape", shape}});
  }
  ValueId slice(ValueId x, int64_t axis, int64_t start, int64_t extent) {
    Shape extents = editor_.shape(x);
    Ints starts(extents.size(), 0);
    starts[static_cast<size_t>(axis)] = start;
    extents[static_cast<size_t>(axis)] = extent;
    return extents == editor_.shape(x) ? x : editor_.emit_slice(like_.name, x, starts, extents);
  }
  ValueId concat_all(const std::vector<ValueId>& parts, int64_t axis) {
    return editor_.emit(like_, "concat", parts, {{"axis", axis}});
  }

 private:
  Editor& editor_;
  const Node& like_;
};

class LoopUnroller {
 public:
  LoopUnroller(Editor& editor, const Node& loop) : editor_(editor), loop_(loop), repeat_(graph::repeat_of(loop)) {}

  void run() {
    RowEmitter emit(editor_, loop_);
    graph::StackedRows stacked(emit);
    std::vector<std::vector<ValueId>> scanned;
    for (size_t s = 0; s < repeat_.scanned; ++s) scanned.push_back(stacked.rows(loop_.inputs[repeat_.carried + s], 0));
    std::vector<ValueId> given = loop_.inputs;
    std::vector<std::vector<ValueId>> rows;
    for (const int64_t count : repeat_.rows) rows.emplace_back(static_cast<size_t>(count), kAbsent);
    for (int64_t turn = 0; turn < repeat_.turns; ++turn) {
      for (size_t s = 0; s < repeat_.scanned; ++s)
        given[repeat_.carried + s] = scanned[s][static_cast<size_t>(repeat_.input_row(s, turn))];
      const std::vector<ValueId> made = add_turn(given, turn);
      for (size_t j = 0; j < rows.size(); ++j) rows[j][static_cast<size_t>(repeat_.output_row(j, turn))] = made[j];
      std::copy_n(made.begin(), repeat_.carried, given.begin());
    }
    for (size_t j = 0; j < rows.size(); ++j) {
      if (editor_.use_count(loop_.outputs[j]) == 0) continue;
      const std::vector<ValueId> parts = mapped(rows[j], [&](ValueId row) {
        Shape shape = editor_.shape(row);
        shape.insert(shape.begin(), 1);
        return emit.reshape(row, shape);
      });
      editor_.replace(loop_.outputs[j], stacked.concat(parts, 0));
    }
  }

 private:
  std::vector<ValueId> add_turn(const std::vector<ValueId>& given, int64_t turn) {
    const Graph& body = *loop_.body;
    std::map<ValueId, ValueId> outside = {{kAbsent, kAbsent}};
    for (size_t k = 0; k < given.size(); ++k) outside[body.inputs[k]] = given[k];
    const auto value = [&](ValueId id) {
      const auto known = outside.find(id);
      return known == outside.end() ? constant(id) : known->second;
    };
    for (const Node& node : body.nodes) {
      Node copy = node;
      copy.name = fmt::format("{}/{}", node.name, turn);
      copy.inputs = mapped(node.inputs, value);
      const std::vector<ValueId> made = editor_.add_all(std::move(copy));
      for (size_t k = 0; k < made.size(); ++k) outside[node.outputs[k]] = made[k];
    }
    return mapped(body.outputs, value);
  }

  ValueId constant(ValueId id) {
    const auto [known, fresh] = constants_.try_emplace(id, kAbsent);
    const graph::Value& value = loop_.body->value(id);
    if (fresh) known->second = editor_.add_constant(value.name, value.type, value.constant);
    return known->second;
  }

  Editor& editor_;
  const Node loop_;
  const Repeat repeat_;
  std::map<ValueId, ValueId> constants_;  // of the body
};

// The value that `id` may become a view of: what has its elements one by one, and reads nothing else but constants.
ValueId origin_of(const Graph& graph, const std::vector<int>& producers, ValueId id) {
  for (int p = producers[id]; p >= 0; p = producers[id]) {
    ValueId read = kAbsent;
    for (const ValueId in : graph.nodes[p].inputs) {
      if (in == kAbsent || graph.value(in).is_constant()) continue;
      if (read != kAbsent && read != in) return id;
      read = in;
    }
    if (read == kAbsent || graph.value(read).type.elements() != graph.value(id).type.elements()) return id;
    id = read;
  }
  return id;
}

// Turns of so few are kernels of their own: what the first one begins with is often zero, and what several share is
// computed once.
constexpr int64_t kMostUnrolled = 8;

}  // namespace

Graph unroll(const Graph& graph, const graph::OpTable& ops,
             const std::function<bool(const Graph& graph, const Node& loop)>& takes) {
  Editor editor(graph, ops);
  editor.for_each([&](const Node& node) {
    if (node.op == graph::kRepeat && takes(editor.graph(), node)) LoopUnroller(editor, node).run();
  });
  return editor.finish();
}

Graph placeable_body(const Node& loop, const graph::OpTable& ops) {
  const std::span carried = std::span(loop.body->inputs).first(graph::repeat_of(loop).carried);
  const std::set<std::string> names = [&] {
    const std::vector<std::string> all = mapped(carried, [&](ValueId id) { return loop.body->value(id).name; });
    return std::set<std::string>(all.begin(), all.end());
  }();
  return unroll(*loop.body, ops, [&](const Graph& body, const Node& inner) {
    const std::vector<int> producers = body.producers();
    return std::ranges::any_of(
        inner.inputs, [&](ValueId id) { return names.contains(body.value(origin_of(body, producers, id)).name); });
  });
}

Graph unroll_all(const Graph& graph, const graph::OpTable& ops) {
  return unroll(graph, ops, [](const Graph&, const Node&) { return true; });
}

Graph unroll_loops(const Graph& graph, const TransformContext& context) {
  return unroll(graph, context.ops,
                [](const Graph&, const Node& loop) { return graph::repeat_of(loop).turns <= kMostUnrolled; });
}

}  // namespace tw::transform
