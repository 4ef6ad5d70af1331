// Checks the rules of loop.h, and the typing rules of expr.h with the names that a kernel has in scope.

#include <algorithm>
#include <unordered_set>

#include "loop/expr_verifier.h"
#include "loop/text.h"
#include "support/error.h"

namespace tw::loop {
namespace {

class KernelVerifier {
 public:
  KernelVerifier(const Kernel& kernel, const VerifyRules& rules)
      : kernel_(kernel), rules_(rules), exprs_(names_, rules) {}

  void run() {
    try {
      signature();
      has_threads_ = any_threads(kernel_.body);
      list(kernel_.body);
    } catch (const BrokenRule& rule) {
      const std::string where = current_ && rule.printable ? fmt::format("in '{}': ", short_text(*current_)) : "";
      throw InternalError("kernel {}: {}{}", kernel_.name, where, rule.message);
    }
  }

 private:
  void signature() {
    for (const Buffer& param : kernel_.params) {
      TW_RULE(param.scope == Scope::kParam, "parameter {} has the scope {}", param.name, scope_name(param.scope));
      declare_buffer(param);
    }
    std::unordered_set<std::string> seen;
    for (const std::string& name : kernel_.written) {
      TW_RULE(names_.buffers.contains(name), "'{}' is written but no parameter", name);
      TW_RULE(seen.insert(name).second, "'{}' is twice among the written parameters", name);
    }
    TW_RULE(kernel_.tiles >= 0, "{} tiles", kernel_.tiles);
    TW_RULE(kernel_.cluster >= 1 && kernel_.tiles % kernel_.cluster == 0, "{} tiles in clusters of {}", kernel_.tiles,
            kernel_.cluster);
    TW_RULE(kernel_.units >= 0 && kernel_.units % kernel_.cluster == 0 && kernel_.together >= 1 &&
                (kernel_.units > 0 || kernel_.together == 1),
            "{} units, {} tiles together, in clusters of {}", kernel_.units, kernel_.together, kernel_.cluster);
    TW_RULE(!kernel_.tile_var.empty() || kernel_.tiles == 1, "{} tiles without a tile variable", kernel_.tiles);
    if (!kernel_.tile_var.empty()) declare_var(kernel_.tile_var, DataType::i64());
  }

  void declare_buffer(const Buffer& buffer) {
    TW_RULE(!buffer.name.empty(), "a buffer has no name");
    TW_RULE(!buffer.type.is_vector(), "buffer {} has the vector type {} as element", buffer.name,
            to_string(buffer.type));
    for (int64_t extent : buffer.shape) TW_RULE(extent >= 0, "buffer {} has the extent {}", buffer.name, extent);
    TW_RULE(names_.buffers.emplace(buffer.name, &buffer).second, "buffer {} is declared twice", buffer.name);
  }

  void declare_var(const std::string& name, DataType type) {
    TW_RULE(!name.empty(), "a variable has no name");
    TW_RULE(names_.vars.emplace(name, type).second, "variable {} is declared twice", name);
  }

  void list(const std::vector<Stmt>& stmts) {
    for (const Stmt& stmt : stmts) {
      TW_RULE(bool(stmt), "a null statement");
      statement(*stmt);
    }
  }

  // Checks one statement; `current_` is the innermost one, whose text errors quote.
  void statement(const StmtNode& stmt) {
    const StmtNode* outer = std::exchange(current_, &stmt);
    exprs_.start_statement();
    check(stmt);
    current_ = outer;
  }

  void check(const StmtNode& stmt) {
    switch (stmt.kind) {
      case StmtKind::kFor:
        return loop(stmt);
      case StmtKind::kLet:
        return let(stmt);
      case StmtKind::kStore:
        return store(stmt);
      case StmtKind::kIf:
        return branches(stmt);
      case StmtKind::kBlock:
        return list(stmt.body);
      case StmtKind::kAllocate:
        return allocate(stmt);
      case StmtKind::kPrefetch:
        return prefetch(stmt);
    }
  }

