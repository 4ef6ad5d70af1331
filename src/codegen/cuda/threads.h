// What the thread loops of a kernel mean for a block's threads. Private to src/codegen/cuda.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "loop/loop.h"

namespace tw::codegen {

/// Thread loops nested in each other: turn (t0, t1, ..) of them is thread t0 * extent1 * .. + t1 * .. + ..
struct ThreadGroup {
  std::vector<loop::Stmt> loops;  // outermost first
  int64_t threads = 1;
  const std::vector<loop::Stmt>& body() const { return loops.back()->body; }
};

ThreadGroup thread_group(const loop::Stmt& outermost);

/// The turns of a group's loops that are thread number `thread`.
VarMap thread_values(const ThreadGroup& group, int64_t thread);

/// Calls `visit` on every statement, with the conditions around it in `guards`.
void visit_guarded(const std::vector<loop::Stmt>& stmts, std::vector<Expr>& guards,
                   const std::function<void(const loop::Stmt&)>& visit);

/// The outermost statements under `stmts` for which `is` holds.
std::vector<loop::Stmt> outermost(const std::vector<loop::Stmt>& stmts,
                                  const std::function<bool(const loop::Stmt&)>& is);

/// Threads of the largest group under `stmts`; 0 without thread loops.
int64_t max_threads(const std::vector<loop::Stmt>& stmts);

/// What the threads of a group combine into: buffer[indices] = buffer[indices] op value, the same element in aligned
/// runs of `run` threads.
struct Combination {
  std::string buffer;
  std::vector<Expr> indices;
  DataType type;
  Op op = Op::kAdd;
  int64_t run = 1;
};

/// The combination that a group is; nothing when each thread stores elements of its own. Throws InternalError when
/// threads store to the same element in another way.
std::optional<Combination> combination_of(const ThreadGroup& group);

/// For a register buffer that is allocated in `scope` outside of thread loops: the dims that tell the thread. Threads
/// may have a copy each of one element, if all that is stored there are constants and what they combine. Throws
/// InternalError when they use one element in another way, or other threads in different loops.
std::vector<bool> thread_dims(const loop::Buffer& buffer, const std::vector<loop::Stmt>& scope);

// ---- What a block that walks over tiles does once for all of them (once.cpp).

/// A buffer of the block's shared memory, and the thread loops that fill it.
struct OnceFilled {
  loop::Buffer buffer;
  loop::Stmt fill;
};

/// The buffers that every tile of `kernel` fills with the same values, all by one statement, before others read them.
std::vector<OnceFilled> once_filled(const loop::Kernel& kernel);

/// Whether a buffer is a parameter that the kernel does not write.
bool is_read_only(const loop::Kernel& kernel, const std::string& buffer);

/// Whether `s` runs its body once, whatever it does besides.
bool runs_body_once(const loop::Stmt& s);

/// Whether `s` stores to one of `buffers`.
bool fills_any(const loop::Stmt& s, const std::set<std::string>& buffers);

}  // namespace tw::codegen
