// Emits one kernel. Private to codegen/llvm.
//
// Addresses: base + one GEP per loop variable, each placed in the header of that variable's loop (so it is computed
// once per iteration of it and shared by every access with the same variable part) + one constant GEP, the
// displacement. Register buffers are allocas that SROA turns into SSA values; all their offsets are constants. Loads
// that a select protects are made safe in one of three ways: in bounds for every value of the loop variables (then
// nothing is needed), behind a branch (scalar condition), or masked (vector condition).
#pragma once
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/llvm/arith.h"
#include "codegen/llvm/linear_index.h"
#include "codegen/llvm/module.h"
#include "codegen/llvm/types.h"
#include "expr/analyzer.h"
#include "loop/loop.h"

namespace tw::codegen::cpu {

class KernelEmitter {
 public:
  KernelEmitter(::llvm::Module& module, const loop::Kernel& kernel, const CpuLevel& level, const EmitOptions& options);
  KernelInfo run();

 private:
  struct BufferState {
    const loop::Buffer* info = nullptr;
    Value* base = nullptr;
    int64_t alignment = 1;                   // of base, bytes
    ::llvm::Metadata* scope = nullptr;       // its alias scope; null for register buffers
    ::llvm::MDNode* alias_scopes = nullptr;  // { scope }
    ::llvm::MDNode* noalias = nullptr;       // scopes of the buffers that share no memory with it
  };
  struct Variable {
    Value* value = nullptr;
    size_t depth = 0;  // of the address scope in which it is known
  };
  // Where addresses that depend on the variables up to one depth are placed: before the end of `header`.
  struct AddressScope {
    ::llvm::BasicBlock* header = nullptr;
    std::map<std::tuple<Value*, Value*, int64_t>, Value*> offsets;  // (pointer, variable, bytes) -> pointer
  };
  // One access, ready to be performed.
  struct Access {
    const BufferState* buffer = nullptr;
    LinearIndex index;
    DataType type;  // of the element, with the lanes of the access
  };
  // Strided loads of neighbouring elements: the columns of a block whose rows are contiguous.
  struct ColumnBlock {
    Access first;                 // the load of column 0
    std::vector<Value*> columns;  // empty until one is used
  };
  using Emit = std::function<Value*()>;

  // ---- Function and buffers (kernel_emitter.cpp).
  void make_function();
  void add_attributes();
  void declare_params();
  BufferState declare(const loop::Buffer& buffer, Value* base, int64_t alignment);
  const BufferState& buffer(const std::string& name) const;
  Value* stack_memory(const loop::Buffer& buffer);
  void allocate(const loop::StmtNode& stmt);

  // ---- Statements (kernel_stmt.cpp).
  void statements(const std::vector<loop::Stmt>& stmts);
  void statement(const loop::StmtNode& stmt);
  void for_loop(const loop::StmtNode& stmt);
  void counted_loop(const std::string& name, Value* begin, Value* end, const std::function<void()>& body);
  void open_scope(const std::string& var, Value* value, const Interval& range);
  void close_scope(const std::string& var);
  void let(const loop::StmtNode& stmt);
  void if_then_else(const loop::StmtNode& stmt);
  void store(const loop::StmtNode& stmt);
  void prefetch(const loop::StmtNode& stmt);
  ::llvm::BasicBlock* new_block(const std::string& name);
  ::llvm::MDNode* loop_metadata();

  // ---- Expressions (kernel_expr.cpp). Each node is emitted once per statement (and branch of a guarded select).
  void begin_statement();
  Value* value(const Expr& e);
  Value* compute(const Expr& e);
  Value* compute_vector(const Expr& e);
  Value* binary(const Expr& e);
  Value* lane_comparison(const Expr& e);
  Value* word_product(const Expr& e);
  Value* select(const Expr& e);
  /// `then` where `condition` (a scalar) holds, else `otherwise`; only the one taken is evaluated.
  Value* branch(Value* condition, const Emit& then, const Emit& otherwise);
  Value* under_mask(Value* mask, const Emit& emit);
  Value* any_lane(Value* mask);
  bool needs_guard(const Expr& e);
  bool find_needs_guard(const Expr& e);

  // ---- Memory (kernel_memory.cpp).
  Access access(const std::string& name, std::span<const Expr> indices, int lanes);
  Value* load(const Expr& e);
  Value* load_masked(const Access& access, Value* mask);
  Value* load_once(const Access& access, Value* mask);
  Value* load_run(const Access& access, Value* mask);
  Value* gather(const Access& access, Value* mask);
  Value* load_strided(const Access& access, Value* mask);
  Value* load_every_second(const Access& access, const std::vector<int>& lanes);
  static std::optional<std::vector<int>> known_lanes(Value* mask, int lanes);
  void store_masked(const Access& access, Value* value, Value* mask);
  void scatter(const Access& access, Value* value, Value* mask);
  Value* pointer(const Access& access, int64_t first_lane = 0);
  Value* offset_by(Value* base, Value* variable, int64_t bytes);
  Value* lane_pointers(const Access& access);
  ::llvm::Align alignment(const Access& access, int64_t first_lane = 0) const;
  bool in_bounds(const Access& access) const;
  static bool is_register(const Access& access) { return access.buffer->info->scope == loop::Scope::kRegister; }
  Value* reversed(Value* vector);
  template <typename Instruction>
  Instruction* tagged(const Access& access, Instruction* instruction) {
    if (access.buffer->alias_scopes)
      instruction->setMetadata(::llvm::LLVMContext::MD_alias_scope, access.buffer->alias_scopes);
    if (access.buffer->noalias) instruction->setMetadata(::llvm::LLVMContext::MD_noalias, access.buffer->noalias);
    return instruction;
  }

  // ---- Strided loads that share what they read (kernel_columns.cpp).
  std::vector<Access> strided_reads(std::span<const loop::Stmt> stmts);
  void find_column_blocks(std::span<const loop::Stmt> stmts);
  void add_column_blocks(const Access& access, std::vector<int64_t> places);
  void load_columns(ColumnBlock& block);
  Value* column(const Access& source);
  Value* concatenated(std::vector<Value*> parts);

  ::llvm::Module& module_;
  ::llvm::LLVMContext& context_;
  const loop::Kernel& kernel_;
  const CpuLevel& level_;
  const EmitOptions& options_;
  Builder builder_;
  ::llvm::MDBuilder metadata_;
  ::llvm::MDNode* alias_domain_ = nullptr;
  ::llvm::Function* function_ = nullptr;
  ::llvm::BasicBlock* entry_ = nullptr;
  std::unordered_map<std::string, BufferState> buffers_;
  std::vector<::llvm::Metadata*> live_scopes_;  // of all buffers that exist at this point and share no memory
  int64_t scratch_top_ = 0;                     // bytes of scratch in use at this point
  int64_t scratch_bytes_ = 0;                   // most bytes in use at any point

  std::unordered_map<std::string, Variable> variables_;
  std::vector<AddressScope> scopes_;
  Analyzer analyzer_;

  std::vector<std::unordered_map<const ExprNode*, Value*>> memo_;
  std::unordered_map<const ExprNode*, bool> guard_memo_;
  std::vector<ColumnBlock> column_blocks_;  // of the run of stores that is emitted
  Value* mask_ = nullptr;                   // vector select around the expression: lanes that count
};

}  // namespace tw::codegen::cpu
