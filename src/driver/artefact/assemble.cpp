#include "driver/artefact/assemble.h"

#include "driver/artefact/code_store.h"
#include "driver/artefact/place_entry.h"

namespace tw::driver {

Assembled assemble(DeviceKind device, const std::vector<LevelCode>& levels, std::vector<format::State> states,
                   Branches branches) {
  Assembled out;
  out.manifest.states = std::move(states);
  WeightStore weights;
  for (const LevelCode& level : levels) {
    const CodeStore code(device, level.generated.programs, out);
    for (const EntryCode& entry : level.entries) {
      weights.hashes().add(entry.graph);
      PlacedEntry placed = place_entry(device, entry, code, weights, {out.manifest.states, branches});
      placed.entry.target = static_cast<int64_t>(out.manifest.targets.size());
      const std::string text = graph::to_string(placed.graph, weights.hashes());
      out.sections[fmt::format("graph.{}", out.manifest.entries.size())] = {text.begin(), text.end()};
      out.manifest.entries.push_back(std::move(placed.entry));
      out.layouts.push_back(std::move(placed.layouts));
    }
    out.manifest.targets.push_back(level.generated.target);
  }
  out.sections["weights"] = weights.take();
  return out;
}

}  // namespace tw::driver
