// Loops as nodes: operator "repeat", whose body is a graph that runs several times (recurrences, Loop, Scan).
//
// With T turns, C carried values and S scanned inputs:
//   inputs        first values of the carried ones (C), scanned tensors (S), and what is the same in every turn
//   body inputs   carried values of the turn before (C), a row of each scanned tensor (S), and the same
//   body outputs  carried values (C), and what else each turn makes
//   outputs       of each body output j the rows of the last turns: `rows[j]` of them, stacked along a new first axis
// Turn t reads row t of a scanned tensor, which has T of them, and writes row t of an output; backwards it is row
// T - 1 - t. An output of a carried value may have fewer rows than T: turn t writes row t mod rows[j], so that two are
// enough to carry it, and the last one is row (T - 1) mod rows[j].
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tw::graph {

inline constexpr std::string_view kRepeat = "repeat";

/// The attributes of a loop.
struct Repeat {
  int64_t turns = 1;
  size_t carried = 0, scanned = 0;
  std::vector<int64_t> rows = {};              // of each output: T, or 2 and more where it is carried
  std::vector<int64_t> inputs_backwards = {};  // of each scanned input: 1 or 0
  std::vector<int64_t> outputs_backwards = {};

  /// Which row of a scanned input, or of an output, a turn reads or writes.
  int64_t input_row(size_t input, int64_t turn) const;
  int64_t output_row(size_t output, int64_t turn) const;
};

/// InternalError where `node` is no loop or lacks an attribute.
Repeat repeat_of(const Node& node);
Attrs attrs_of(const Repeat& repeat);

/// What the names of values in the body of `loop`, a node of `graph` or the group of one, begin with where they stand
/// beside those around it: in an artefact, and in the names of plans.
std::string body_prefix(const Graph& graph, const Node& loop);
/// A body of groups, and those of loops inside of it, with names of values that begin with `prefix`. An error word
/// keeps its name.
Graph with_prefix(Graph body, const std::string& prefix);
/// The loop that a group consists of; null for other groups.
const Node* loop_of(const Node& group);
/// Such a group's graph with another body of the loop.
std::shared_ptr<const Graph> with_loop_body(const Graph& group, Graph body);

}  // namespace tw::graph
