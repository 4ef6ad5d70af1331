// Graph passes: each is a row of the table in pipeline.cpp, run by one runner that disables, times, verifies and dumps.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/target_info.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace tw::transform {

struct TransformContext {
  const graph::OpTable& ops;
  TargetInfo target;
};

struct GraphPass {
  std::string_view name;
  graph::Graph (*run)(const graph::Graph& graph, const TransformContext& context);
  std::string_view holds;  // what is true afterwards
  bool optional;           // may be switched off
};

/// The passes in order.
std::span<const GraphPass> pipeline();

/// What the runner does around each pass.
struct RunOptions {
  std::vector<std::string> disabled;  // UserError on a required or unknown one
  bool all_optional_off = false;
  std::string stop_after;
  std::function<void(std::string_view pass, const graph::Graph& graph)> dump;
  std::function<void(std::string_view pass, int64_t nanoseconds)> time;
};

/// Runs the pipeline; verifies after every pass. The result's nodes are all groups.
graph::Graph transform(const graph::Graph& graph, const TransformContext& context, const RunOptions& options);

/// The row named `name`; UserError listing all names when there is none.
const GraphPass& find_pass(std::string_view name);

}  // namespace tw::transform
