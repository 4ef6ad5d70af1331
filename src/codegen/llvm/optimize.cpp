// The IR passes. Measured: with explicit vectors in the IR the full -O3 pipeline gives micro-kernels no speed and
// doubles the compile time; what remains useful is promotion to SSA, common address parts and hoisting.
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include "codegen/llvm/module_impl.h"

namespace tw::codegen::cpu {
namespace {

::llvm::FunctionPassManager cheap_pipeline() {
  ::llvm::FunctionPassManager passes;
  passes.addPass(::llvm::SROAPass(::llvm::SROAOptions::ModifyCFG));
  passes.addPass(::llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(::llvm::InstCombinePass());
  passes.addPass(::llvm::SimplifyCFGPass());
  passes.addPass(
      ::llvm::createFunctionToLoopPassAdaptor(::llvm::LICMPass(::llvm::LICMOptions()), /*UseMemorySSA=*/true));
  passes.addPass(::llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  return passes;
}

}  // namespace

void optimize(Module& module) {
  Module::Impl& impl = module.impl();
  ::llvm::PassBuilder builder(impl.target.get());
  ::llvm::LoopAnalysisManager loops;
  ::llvm::FunctionAnalysisManager functions;
  ::llvm::CGSCCAnalysisManager sccs;
  ::llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  ::llvm::ModulePassManager passes;
  passes.addPass(::llvm::createModuleToFunctionPassAdaptor(cheap_pipeline()));
  passes.run(*impl.module, modules);
  throw_diagnostics(impl);
}

}  // namespace tw::codegen::cpu
