#include "driver/artefact/assemble.h"

#include "driver/artefact/code_store.h"
#include "driver/artefact/place_entry.h"
#include "driver/code/format_type.h"
#include "runtime/format/kernel_use.h"
#include "support/join.h"

namespace tw::driver {

namespace {

// How kernel `k` of a program is called. One of a GPU takes its workspace behind its parameters.
format::KernelUse use_of(const loop::Kernel& kernel, const format::Kernel& placed, const ProgramCode::Entry& code,
                         DeviceKind device) {
  format::KernelUse use{placed.offset, placed.bytes, kernel.tiles, code.scratch_bytes, 0, {}};
  for (const loop::Buffer& p : kernel.params) {
    const bool is_written = std::ranges::find(kernel.written, p.name) != kernel.written.end();
    use.arguments.push_back({format_type(p.type), p.size() * p.type.bytes(), is_written});
  }
  if (device == DeviceKind::kCpu) return use;
  if (code.cuda.workspace_bytes > 0) use.arguments.push_back({format::DataType::kU8, code.cuda.workspace_bytes, true});
  std::vector<int64_t> places = sequence(use.arguments.size());
  const format::CudaStep step = format::step_over_tiles(0, kernel.tiles, code.cuda, places);
  use.launch = format::launch_key(placed.name, step);
  use.arguments = mapped(format::buffers_of(step), [&](int64_t place) { return use.arguments[place]; });
  use.offset = format::cubin_number(placed.section);
  use.tiles = 1;
  use.scratch_bytes = code.cuda.zero_bytes;
  return use;
}

// How the steps of an entry, and those of the bodies of its loops, call their kernels.
void add_uses(const EntryCode& entry, const CodeStore& code, DeviceKind device, const std::vector<format::Kernel>& rows,
              std::map<int64_t, format::KernelUse>& uses) {
  for (size_t g = 0; g < entry.groups.size(); ++g) {
    const int program = entry.program_of_group[g];
    if (program < 0) continue;
    const std::vector<loop::Kernel>& kernels = entry.groups[g].lowered.loops->kernels;
    for (size_t k = 0; k < kernels.size(); ++k) {
      const ProgramCode::Entry& made = code.entry(program, k);
      if (!made.cuda.call.empty()) continue;
      const int64_t row = code.row(program, k);
      uses.emplace(row, use_of(kernels[k], rows[static_cast<size_t>(row)], made, device));
    }
  }
  for (const EntryCode& body : entry.bodies) add_uses(body, code, device, rows, uses);
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
      add_uses(entry, code, device, out.manifest.kernels, uses);
    }
    out.manifest.targets.push_back(level.generated.target);
  }
  out.sections["weights"] = weights.take();
  const std::vector<uint8_t> table = format::to_bytes(mapped(uses, [](const auto& use) { return use.second; }));
  out.sections["kernels"] = {table.begin(), table.end()};
  return out;
}

}  // namespace tw::driver
