#include "driver/assemble.h"

#include "driver/code_store.h"
#include "driver/place_entry.h"

namespace tw::driver {

Assembled assemble(const AssembleInput& in) {
  Assembled out;
  CodeStore code(in.device, in.programs, out);
  WeightStore weights;
  for (size_t e = 0; e < in.entries.size(); ++e) {
    PlacedEntry placed = place_entry(in.device, in.entries[e], code, weights);
    const std::string text = graph::to_string(placed.graph);
    out.sections[fmt::format("graph.{}", e)] = {text.begin(), text.end()};
    out.manifest.entries.push_back(std::move(placed.entry));
  }
  out.sections["weights"] = weights.take();
  return out;
}

}  // namespace tw::driver
