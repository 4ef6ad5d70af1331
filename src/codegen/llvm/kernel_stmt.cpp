// Statements.
#include <llvm/IR/Intrinsics.h>

#include "codegen/llvm/kernel_emitter.h"
#include "support/error.h"

namespace tw::codegen::cpu {

using ::llvm::BasicBlock;
using loop::StmtKind;

namespace {

// A condition that is the same in every lane, as a scalar; others unchanged.
Expr peeled(const Expr& condition) { return condition.op() == Op::kBroadcast ? condition.arg(0) : condition; }

bool is_bounded(const Interval& range) { return range.lo > Interval::kMin && range.hi < Interval::kMax; }

}  // namespace

BasicBlock* KernelEmitter::new_block(const std::string& name) { return BasicBlock::Create(context_, name, function_); }

void KernelEmitter::statements(const std::vector<loop::Stmt>& stmts) {
  // Runs of stores, as unrolling makes them, share strided loads.
  const auto is_store = [](const loop::Stmt& s) { return s->kind == StmtKind::kStore && !s->predicate; };
  for (size_t i = 0; i < stmts.size();) {
    size_t end = i;
    while (end < stmts.size() && is_store(stmts[end])) ++end;
    find_column_blocks(std::span(stmts).subspan(i, end - i));
    end = std::max(end, i + 1);
    for (; i < end; ++i) statement(*stmts[i]);
  }
  column_blocks_.clear();
}

void KernelEmitter::statement(const loop::StmtNode& stmt) {
  begin_statement();
  switch (stmt.kind) {
    case StmtKind::kFor:
      return for_loop(stmt);
    case StmtKind::kLet:
      return let(stmt);
    case StmtKind::kStore:
      return store(stmt);
    case StmtKind::kIf:
      return if_then_else(stmt);
    case StmtKind::kBlock:
      return statements(stmt.body);
    case StmtKind::kAllocate:
      return allocate(stmt);
    case StmtKind::kPrefetch:
      return prefetch(stmt);
  }
  throw InternalError("statement of unknown kind");
}

void KernelEmitter::for_loop(const loop::StmtNode& stmt) {
  // A CPU's tile has one thread: turns of a loop of threads come one after the other, as the loop IR defines them.
  const bool lowered = stmt.for_kind == loop::ForKind::kSerial || stmt.for_kind == loop::ForKind::kThreads;
  TW_CHECK(lowered, "kernel {}: loop {} is not lowered", kernel_.name, stmt.var);
  if (stmt.extent <= 0) return;
  if (stmt.extent == 1) {
    open_scope(stmt.var, builder_.getInt64(0), {0, 0});
    statements(stmt.body);
    return close_scope(stmt.var);
  }
  analyzer_.bind(stmt.var, 0, stmt.extent);
  counted_loop(stmt.var, builder_.getInt64(0), builder_.getInt64(static_cast<uint64_t>(stmt.extent)),
               [&] { statements(stmt.body); });
}

// for name in [begin, end) body, with at least one iteration. The header holds the counter and the addresses.
void KernelEmitter::counted_loop(const std::string& name, Value* begin, Value* end, const std::function<void()>& body) {
  BasicBlock* before = builder_.GetInsertBlock();
  BasicBlock* header = new_block(name);
  builder_.CreateBr(header);
  builder_.SetInsertPoint(header);
  ::llvm::PHINode* counter = builder_.CreatePHI(builder_.getInt64Ty(), 2, name);
  counter->addIncoming(begin, before);
  BasicBlock* inside = new_block(name + ".body");
  builder_.CreateBr(inside);
  scopes_.push_back({header, {}});
  variables_[name] = {counter, scopes_.size() - 1};
  builder_.SetInsertPoint(inside);
  body();
  Value* next = builder_.CreateAdd(counter, builder_.getInt64(1), name + ".next", /*HasNUW=*/true, /*HasNSW=*/true);
  counter->addIncoming(next, builder_.GetInsertBlock());
  BasicBlock* after = new_block(name + ".done");
  auto* back = builder_.CreateCondBr(builder_.CreateICmpSLT(next, end), header, after);
  back->setMetadata(::llvm::LLVMContext::MD_loop, loop_metadata());
  builder_.SetInsertPoint(after);
  variables_.erase(name);
  if (!name.empty()) analyzer_.unbind(name);
  scopes_.pop_back();
}

// Unrolling and vectorising are the schedule's decisions.
::llvm::MDNode* KernelEmitter::loop_metadata() {
  const auto no_unroll = ::llvm::MDNode::get(context_, ::llvm::MDString::get(context_, "llvm.loop.unroll.disable"));
  const auto no_vectors = ::llvm::MDNode::get(context_, {::llvm::MDString::get(context_, "llvm.loop.vectorize.enable"),
                                                         ::llvm::ConstantAsMetadata::get(builder_.getFalse())});
  const auto loop = ::llvm::MDNode::getDistinct(context_, {nullptr, no_unroll, no_vectors});
  loop->replaceOperandWith(0, loop);
  return loop;
}

// From here on `var` is known; addresses that depend on it go to the end of the current block.
void KernelEmitter::open_scope(const std::string& var, Value* known, const Interval& range) {
  BasicBlock* header = builder_.GetInsertBlock();
  BasicBlock* inside = new_block(var + ".in");
  builder_.CreateBr(inside);
  builder_.SetInsertPoint(inside);
  scopes_.push_back({header, {}});
  variables_[var] = {known, scopes_.size() - 1};
  if (is_bounded(range)) analyzer_.bind(var, range.lo, range.hi - range.lo + 1);
}

void KernelEmitter::close_scope(const std::string& var) {
  analyzer_.unbind(var);
  variables_.erase(var);
  scopes_.pop_back();
}

void KernelEmitter::let(const loop::StmtNode& stmt) {
  const Interval range = stmt.value.type() == DataType::i64() ? analyzer_.bounds(stmt.value) : Interval{};
  open_scope(stmt.var, value(stmt.value), range);
  statements(stmt.body);
  close_scope(stmt.var);
}

void KernelEmitter::if_then_else(const loop::StmtNode& stmt) {
  Value* condition = value(stmt.predicate);
  BasicBlock* then = new_block("then");
  BasicBlock* otherwise = stmt.otherwise.empty() ? nullptr : new_block("else");
  BasicBlock* after = new_block("endif");
  builder_.CreateCondBr(condition, then, otherwise ? otherwise : after);
  builder_.SetInsertPoint(then);
  statements(stmt.body);
  builder_.CreateBr(after);
  if (otherwise) {
    builder_.SetInsertPoint(otherwise);
    statements(stmt.otherwise);
    builder_.CreateBr(after);
  }
  builder_.SetInsertPoint(after);
}

void KernelEmitter::store(const loop::StmtNode& stmt) {
  const auto perform = [&](Value* mask) {
    Value* stored = value(stmt.value);
    store_masked(access(stmt.buffer, stmt.indices, stmt.value.type().lanes()), stored, mask);
  };
  if (!stmt.predicate) return perform(nullptr);
  const Expr predicate = peeled(stmt.predicate);
  if (predicate.is_int(1)) return perform(nullptr);
  if (predicate.type().is_vector()) return perform(value(predicate));
  BasicBlock* then = new_block("store");
  BasicBlock* after = new_block("stored");
  builder_.CreateCondBr(value(predicate), then, after);
  builder_.SetInsertPoint(then);
  perform(nullptr);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

void KernelEmitter::prefetch(const loop::StmtNode& stmt) {
  constexpr unsigned kRead = 0;
  constexpr unsigned kDataCache = 1;
  const Access target = access(stmt.buffer, stmt.indices, 1);
  // LLVM's locality: 3 is the level next to the core.
  const auto locality = static_cast<unsigned>(std::clamp<int64_t>(4 - stmt.extent, 1, 3));
  builder_.CreateIntrinsic(
      ::llvm::Intrinsic::prefetch, {builder_.getPtrTy()},
      {pointer(target), builder_.getInt32(kRead), builder_.getInt32(locality), builder_.getInt32(kDataCache)});
}

}  // namespace tw::codegen::cpu