  void loop(const StmtNode& stmt) {
    TW_RULE(stmt.extent >= 0, "a loop of extent {}", stmt.extent);
    TW_RULE(stmt.for_kind != ForKind::kVectorized || !rules_.no_vector_loops, "no vectorized loop may be left here");
    TW_RULE(stmt.for_kind != ForKind::kUnrolled || !rules_.no_unrolled_loops, "no unrolled loop may be left here");
    declare_var(stmt.var, DataType::i64());
    if (stmt.for_kind == ForKind::kThreads) {
      threads(stmt);
    } else if (stmt.for_kind == ForKind::kMatrix) {
      matrix(stmt);
    } else if (stmt.for_kind == ForKind::kBulk) {
      bulk(stmt);
    } else if (stmt.for_kind == ForKind::kPipelined) {
      pipelined(stmt);
    } else {
      list(stmt.body);
    }
    if (rules_.inner_divisor != 0 && is_innermost(stmt)) check_divisions(stmt);
    names_.vars.erase(stmt.var);
  }

  static bool any_threads(const std::vector<Stmt>& stmts) {
    return std::ranges::any_of(stmts, [](const Stmt& s) {
      return s && (is_thread_loop(s) || any_threads(s->body) || any_threads(s->otherwise));
    });
  }

  // Thread loops are nested in each other without anything in between.
  void threads(const StmtNode& stmt) {
    TW_RULE(names_.thread_vars.empty() || only_threads_, "a loop of threads among what one thread does");
    only_threads_ = stmt.body.size() == 1 && is_thread_loop(stmt.body.front());
    names_.thread_vars.insert(stmt.var);
    list(stmt.body);
    names_.thread_vars.erase(stmt.var);
    only_threads_ = false;
  }

  void pipelined(const StmtNode& stmt) {
    const PipelineParts parts = pipeline_parts(stmt);
    TW_RULE(!parts.buffers.empty() && !parts.fill.empty() && !parts.use.empty(),
            "a pipelined loop without buffers, what fills them and what uses them");
    std::unordered_set<std::string> used_up;
    visit(parts.use, [&](const Stmt& s) {
      if (s->kind == StmtKind::kStore) used_up.insert(s->buffer);
    });
    const auto check = [&](const Expr& whole) {
      tw::visit(whole, [&](const Expr& e) {
        TW_RULE(e.op() != Op::kLoad || !used_up.contains(e->name), "a pipelined loop fills from {}, which it writes",
                e->name);
      });
    };
    visit_exprs(parts.fill, check);
    list(stmt.body);
  }

  void matrix(const StmtNode& stmt) {
    const bool whole =
        stmt.body.size() == 1 && (stmt.body[0]->kind == StmtKind::kStore || is_matrix_loop(stmt.body[0]));
    TW_RULE(whole, "a loop of a matrix step around anything but one store");
    names_.matrix_vars.insert(stmt.var);
    list(stmt.body);
    names_.matrix_vars.erase(stmt.var);
  }

  void bulk(const StmtNode& stmt) {
    const bool whole = stmt.body.size() == 1 && (stmt.body[0]->kind == StmtKind::kStore || is_bulk_loop(stmt.body[0]));
    TW_RULE(whole, "a bulk loop around anything but one store");
    TW_RULE(names_.thread_vars.empty(), "a bulk loop among what one thread does");
    const bool outermost = !std::exchange(in_bulk_, true);
    list(stmt.body);
    in_bulk_ = !outermost;
  }

  // Loops to be unrolled or vectorised are gone in the code: they hold constants, not loops.
  static bool is_innermost(const StmtNode& stmt) {
    if (stmt.for_kind != ForKind::kSerial) return false;
    bool innermost = true;
    visit(stmt.body, [&](const Stmt& inner) {
      innermost = innermost && (inner->kind != StmtKind::kFor || inner->for_kind != ForKind::kSerial);
    });
    return innermost;
  }

