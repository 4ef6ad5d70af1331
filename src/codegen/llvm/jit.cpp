#include "codegen/llvm/jit.h"

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>

#include <algorithm>

#include "codegen/llvm/link.h"
#include "codegen/llvm/machine.h"
#include "support/error.h"

namespace tw::codegen::cpu {
namespace {

namespace orc = ::llvm::orc;

void check(::llvm::Error error) {
  if (error) throw InternalError("LLVM JIT: " + ::llvm::toString(std::move(error)));
}

template <typename T>
T checked(::llvm::Expected<T> expected) {
  if (!expected) check(expected.takeError());
  return std::move(*expected);
}

}  // namespace

struct JitModule::Impl {
  struct Row {
    KernelEntry entry;
    KernelFunction function = nullptr;
  };
  std::unique_ptr<orc::LLJIT> jit;
  std::vector<Row> rows;

  const Row& row(std::string_view name) const {
    const auto it = std::ranges::find(rows, name, [](const Row& row) -> std::string_view { return row.entry.name; });
    TW_CHECK(it != rows.end(), "no kernel {}", name);
    return *it;
  }
};

JitModule::JitModule(const loop::Program& program, const CpuLevel& level, const EmitOptions& options)
    : impl_(std::make_unique<Impl>()) {
  Module module = emit(program, level, options);
  optimize(module);
  const MachineOutput output = generate(module, MachineFormat::kObject);
  check_no_imports(output.bytes);
  impl_->jit = checked(orc::LLJITBuilder().setPlatformSetUp(orc::setUpInactivePlatform).create());
  const ::llvm::StringRef object(output.bytes.data(), output.bytes.size());
  check(impl_->jit->addObjectFile(::llvm::MemoryBuffer::getMemBufferCopy(object, program.name)));
  for (const KernelInfo& info : module.kernels()) {
    const FrameInfo& frame = output.frames.at(info.name);
    const auto address = checked(impl_->jit->lookup(info.name));
    impl_->rows.push_back({{info.name, 0, 0, info.scratch_bytes, frame.stack_bytes, frame.vector_spills},
                           address.toPtr<KernelFunction>()});
  }
}

JitModule::JitModule(JitModule&&) noexcept = default;
JitModule& JitModule::operator=(JitModule&&) noexcept = default;
JitModule::~JitModule() = default;

KernelFunction JitModule::function(std::string_view name) const { return impl_->row(name).function; }
const KernelEntry& JitModule::kernel(std::string_view name) const { return impl_->row(name).entry; }

}  // namespace tw::codegen::cpu
