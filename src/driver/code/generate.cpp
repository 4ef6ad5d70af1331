#include "driver/code/generate.h"

#include <thread>

#include "driver/code/format_type.h"
#include "lower/version.h"
#include "measure/cuda_executor.h"
#include "support/join.h"
#include "support/parallel.h"
#ifdef TW_HAVE_LLVM
#include "codegen/llvm/object.h"
#include "codegen/llvm/version.h"
#endif
#ifdef TW_HAVE_CUDA
#include "codegen/cuda/emit.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/version.h"
#include "driver/code/template_code.h"
#include "templates/fit.h"
#include "templates/version.h"
#endif

namespace tw::driver {
namespace {

// Work on all tasks in parallel, with progress.
void for_each_task(std::span<const CodeTask> tasks, const CodeTools& tools, const std::function<void(size_t)>& work) {
  std::atomic<int64_t> done = 0;
  const auto caller = std::this_thread::get_id();
  parallel_for(tasks.size(), tools.threads, [&](size_t i) {
    if (tools.progress && std::this_thread::get_id() == caller) tools.progress(done);
    work(i);
    ++done;
  });
}

#ifdef TW_HAVE_LLVM
// A caller's tensors are aligned to their element only.
constexpr codegen::cpu::EmitOptions kCpuEmission = {codegen::cpu::ParamAliasing::kDistinct, 1};

codegen::cpu::CpuLevel level_of(const TargetInfo& target) {
  const std::optional<codegen::cpu::CpuLevel> level = codegen::cpu::find_level(architecture(target));
  TW_CHECK(level.has_value(), "code generation does not know {}", target.name);
  return *level;
}

Generated generate_cpu(std::span<const CodeTask> tasks, const TargetInfo& target, const CodeTools& tools) {
  const codegen::cpu::CpuLevel level = level_of(target);
  Generated out;
  out.target = {format::TargetKind::kCpu, architecture(target), level.required};
  out.programs.resize(tasks.size());
  for_each_task(tasks, tools, [&](size_t i) {
    codegen::cpu::MachineCode object = codegen::cpu::compile_object(tasks[i].program, level, kCpuEmission);
    out.programs[i].bytes = std::move(object.code);
    for (const codegen::cpu::KernelEntry& k : object.kernels)
      out.programs[i].kernels.push_back({k.name, k.offset, k.size, k.scratch_bytes});
  });
  return out;
}
#else
Generated generate_cpu(std::span<const CodeTask>, const TargetInfo& target, const CodeTools&) {
  throw Unsupported("--target {}: this build has no LLVM (TW_LLVM=OFF)", target.name);
}
#endif

#ifdef TW_HAVE_CUDA
// Plans are files of users: what one says of a kernel must be a problem whose operands are the kernel's buffers.
void check_implementation(const CodeTask& task, const loop::Kernel& kernel) {
  std::vector<std::pair<format::Operand, int64_t>> operands;
  std::string wrong;
  if (const format::LibraryCall* call = kernel.implementation.library()) {
    wrong = why_declined(*call);
    for (const format::Operand* o : call->problem.operands()) operands.emplace_back(*o, call->problem.span(*o));
  } else {
    if (!is_template(task.program)) wrong = "a template is the only kernel of its group";
    operands = templates::operands_of(*kernel.implementation.of_template());
  }
  for (const auto& [operand, elements] : operands) {
    const auto b = std::ranges::find(kernel.params, operand.name, &loop::Buffer::name);
    const bool holds = b != kernel.params.end() && format_type(b->type) == operand.dtype && b->size() >= elements;
    if (!holds) wrong = fmt::format("the kernel has no such {}", operand.name);
  }
  if (!wrong.empty()) throw UserError("group '{}': '{}': {}", task.name, to_string(kernel.implementation), wrong);
}

// A kernel that a library computes, as check_implementation() lets it.
ProgramCode::Entry call_of(const loop::Kernel& kernel) {
  const format::LibraryCall& call = *kernel.implementation.library();
  ProgramCode::Entry entry{kernel.name};
  entry.cuda.call = format::to_string(call);
  for (const format::Operand* operand : call.problem.operands())
    entry.cuda.operands.push_back(index_of(kernel.params, operand->name, &loop::Buffer::name));
  return entry;
}

ProgramCode::Entry entry_of(const codegen::CudaKernel& code, const loop::Kernel& kernel, const TargetInfo& target) {
  ProgramCode::Entry entry{code.name};
  entry.cuda = {code.threads,
                code.shared_bytes,
                {},
                kernel.units > 0 ? kernel.blocks() : 0,
                has_feature(target, "dependent-launch")};
  for (const codegen::CudaTensorMap& map : code.maps) {
    const loop::Buffer& tensor = kernel.params[map.param];
    entry.cuda.maps.push_back({0,
                               static_cast<int64_t>(map.param),
                               format_type(tensor.type),
                               map.shape,
                               map.box,
                               {map.windows.extents, map.windows.steps, map.windows.before}});
  }
  return entry;
}

Generated generate_cuda(std::span<const CodeTask> tasks, const TargetInfo& target, const CodeTools& tools) {
  Generated out;
  out.target = {format::TargetKind::kCuda, architecture(target), {}};
  out.programs.resize(tasks.size());
  for (const CodeTask& task : tasks) {
    for (const loop::Kernel& kernel : task.program.kernels)
      if (kernel.is_implemented()) check_implementation(task, kernel);
  }
  for (const std::string& reason : tools.mainloop_only ? std::vector<std::string>() : build_templates(tasks, target))
    if (!reason.empty()) throw UserError(reason);
  for_each_task(tasks, tools, [&](size_t i) {
    if (is_template(tasks[i].program)) {
      out.programs[i] = template_code(tasks[i], target);
      TW_CHECK(tools.mainloop_only || !out.programs[i].is_mainloop_only, "the template of {} has gone", tasks[i].name);
      return;
    }
    const codegen::CudaSource source = codegen::emit_cuda(tasks[i].program, tasks[i].name);
    ProgramCode& code = out.programs[i];
    const std::vector<loop::Kernel>& kernels = tasks[i].program.kernels;
    if (!std::ranges::all_of(kernels, &loop::Kernel::is_implemented))
      code.bytes = tools.cubins.get(tasks[i].name, source.text, architecture(target), tools.compilations);
    code.group = tasks[i].name;
    for (size_t k = 0; k < kernels.size(); ++k)
      code.kernels.push_back(kernels[k].is_implemented() ? call_of(kernels[k])
                                                         : entry_of(source.kernels[k], kernels[k], target));
  });
  return out;
}
#else
Generated generate_cuda(std::span<const CodeTask>, const TargetInfo& target, const CodeTools&) {
  throw Unsupported("--target {}: this build has no CUDA (TW_CUDA=OFF)", target.name);
}
#endif

}  // namespace

Result<std::string> find_gpu(const std::string& target) { return measure::find_gpu(architecture(target)); }

std::string code_versions(const TargetInfo& target) {
  std::string text = fmt::format("lowering {}\n", lower::kLoweringVersion);
#ifdef TW_HAVE_LLVM
  if (target.kind == DeviceKind::kCpu)
    text += fmt::format("emitter {} {}\n", codegen::cpu::kEmitterVersion, codegen::cpu::llvm_version());
#endif
#ifdef TW_HAVE_CUDA
  if (target.kind == DeviceKind::kCuda) {
    const std::string compiler =
        codegen::nvrtc_available().ok() ? codegen::describe_compilation(architecture(target)) : "no NVRTC";
    text +=
        fmt::format("emitter {} {}\ntemplates {}\n", codegen::kEmitterVersion, compiler, templates::kTemplateVersion);
  }
#endif
  return text;
}

Result<bool> cuda_generation_available() {
#ifdef TW_HAVE_CUDA
  return codegen::nvrtc_available();
#else
  return declined("left out of this build (TW_CUDA=OFF)");
#endif
}

Generated generate(std::span<const CodeTask> tasks, const TargetInfo& target, const CodeTools& tools) {
  return target.kind == DeviceKind::kCpu ? generate_cpu(tasks, target, tools) : generate_cuda(tasks, target, tools);
}

CodeText code_text(const CodeTask& task, const TargetInfo& target) {
  CodeText code{target.kind == DeviceKind::kCpu ? "llvm" : "cuda", {}};
#ifdef TW_HAVE_LLVM
  if (target.kind == DeviceKind::kCpu) {
    codegen::cpu::Module module = codegen::cpu::emit(task.program, level_of(target), kCpuEmission);
    codegen::cpu::optimize(module);
    code.text = module.text();
  }
#endif
#ifdef TW_HAVE_CUDA
  if (target.kind == DeviceKind::kCuda && !is_template(task.program))
    code.text = codegen::emit_cuda(task.program, task.name).text;
#endif
  return code;
}

}  // namespace tw::driver