  void check_divisions(const StmtNode& loop) {
    MovingDivision moving(loop.var, rules_.inner_divisor);
    visit(loop.body, [&](const Stmt& inner) {
      current_ = &*inner;
      for (const Expr& index : inner->indices) moving.check(index);
      if (inner->value) moving.check(inner->value);
      if (inner->predicate) moving.check(inner->predicate);
      if (inner->kind == StmtKind::kLet) moving.bind(inner->var, inner->value);
    });
    current_ = &loop;
  }

  void let(const StmtNode& stmt) {
    TW_RULE(bool(stmt.value), "a let without a value");
    exprs_.check(stmt.value);
    declare_var(stmt.var, stmt.value.type());
    list(stmt.body);
    names_.vars.erase(stmt.var);
  }

  void store(const StmtNode& stmt) {
    const Buffer& buffer = exprs_.check_access(stmt.buffer, stmt.indices);
    const bool is_param = buffer.scope == Scope::kParam;
    const bool may_write = !is_param || std::ranges::find(kernel_.written, buffer.name) != kernel_.written.end();
    TW_RULE(may_write, "the kernel does not list {} as written", buffer.name);
    TW_RULE(!has_threads_ || in_bulk_ || !names_.thread_vars.empty(), "a store that no thread does alone");
    TW_RULE(!in_bulk_ || buffer.scope == Scope::kStack, "a bulk copy into {}, which lies in no stack", buffer.name);
    TW_RULE(bool(stmt.value), "a store without a value");
    exprs_.check(stmt.value);
    const DataType place = buffer.type.with_lanes(lanes_of(stmt.indices));
    TW_RULE(stmt.value.type() == place, "the value is {}, the place {}", to_string(stmt.value.type()),
            to_string(place));
    if (stmt.predicate) exprs_.check_predicate(stmt.predicate, place.lanes());
  }

  void branches(const StmtNode& stmt) {
    TW_RULE(bool(stmt.predicate), "an if without a condition");
    exprs_.check_predicate(stmt.predicate, 1);
    list(stmt.body);
    list(stmt.otherwise);
  }

  void allocate(const StmtNode& stmt) {
    TW_RULE(stmt.allocated.scope != Scope::kParam, "buffer {} of scope param is allocated", stmt.allocated.name);
    declare_buffer(stmt.allocated);
    list(stmt.body);
    names_.buffers.erase(stmt.allocated.name);
  }

  void prefetch(const StmtNode& stmt) {
    const Buffer& buffer = exprs_.check_access(stmt.buffer, stmt.indices);
    TW_RULE(lanes_of(stmt.indices) == 1, "a prefetch of a vector of addresses");
    TW_RULE(stmt.extent == 1 || stmt.extent == 2, "a prefetch into cache level {}", stmt.extent);
    TW_RULE(buffer.scope != Scope::kRegister, "a prefetch of the register buffer {}", buffer.name);
  }

  const Kernel& kernel_;
  const VerifyRules& rules_;
  NamesInScope names_;
  ExprVerifier exprs_;
  const StmtNode* current_ = nullptr;
  bool has_threads_ = false;   // somewhere in the kernel
  bool only_threads_ = false;  // the loop of threads at hand holds nothing but another one
  bool in_bulk_ = false;
};

}  // namespace

void verify(const Program& program, const VerifyRules& rules) {
  std::unordered_set<std::string> names;
  for (const Kernel& kernel : program.kernels) {
    if (kernel.name.empty()) throw InternalError("program {}: a kernel has no name", program.name);
    if (!names.insert(kernel.name).second) throw InternalError("kernel {}: the name is used twice", kernel.name);
    KernelVerifier(kernel, rules).run();
  }
}

}  // namespace tw::loop
