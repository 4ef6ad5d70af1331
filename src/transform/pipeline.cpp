#include "support/error.h"
#include "support/pass_runner.h"
#include "transform/pass.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

const GraphPass kPipeline[] = {
    {"canonicalize", canonicalize, "no no-ops, no chains of reshapes or transposes", true},
    {"fold-constants", fold_constants, "no cheap node has constant inputs only", true},
    {"fold-batch-norm", fold_batch_norm, "no batch norm follows a contraction of constant weights", true},
    {"common-subexpressions", eliminate_common_subexpressions, "no two nodes compute the same", true},
    {"dead-code", eliminate_dead_code, "every node is needed", true},
    {"check-indices", check_indices, "every index that is read at run time is compared with its axis", false},
    {"sink-transposes", sink_transposes, "no element-wise operator reads a transpose that could follow it", true},
    {"assign-layouts", assign_layouts, "values around convolutions are stored channels last", true},
    {"convert-layouts", convert_layouts, "reshapes of channels-last values are views of a row-major copy", true},
    {"fuse", fuse, "every group has one output", true},
    {"partition", partition, "every node is a group and every output is computed by one", false},
};

constexpr std::string_view kKind = "graph pass";

}  // namespace

std::span<const GraphPass> pipeline() { return kPipeline; }

const GraphPass& find_pass(std::string_view name) { return find_row(pipeline(), name, kKind); }

graph::Graph transform(const graph::Graph& graph, const TransformContext& context, const RunOptions& options) {
  check_pass_options(pipeline(), options, kKind);
  verify_after_pass(kKind, "import", [&] { graph::verify(graph, context.ops); });
  if (options.dump) options.dump("import", graph);
  return run_passes(
      pipeline(), graph, options, kKind,
      [&](const GraphPass& pass, const graph::Graph& current) { return pass.run(current, context); },
      [&](const GraphPass&, const graph::Graph& current) { graph::verify(current, context.ops); });
}

}  // namespace tw::transform
