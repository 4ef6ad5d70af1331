#include "codegen/llvm/emit.h"

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "codegen/llvm/kernel_emitter.h"
#include "codegen/llvm/module_impl.h"
#include "support/error.h"

namespace tw::codegen::cpu {
namespace {

// LLVM's default handler prints and ends the process.
void collect_diagnostic(const ::llvm::DiagnosticInfo* info, void* impl) {
  if (info->getSeverity() != ::llvm::DS_Error) return;
  ::llvm::raw_string_ostream out(static_cast<Module::Impl*>(impl)->diagnostics);
  ::llvm::DiagnosticPrinterRawOStream printer(out);
  info->print(printer);
  out << '\n';
}

}  // namespace

void throw_diagnostics(const Module::Impl& impl) {
  if (!impl.diagnostics.empty()) throw InternalError("LLVM: " + impl.diagnostics);
}

Module emit(const loop::Program& program, const CpuLevel& level, const EmitOptions& options) {
  auto impl = std::make_unique<Module::Impl>();
  impl->level = level;
  impl->context.setDiagnosticHandlerCallBack(collect_diagnostic, impl.get());
  impl->target = make_target_machine(level);
  impl->module = std::make_unique<::llvm::Module>(program.name, impl->context);
  impl->module->setTargetTriple(impl->target->getTargetTriple().str());
  impl->module->setDataLayout(impl->target->createDataLayout());
  impl->module->setPICLevel(::llvm::PICLevel::BigPIC);
  for (const loop::Kernel& kernel : program.kernels) {
    impl->kernels.push_back(KernelEmitter(*impl->module, kernel, level, options).run());
  }
  std::string problem;
  ::llvm::raw_string_ostream out(problem);
  const bool broken = ::llvm::verifyModule(*impl->module, &out);
  TW_CHECK(!broken, "program {}: LLVM IR is not well formed: {}", program.name, problem);
  return Module(std::move(impl));
}

}  // namespace tw::codegen::cpu
