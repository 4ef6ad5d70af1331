// The graph reference evaluator: node by node in f64, no fusion, no reuse.
#pragma once
#include <vector>

#include "graph/op.h"
#include "tests/harness/te_evaluate.h"

namespace tw::graph {

/// The reference evaluator: every value of `graph` in f64/i64, given its inputs. Groups are evaluated inside.
/// `round_values`: each value is rounded to its own type after it is computed, as a strict run would.
enum class Rounding : uint8_t { kNone, kEachValue };
std::vector<RefTensor> evaluate(const Graph& graph, const OpTable& ops, std::vector<RefTensor> inputs,
                                Rounding rounding);

/// The inputs of a group's program among `values`, the values of its graph.
te::ValueMap inputs_of(const GroupProgram& group, const std::vector<RefTensor>& values);

}  // namespace tw::graph
