#include <algorithm>

#include "codegen/cuda/threads.h"

namespace tw::codegen {
namespace {

using loop::Stmt;
using loop::StmtKind;

// The statements of a tile: those in the lets, allocations and blocks around all of them.
class TileStatements {
 public:
  explicit TileStatements(const loop::Kernel& kernel) {
    tile_names_.insert(kernel.tile_var);
    add(kernel.body);
  }

  // What alone stores to `buffer`, if it is no more than copies of read-only tensors, the same in each tile.
  std::optional<Stmt> only_fill(const std::string& buffer, const loop::Kernel& kernel) const {
    std::optional<Stmt> fill;
    for (const Stmt& s : statements_) {
      if (!fills_any(s, {buffer})) continue;
      if (fill || !loop::is_thread_loop(s) || !is_alike(s, buffer, kernel)) return std::nullopt;
      fill = s;
    }
    return fill;
  }

  const std::vector<loop::Buffer>& buffers() const { return buffers_; }

 private:
  void add(const std::vector<Stmt>& stmts) {
    for (const Stmt& s : stmts) {
      if (s->kind == StmtKind::kLet && uses_tile(s->value)) tile_names_.insert(s->var);
      if (s->kind == StmtKind::kAllocate && s->allocated.scope != loop::Scope::kRegister)
        buffers_.push_back(s->allocated);
      runs_body_once(s) ? add(s->body) : statements_.push_back(s);
    }
  }

  bool uses_tile(const Expr& e) const {
    return std::ranges::any_of(tile_names_, [&](const std::string& name) { return uses_var(e, name); });
  }

  bool is_alike(const Stmt& fill, const std::string& buffer, const loop::Kernel& kernel) const {
    bool alike = true;
    loop::visit({fill}, [&](const Stmt& s) { alike = alike && (s->kind != StmtKind::kStore || s->buffer == buffer); });
    loop::visit_exprs({fill}, [&](const Expr& whole) {
      alike = alike && !uses_tile(whole);
      visit(whole, [&](const Expr& e) { alike = alike && (e.op() != Op::kLoad || is_read_only(kernel, e->name)); });
    });
    return alike;
  }

  std::set<std::string> tile_names_;  // of values that differ from tile to tile
  std::vector<loop::Buffer> buffers_;
  std::vector<Stmt> statements_;
};

}  // namespace

std::vector<OnceFilled> once_filled(const loop::Kernel& kernel) {
  const TileStatements tile(kernel);
  std::vector<OnceFilled> found;
  for (const loop::Buffer& buffer : tile.buffers()) {
    const std::optional<Stmt> fill = tile.only_fill(buffer.name, kernel);
    if (fill) found.push_back({buffer, *fill});
  }
  return found;
}

bool is_read_only(const loop::Kernel& kernel, const std::string& buffer) {
  return std::ranges::find(kernel.params, buffer, &loop::Buffer::name) != kernel.params.end() &&
         std::ranges::find(kernel.written, buffer) == kernel.written.end();
}

bool runs_body_once(const loop::Stmt& s) {
  return s->kind == StmtKind::kLet || s->kind == StmtKind::kAllocate || s->kind == StmtKind::kBlock;
}

bool fills_any(const loop::Stmt& s, const std::set<std::string>& buffers) {
  bool fills = false;
  loop::visit({s}, [&](const Stmt& inner) {
    fills = fills || (inner->kind == StmtKind::kStore && buffers.contains(inner->buffer));
  });
  return fills;
}

}  // namespace tw::codegen
