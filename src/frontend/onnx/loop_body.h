// A loop on its way into the graph: what a turn computes is built in a graph of its own, and becomes one node "repeat"
// (graph/repeat.h) of the graph around it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "frontend/onnx/emitter.h"

namespace tw::frontend {

/// Which row of a stack a turn reads or writes: row t of turn t, or the last ones first.
enum class Order : uint8_t { kForwards, kBackwards };

class LoopBody {
 public:
  /// Values in it are named `name`/...; `outer` is the graph around it.
  LoopBody(GraphBuilder& outer, const std::string& name);

  GraphBuilder& builder() { return builder_; }
  Emitter& emit() { return emitter_; }

  // First these, in this order. Each gives the value inside that stands for `outer`'s.
  /// What the turn before left, which begins as `first`.
  graph::ValueId carried(graph::ValueId first);
  /// A row along the first axis of `stacked`, which has one for each turn.
  graph::ValueId row(graph::ValueId stacked, Order order);

  /// The value of the graph around, in every turn the same. Constants that may not change are constants inside, too.
  /// Unsupported for a sequence.
  graph::ValueId captured(graph::ValueId outer);

  /// What a turn leaves in each carried value, in their order, and whether all of them are kept as rows, not the last
  /// ones alone.
  struct Left {
    graph::ValueId value;
    bool keeps_rows = false;
    Order order = Order::kForwards;  // of the rows that are kept
  };
  struct Row {
    graph::ValueId value;
    Order order = Order::kForwards;
  };
  struct Made {
    std::vector<graph::ValueId> last;    // carried values after the last turn
    std::vector<graph::ValueId> kept;    // rows of carried values; kAbsent: not kept
    std::vector<graph::ValueId> stacks;  // of `rows`
  };
  /// Appends the loop of `turns` turns to the graph around. UserError where a value does not stay of its type.
  Made finish(int64_t turns, const std::vector<Left>& left, const std::vector<Row>& rows);

 private:
  std::string inside_name(graph::ValueId outer) const;
  graph::ValueId add_input(graph::ValueId outer, const TensorType& type);
  void add_output(graph::ValueId id, std::vector<graph::ValueId>& outputs);

  GraphBuilder& outer_;
  GraphBuilder builder_;
  Emitter emitter_, around_;
  std::string name_;
  std::vector<graph::ValueId> inputs_;  // of the node
  std::vector<int64_t> inputs_backwards_;
  size_t carried_ = 0;
  std::map<graph::ValueId, graph::ValueId> captured_;   // outer -> inside
  std::map<graph::ValueId, graph::ValueId> constants_;  // inside -> outer
};

}  // namespace tw::frontend
