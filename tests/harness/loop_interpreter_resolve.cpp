#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "expr/elementary.h"
#include "support/error.h"
#include "tests/harness/loop_interpreter_code.h"

namespace tw::loop {
namespace {

class Resolver {
 public:
  Resolver(const Kernel& kernel, Memory& memory) : kernel_(kernel), memory_(memory), code_(std::make_unique<Code>()) {}

  std::unique_ptr<Code> run() {
    for (const Buffer& param : kernel_.params) bind_param(param);
    code_->vars.emplace_back();  // constants
    if (!kernel_.tile_var.empty()) code_->tile_var = declare_var(kernel_.tile_var, 1);
    code_->steps = steps(kernel_.body);
    return std::move(code_);
  }

 private:
  void bind_param(const Buffer& param) {
    const auto it = memory_.find(param.name);
    TW_CHECK(it != memory_.end(), "kernel {}: memory holds no {}", kernel_.name, param.name);
    HostBuffer& host = it->second;
    const auto elements = static_cast<size_t>(param.size());
    const size_t held = param.type.is_float() ? host.floats.size() : host.ints.size();
    TW_CHECK(host.type == param.type && held == elements,
             "kernel {}: {} is {} with {} elements in memory, not {} with {}", kernel_.name, param.name,
             to_string(host.type), held, to_string(param.type), elements);
    BufferSlot& slot = add_buffer(param);
    slot.bind(host);
    const bool written = std::ranges::find(kernel_.written, param.name) != kernel_.written.end();
    if (written && kernel_.tiles > 1) {
      slot.is_tracked = true;
      slot.writer.assign(elements, kNoTile);
      slot.reader.assign(elements, kNoTile);
    }
  }

  BufferSlot& add_buffer(const Buffer& buffer) {
    BufferSlot& slot = code_->buffers.emplace_back();
    slot.declared = &buffer;
    slot.strides = row_major_strides(buffer.shape);
    buffers_[buffer.name] = &slot;
    return slot;
  }

  Var* declare_var(const std::string& name, int lanes) {
    const size_t depth = code_->vars.size();
    return vars_[name] = &code_->vars.emplace_back(std::vector<Word>(lanes), depth);
  }

  std::vector<Step> steps(const std::vector<Stmt>& stmts) {
    std::vector<Step> out;
    for (const Stmt& stmt : stmts) append(*stmt, out);
    return out;
  }

  void append(const StmtNode& stmt, std::vector<Step>& out) {
    if (stmt.kind == StmtKind::kPrefetch) return;
    if (stmt.kind == StmtKind::kBlock) {
      for (const Stmt& inner : stmt.body) append(*inner, out);
      return;
    }
    nodes_.clear();
    Step step;
    step.stmt = &stmt;
    if (stmt.value) step.value = node(stmt.value);
    if (stmt.predicate) step.predicate = node(stmt.predicate);
    if (stmt.kind == StmtKind::kStore) {
      step.access = access(stmt.buffer, stmt.indices, stmt.value.type().lanes());
      step.active.resize(stmt.value.type().lanes());
    }
    if (stmt.kind == StmtKind::kFor) step.var = declare_var(stmt.var, 1);
    if (stmt.kind == StmtKind::kLet) step.var = declare_var(stmt.var, stmt.value.type().lanes());
    if (stmt.kind == StmtKind::kAllocate) step.allocated = &allocate(stmt.allocated);
    step.body = steps(stmt.body);
    step.otherwise = steps(stmt.otherwise);
    out.push_back(std::move(step));
  }

  BufferSlot& allocate(const Buffer& buffer) {
    BufferSlot& slot = add_buffer(buffer);
    const auto elements = static_cast<size_t>(buffer.size());
    if (buffer.type.is_float()) {
      slot.own.floats.resize(elements);
    } else {
      slot.own.ints.resize(elements);
    }
    slot.bind(slot.own);
    slot.is_tracked = true;
    slot.defined.resize(elements);
    return slot;
  }

  Access access(const std::string& name, std::span<const Expr> indices, int lanes) {
    Access access;
    access.slot = buffers_.at(name);
    for (size_t d = 0; d < indices.size(); ++d) {
      access.indices.push_back(node(indices[d]));
      (indices[d].type().is_vector() ? access.vector_dims : access.scalar_dims).push_back(d);
    }
    access.vectors.resize(indices.size());
    access.scalars.resize(indices.size());
    access.offsets.resize(lanes);
    return access;
  }

  Node* node(const Expr& e) {
    const auto known = nodes_.find(&*e);
    if (known != nodes_.end()) {
      share(*known->second);
      return known->second;
    }
    Node& made = code_->nodes.emplace_back();
    made.op = e.op();
    made.type = made.from = e.type().scalar();
    made.lanes = e.type().lanes();
    if (made.lanes > 1) made.out.resize(made.lanes);
    if (e.op() == Op::kLoad) {
      fill_load(*e, made);
    } else {
      for (const Expr& arg : e->args) made.args.push_back(node(arg));
      if (!e->args.empty()) made.from = e.arg(0).type().scalar();
      fill(*e, made);
      find_innermost(made);
    }
    nodes_.emplace(&*e, &made);
    return &made;
  }

  static void share(Node& node) {
    node.shared = true;
    if (node.lanes > 1) {
      node.done.resize(node.lanes);
      node.missing.resize(node.lanes);
    }
  }

  void find_innermost(Node& made) {
    if (made.op == Op::kVar) return;
    const Var* innermost = &code_->vars.front();
    for (const Node* arg : made.args) {
      if (arg->innermost == nullptr) return;
      if (arg->innermost->depth > innermost->depth) innermost = arg->innermost;
    }
    made.innermost = innermost;
    share(made);
  }

  void fill(const ExprNode& e, Node& made) {
    switch (e.op) {
      case Op::kIntImm:
        made.value = int_word(wrap_to(made.type, e.value));
        return;
      case Op::kFloatImm:
        made.value = float_word(e.number);
        return;
      case Op::kVar:
        made.innermost = vars_.at(e.name);
        made.var = made.innermost->lanes.data();
        return;
      case Op::kExtract:
        made.lane = e.value;
        return;
      case Op::kCall:
        made.function = find_elementary(e.name)->reference;
        return;
      case Op::kSelect:
        made.active.resize(made.lanes);
        made.others.resize(made.lanes);
        return;
      default:
        return;
    }
  }

  void fill_load(const ExprNode& e, Node& made) {
    const size_t rank = e.args.size() - (e.predicated ? 1 : 0);
    made.access = access(e.name, std::span(e.args).first(rank), made.lanes);
    if (e.predicated) made.predicate = node(e.args[rank]);
    made.active.resize(made.lanes);
  }

  const Kernel& kernel_;
  Memory& memory_;
  std::unique_ptr<Code> code_;
  std::unordered_map<std::string, BufferSlot*> buffers_;
  std::unordered_map<std::string, Var*> vars_;
  std::unordered_map<const ExprNode*, Node*> nodes_;  // of the current statement
};

}  // namespace

std::unique_ptr<Code> resolve(const Kernel& kernel, Memory& memory) { return Resolver(kernel, memory).run(); }

}  // namespace tw::loop
