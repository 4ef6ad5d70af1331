// The function of a kernel, its attributes and its buffers.
#include "codegen/llvm/kernel_emitter.h"

#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>

#include "support/error.h"
#include "support/math.h"

namespace tw::codegen::cpu {
namespace {

constexpr int64_t kAllocationAlignment = 64;  // bytes: one cache line, one 512-bit vector

enum Argument : unsigned { kBuffers, kScratch, kTileBegin, kTileEnd };

}  // namespace

KernelEmitter::KernelEmitter(::llvm::Module& module, const loop::Kernel& kernel, const CpuLevel& level,
                             const EmitOptions& options)
    : module_(module),
      context_(module.getContext()),
      kernel_(kernel),
      level_(level),
      options_(options),
      builder_(context_),
      metadata_(context_) {}

KernelInfo KernelEmitter::run() {
  make_function();
  declare_params();
  ::llvm::BasicBlock* start = new_block("start");
  builder_.CreateBr(start);
  scopes_.push_back({entry_, {}});
  builder_.SetInsertPoint(start);

  ::llvm::BasicBlock* some = new_block("tiles");
  ::llvm::BasicBlock* done = new_block("done");
  Value* begin = function_->getArg(kTileBegin);
  Value* end = function_->getArg(kTileEnd);
  builder_.CreateCondBr(builder_.CreateICmpSLT(begin, end), some, done);
  builder_.SetInsertPoint(some);
  if (!kernel_.tile_var.empty()) analyzer_.bind(kernel_.tile_var, 0, kernel_.tiles);
  counted_loop(kernel_.tile_var, begin, end, [&] { statements(kernel_.body); });
  builder_.CreateBr(done);
  builder_.SetInsertPoint(done);
  builder_.CreateRetVoid();
  return {kernel_.name, round_up(scratch_bytes_, kAllocationAlignment)};
}

void KernelEmitter::make_function() {
  ::llvm::Type* pointer = builder_.getPtrTy();
  ::llvm::Type* index = builder_.getInt64Ty();
  auto* type = ::llvm::FunctionType::get(builder_.getVoidTy(), {pointer, pointer, index, index}, false);
  TW_CHECK(!module_.getFunction(kernel_.name), "kernel {}: the name is used twice", kernel_.name);
  function_ = ::llvm::Function::Create(type, ::llvm::GlobalValue::ExternalLinkage, kernel_.name, module_);
  function_->setDSOLocal(true);
  function_->setAlignment(::llvm::Align(kAllocationAlignment));
  add_attributes();
  entry_ = new_block("entry");
  builder_.SetInsertPoint(entry_);
}

void KernelEmitter::add_attributes() {
  function_->addFnAttr("target-cpu", level_.cpu);
  if (!level_.features.empty()) function_->addFnAttr("target-features", level_.features);
  if (level_.vector_bytes == 64) {
    // Without these LLVM splits 512-bit vectors in two: for the preference of the CPU's model, or because no type of
    // the signature asks for them.
    function_->addFnAttr("prefer-vector-width", "512");
    function_->addFnAttr("min-legal-vector-width", "512");
  }
  function_->addFnAttr("no-builtins");
  function_->setDoesNotThrow();
  function_->addParamAttr(kBuffers, ::llvm::Attribute::ReadOnly);
  function_->addParamAttr(kBuffers, ::llvm::Attribute::NoCapture);
  function_->addParamAttr(kScratch, ::llvm::Attribute::NoAlias);
  alias_domain_ = metadata_.createAnonymousAliasScopeDomain(kernel_.name);
}

void KernelEmitter::declare_params() {
  Value* table = function_->getArg(kBuffers);
  std::vector<BufferState*> params;
  for (size_t i = 0; i < kernel_.params.size(); ++i) {
    const loop::Buffer& param = kernel_.params[i];
    Value* slot = builder_.CreateConstInBoundsGEP1_64(builder_.getPtrTy(), table, i);
    Value* base = builder_.CreateAlignedLoad(builder_.getPtrTy(), slot, ::llvm::Align(8), param.name);
    BufferState state = declare(param, base, options_.param_alignment);
    if (options_.aliasing == ParamAliasing::kDistinct) live_scopes_.push_back(state.scope);
    buffers_[param.name] = state;
  }
  if (options_.aliasing == ParamAliasing::kMayOverlap) {
    for (const loop::Buffer& param : kernel_.params) live_scopes_.push_back(buffers_.at(param.name).scope);
  }
}

// `buffer` at `base`; it shares no memory with the buffers of live_scopes_.
KernelEmitter::BufferState KernelEmitter::declare(const loop::Buffer& buffer, Value* base, int64_t alignment) {
  BufferState state{.info = &buffer, .base = base, .alignment = alignment};
  if (buffer.scope == loop::Scope::kRegister) return state;
  ::llvm::MDNode* scope = metadata_.createAnonymousAliasScope(alias_domain_, buffer.name);
  state.scope = scope;
  state.alias_scopes = ::llvm::MDNode::get(context_, {state.scope});
  if (!live_scopes_.empty()) state.noalias = ::llvm::MDNode::get(context_, live_scopes_);
  return state;
}

const KernelEmitter::BufferState& KernelEmitter::buffer(const std::string& name) const {
  const auto it = buffers_.find(name);
  TW_CHECK(it != buffers_.end(), "kernel {}: unknown buffer {}", kernel_.name, name);
  return it->second;
}

Value* KernelEmitter::stack_memory(const loop::Buffer& buffer) {
  auto bytes = static_cast<uint64_t>(std::max<int64_t>(buffer.size(), 1) * buffer.type.bytes());
  // Masked accesses to register buffers are whole vectors, which may end beyond the last element.
  if (buffer.scope == loop::Scope::kRegister) bytes += kAllocationAlignment;
  Builder at_entry(entry_, entry_->begin());
  auto* memory = at_entry.CreateAlloca(::llvm::ArrayType::get(builder_.getInt8Ty(), bytes), nullptr, buffer.name);
  memory->setAlignment(::llvm::Align(kAllocationAlignment));
  return memory;
}

// Scratch buffers nest like the statements do: those of sibling statements share memory.
void KernelEmitter::allocate(const loop::StmtNode& stmt) {
  const loop::Buffer& made = stmt.allocated;
  const int64_t top = scratch_top_;
  Value* base = nullptr;
  if (made.scope == loop::Scope::kScratch) {
    const int64_t offset = round_up(scratch_top_, kAllocationAlignment);
    scratch_top_ = offset + made.size() * made.type.bytes();
    scratch_bytes_ = std::max(scratch_bytes_, scratch_top_);
    Builder at_entry(entry_, entry_->getTerminator()->getIterator());
    base =
        at_entry.CreateConstGEP1_64(builder_.getInt8Ty(), function_->getArg(kScratch), static_cast<uint64_t>(offset));
  } else {
    TW_CHECK(made.scope != loop::Scope::kParam, "kernel {}: {} of scope param is allocated", kernel_.name, made.name);
    base = stack_memory(made);
  }
  const BufferState state = declare(made, base, kAllocationAlignment);
  const bool tracked = state.scope != nullptr;
  if (tracked) live_scopes_.push_back(state.scope);
  TW_CHECK(buffers_.emplace(made.name, state).second, "kernel {}: {} exists twice", kernel_.name, made.name);
  statements(stmt.body);
  buffers_.erase(made.name);
  if (tracked) live_scopes_.pop_back();
  scratch_top_ = top;
}

}  // namespace tw::codegen::cpu
