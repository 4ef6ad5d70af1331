#include "driver/assemble.h"

#include <algorithm>

#include "driver/code_store.h"
#include "driver/place_entry.h"
#include "runtime/format/problem.h"

namespace tw::driver {

namespace {

void add_libraries(const format::Entry& entry, std::vector<format::Library>& libraries) {
  for (const format::CudaStep& step : entry.cuda_steps) {
    if (step.call.empty()) continue;
    const format::LibraryCall call = format::parse_library_call(step.call);
    if (std::ranges::find(libraries, call.library, &format::Library::name) == libraries.end())
      libraries.push_back({call.library, call.version});
  }
}

}  // namespace

Assembled assemble(DeviceKind device, const std::vector<LevelCode>& levels) {
  Assembled out;
  WeightStore weights;
  for (const LevelCode& level : levels) {
    const CodeStore code(device, level.generated.programs, out);
    for (const EntryCode& entry : level.entries) {
      PlacedEntry placed = place_entry(device, entry, code, weights);
      placed.entry.target = static_cast<int64_t>(out.manifest.targets.size());
      const std::string text = graph::to_string(placed.graph);
      out.sections[fmt::format("graph.{}", out.manifest.entries.size())] = {text.begin(), text.end()};
      add_libraries(placed.entry, out.manifest.libraries);
      out.manifest.entries.push_back(std::move(placed.entry));
    }
    out.manifest.targets.push_back(level.generated.target);
  }
  out.sections["weights"] = weights.take();
  return out;
}

}  // namespace tw::driver
