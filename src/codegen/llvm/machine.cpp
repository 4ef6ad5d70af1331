#include "codegen/llvm/machine.h"

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/CodeGen/MachineFrameInfo.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/PseudoSourceValue.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <mutex>

#include "support/error.h"

namespace tw::codegen::cpu {
namespace {

constexpr uint64_t kVectorBytes = 16;  // the smallest vector register

bool touches_vector_slot(const ::llvm::MachineMemOperand& operand, const ::llvm::MachineFrameInfo& frame) {
  const ::llvm::PseudoSourceValue* pseudo = operand.getPseudoValue();
  const auto* slot = ::llvm::dyn_cast_or_null<::llvm::FixedStackPseudoSourceValue>(pseudo);
  if (!slot || !frame.isSpillSlotObjectIndex(slot->getFrameIndex())) return false;
  return operand.getSize().hasValue() && operand.getSize().getValue() >= kVectorBytes;
}

// Runs after frame layout, where spill slots are still known to the memory operands.
class FrameReader : public ::llvm::MachineFunctionPass {
 public:
  static char ID;
  explicit FrameReader(std::map<std::string, FrameInfo>& frames) : MachineFunctionPass(ID), frames_(frames) {}

  bool runOnMachineFunction(::llvm::MachineFunction& function) override {
    const ::llvm::MachineFrameInfo& frame = function.getFrameInfo();
    FrameInfo& info = frames_[function.getName().str()];
    info.stack_bytes = static_cast<int64_t>(frame.getStackSize());
    for (const auto& block : function) {
      for (const auto& instruction : block) {
        const auto spills = [&](const auto* operand) { return touches_vector_slot(*operand, frame); };
        info.vector_spills += ::llvm::any_of(instruction.memoperands(), spills) ? 1 : 0;
      }
    }
    return false;
  }
  void getAnalysisUsage(::llvm::AnalysisUsage& usage) const override {
    usage.setPreservesAll();
    MachineFunctionPass::getAnalysisUsage(usage);
  }
  ::llvm::StringRef getPassName() const override { return "Tilewright frame reader"; }

 private:
  std::map<std::string, FrameInfo>& frames_;
};
char FrameReader::ID = 0;

// LLVM would end the process. Its frames can be unwound; what they held is lost, but the caller reports the defect and
// ends in its own way.
[[noreturn]] void throw_fatal_error(void*, const char* reason, bool) { throw InternalError("LLVM: {}", reason); }

void initialise_target() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::llvm::install_fatal_error_handler(throw_fatal_error);
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
}

}  // namespace

std::unique_ptr<::llvm::LLVMTargetMachine> make_target_machine(const CpuLevel& level) {
  initialise_target();
  std::string problem;
  const ::llvm::Target* target = ::llvm::TargetRegistry::lookupTarget(level.triple, problem);
  TW_CHECK(target != nullptr, "LLVM: {}", problem);
  ::llvm::TargetOptions options;
  options.AllowFPOpFusion = ::llvm::FPOpFusion::Strict;  // an fma is where the IR says fma
  options.MCOptions.AsmVerbose = true;
  // Code may lie at any address: that of AArch64 finds its constants by their distance, within 1 MiB, not by pages.
  const bool by_distance = ::llvm::Triple(level.triple).isAArch64();
  auto* machine = target->createTargetMachine(level.triple, level.cpu, level.features, options, ::llvm::Reloc::PIC_,
                                              by_distance ? ::llvm::CodeModel::Tiny : ::llvm::CodeModel::Small,
                                              ::llvm::CodeGenOptLevel::Default);
  TW_CHECK(machine != nullptr, "LLVM has no code generator for {}", level.name);
  return std::unique_ptr<::llvm::LLVMTargetMachine>(static_cast<::llvm::LLVMTargetMachine*>(machine));
}

MachineOutput generate(Module& module, MachineFormat format) {
  Module::Impl& impl = module.impl();
  ::llvm::LLVMTargetMachine& machine = *impl.target;
  MachineOutput output;
  ::llvm::raw_svector_ostream stream(output.bytes);
  ::llvm::legacy::PassManager passes;
  passes.add(new ::llvm::TargetLibraryInfoWrapperPass(machine.getTargetTriple()));
  passes.add(::llvm::createTargetTransformInfoWrapperPass(machine.getTargetIRAnalysis()));
  ::llvm::TargetPassConfig* config = machine.createPassConfig(passes);
  config->setDisableVerify(true);
  // It makes trees of chains of integer sums: their partial sums do not fit beside a tile's accumulators.
  config->disablePass(&::llvm::MachineCombinerID);
  passes.add(config);
  auto* functions = new ::llvm::MachineModuleInfoWrapperPass(&machine);
  passes.add(functions);
  TW_CHECK(!config->addISelPasses(), "LLVM cannot select instructions");
  config->addMachinePasses();
  config->setInitialized();
  passes.add(new FrameReader(output.frames));
  const auto type =
      format == MachineFormat::kObject ? ::llvm::CodeGenFileType::ObjectFile : ::llvm::CodeGenFileType::AssemblyFile;
  const bool failed = machine.addAsmPrinter(passes, stream, nullptr, type, functions->getMMI().getContext());
  TW_CHECK(!failed, "LLVM cannot write an object");
  passes.add(::llvm::createFreeMachineFunctionPass());
  passes.run(*impl.module);
  throw_diagnostics(impl);
  return output;
}

}  // namespace tw::codegen::cpu
