// Numbers in the place of rows that hold nothing, and what a node needs of them.
#pragma once
#include <functional>

#include "transform/rewrite/live_rows.h"

namespace tw::transform {

/// Writes nodes into a graph whose values have live rows.
class RowMasks {
 public:
  /// `length(l)`: the value i64[1] of how many rows of length l hold something.
  RowMasks(Graph& out, const graph::OpTable& ops, std::function<ValueId(int)> length)
      : out_(out), ops_(ops), length_(std::move(length)) {}

  /// Appends `node`, of which the analysis says `rows`: what it reads is filled, a mean is one of the rows that hold
  /// something, and the last row the last of these.
  void append(Node node, const RowsOfNode& rows);
  ValueId emit(const std::string& name, const std::string& op, std::vector<ValueId> inputs, graph::Attrs attrs = {});
  ValueId constant(const std::string& name, const graph::RefTensor& elements);

 private:
  ValueId filled(ValueId id, const LiveRows& rows, double number);
  ValueId is_live(const LiveRows& rows, const Shape& shape);
  ValueId share_of(const RowsOfValue& rows, DataType type);
  void append_mean(Node node, const RowsOfValue& rows);
  Node at_last(Node node, const LiveRows& rows);

  Graph& out_;
  const graph::OpTable& ops_;
  std::function<ValueId(int)> length_;
};

}  // namespace tw::transform
