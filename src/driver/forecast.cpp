#include "driver/forecast.h"

#include "driver/artefact/plan_memory.h"
#include "driver/entry_groups.h"
#include "driver/entry_passes.h"
#include "driver/states.h"
#include "ops/list.h"

namespace tw::driver {
namespace {

using graph::ValueId;

ValueId storage(const EntryGroups& groups, ValueId id) {
  for (auto alias = groups.aliases.find(id); alias != groups.aliases.end(); alias = groups.aliases.find(id))
    id = alias->second;
  return id;
}

int64_t stored_bytes(const graph::Value& value) {
  return num_elements(value.layout.storage_shape(value.type.shape)) * value.type.type.bytes();
}

// From the group that computes a value to the last one that reads it.
int64_t arena_bytes(const EntryGroups& groups) {
  const graph::Graph& graph = groups.graph;
  std::map<ValueId, BufferRequest> requests;
  std::set<ValueId> others(graph.inputs.begin(), graph.inputs.end());
  for (const ValueId out : graph.outputs) others.insert(storage(groups, out));
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto step = static_cast<int64_t>(n);
    if (groups.is_view(n)) continue;
    for (const auto* ids : {&graph.nodes[n].inputs, &graph.nodes[n].outputs}) {
      for (const ValueId id : *ids) {
        if (id == graph::kAbsent || graph.value(id).is_constant() || others.contains(storage(groups, id))) continue;
        const ValueId root = storage(groups, id);
        const auto [found, fresh] =
            requests.try_emplace(root, BufferRequest{stored_bytes(graph.value(root)), step, step});
        if (!fresh) found->second.last_step = step;
      }
    }
  }
  std::vector<BufferRequest> all;
  for (const auto& [id, request] : requests) all.push_back(request);
  return plan_memory(all).arena_bytes;
}

}  // namespace

Forecast forecast(const graph::Graph& graph, const CompileOptions& options) {
  const targets::Target target = machine::resolve_targets(options.target, options.machine_model).front();
  const graph::OpTable ops = ops::all_ops();
  const graph::Graph source = with_its_states_last(graph, options.states, options.dtype);
  const std::vector<transform::StateNames> states = states_in(source, options.states);
  transform::TransformContext context = transform_context(ops, target.info, options, {});
  context.states = states;
  const EntryGroups groups = entry_groups(transform::transform(source, context, pass_options(options, {})), ops, target,
                                          states, options.watch.get());
  Forecast out{.arena_bytes = arena_bytes(groups)};
  for (const graph::Value& value : groups.graph.values)
    out.constant_bytes += value.is_constant() ? value.type.bytes() : 0;
  for (size_t n = 0; n < groups.te.size(); ++n) {
    if (groups.has_code(n)) out.flop += contraction_flop(groups.program(n));
  }
  return out;
}

}  // namespace tw::driver
