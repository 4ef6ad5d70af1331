#include "codegen/llvm/object.h"

#include "codegen/llvm/machine.h"
#include "support/error.h"

namespace tw::codegen::cpu {

const KernelEntry& MachineCode::kernel(std::string_view name) const {
  const auto it = std::ranges::find(kernels, name, &KernelEntry::name);
  TW_CHECK(it != kernels.end(), "no kernel {}", name);
  return *it;
}

MachineCode compile_object(const loop::Program& program, const CpuLevel& level, const EmitOptions& options) {
  Module module = emit(program, level, options);
  optimize(module);
  const MachineOutput output = generate(module, MachineFormat::kObject);
  LinkedBlob blob = link(output.bytes);
  MachineCode code{std::move(blob.bytes), {}};
  for (const KernelInfo& info : module.kernels()) {
    const LinkedBlob::Symbol& symbol = blob.functions.at(info.name);
    const FrameInfo& frame = output.frames.at(info.name);
    code.kernels.push_back(
        {info.name, symbol.offset, symbol.size, info.scratch_bytes, frame.stack_bytes, frame.vector_spills});
  }
  return code;
}

std::string compile_assembly(const loop::Program& program, const CpuLevel& level, const EmitOptions& options) {
  Module module = emit(program, level, options);
  optimize(module);
  const MachineOutput output = generate(module, MachineFormat::kAssembly);
  return std::string(output.bytes.begin(), output.bytes.end());
}

}  // namespace tw::codegen::cpu
