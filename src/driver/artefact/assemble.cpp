#include "driver/artefact/assemble.h"

#include "driver/artefact/code_store.h"
#include "driver/artefact/place_entry.h"
#include "driver/code/format_type.h"
#include "runtime/format/kernel_use.h"
#include "support/join.h"

namespace tw::driver {

namespace {

// How the steps of an entry, and those of the bodies of its loops, call their kernels.
void add_uses(const EntryCode& entry, const CodeStore& code, const std::vector<format::Kernel>& rows,
              std::map<int64_t, format::KernelUse>& uses) {
  for (size_t g = 0; g < entry.groups.size(); ++g) {
    const int program = entry.program_of_group[g];
    if (program < 0) continue;
    const std::vector<loop::Kernel>& kernels = entry.groups[g].lowered.loops->kernels;
    for (size_t k = 0; k < kernels.size(); ++k) {
      const int64_t row = code.row(program, k);
      const format::Kernel& placed = rows[static_cast<size_t>(row)];
      format::KernelUse use{placed.offset, placed.bytes, kernels[k].tiles, code.entry(program, k).scratch_bytes, {}};
      for (const loop::Buffer& p : kernels[k].params) {
        const bool is_written = std::ranges::find(kernels[k].written, p.name) != kernels[k].written.end();
        use.arguments.push_back({format_type(p.type), p.size() * p.type.bytes(), is_written});
      }
      uses.emplace(row, std::move(use));
    }
  }
  for (const EntryCode& body : entry.bodies) add_uses(body, code, rows, uses);
}

}  // namespace

Assembled assemble(DeviceKind device, const std::vector<LevelCode>& levels, std::vector<format::State> states,
                   Branches branches) {
  Assembled out;
  out.manifest.states = std::move(states);
  WeightStore weights;
  std::map<int64_t, format::KernelUse> uses;  // by row of the kernel
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
      if (device == DeviceKind::kCpu) add_uses(entry, code, out.manifest.kernels, uses);
    }
    out.manifest.targets.push_back(level.generated.target);
  }
  out.sections["weights"] = weights.take();
  if (device == DeviceKind::kCpu) {
    const std::vector<uint8_t> table = format::to_bytes(mapped(uses, [](const auto& use) { return use.second; }));
    out.sections["kernels"] = {table.begin(), table.end()};
  }
  return out;
}

}  // namespace tw::driver
