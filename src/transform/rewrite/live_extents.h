// Graphs of one extent that serve smaller ones, too.
#pragma once
#include <map>
#include <span>
#include <string>

#include "transform/rewrite/live_rows.h"

namespace tw::transform {

/// An extent in [least, bound] that comes with the inputs of a run, or out of it.
struct LiveExtent {
  std::string name;
  int64_t least = 1, bound = 1;
  /// Values of the graph where it comes out of the run: as many of the first rows of `rows` hold something as `count`,
  /// i64[1], says. Empty: an input says it.
  std::string rows = {}, count = {};
  bool is_counted() const { return !count.empty(); }
};

using RowsOfValues = std::map<ValueId, RowsOfValue>;
/// Of the values of a graph and of the bodies of its loops whose shapes depend on live extents: their dims that do, and
/// on which (LiveRows::length). Of inputs and constants all is right; of results only which dims there are is known
/// before.
using DependentDims = std::map<const Graph*, RowsOfValues>;

/// A graph whose results in the rows that hold something are those of a graph of the smaller extents.
struct LiveGraph {
  graph::Graph graph;    // for each extent that comes with the inputs it has one more, i64[1]: input_of(extent)
  RowsOfValues outputs;  // by output of `graph`
  /// Of the extents that come out of the run those that outputs depend on: each has one more output, its count.
  std::vector<int> counted = {};
  /// By extent: whether each row of the outputs follows from its own of the inputs alone, whichever row that is.
  std::vector<bool> rows_are_apart = {};
};

/// The input that says how large the extent is: "NAME_length".
std::string input_of(const LiveExtent& extent);
/// The output that says it of one that comes out of the run: "NAME_count".
std::string output_of(const LiveExtent& extent);

/// The graph, whose extents are all at their bounds, as one for all of them. Rows beyond an extent hold nothing: they
/// may be anything that the operators accept. Throws Unsupported with the node where they would reach others, or where
/// a shape depends on an extent in another way.
LiveGraph serve_smaller_extents(const Graph& graph, const graph::OpTable& ops, std::span<const LiveExtent> extents,
                                const DependentDims& dims);

}  // namespace tw::transform
