// Loop IR: explicit loops over buffers; the only input of code generation.
//
// A Program is a list of kernels, run one after the other (one step each). A kernel has buffer parameters (in the order
// of its argument table), a tile loop and a body. The variable of the tile loop runs over [0, tiles); different tiles
// may run on different threads in any order and never write the same element.
// Buffers are row-major over their shape. A buffer of scope kRegister holds one vector or scalar per element of its
// shape and is addressed only by constants after unrolling: code generation turns it into SSA values. kStack lives in
// the tile, kScratch in the thread's scratch area; both are undefined at the start of a tile.
//
// A tile may have threads (a block of a GPU): a kThreads loop, or kThreads loops of which each is the only statement of
// the one around it, says that its turns are one thread each. They do not depend on one another, except that they may
// combine into one element (buffer[i] = buffer[i] op value, `i` the same in aligned runs of threads). What stands
// outside is done by all threads alike and stores nothing; one such loop is done when the next one begins. A kStack
// buffer that is allocated outside these loops is shared by the tile's threads. A kRegister buffer allocated there is
// each thread's own: dims whose index holds only variables of thread loops tell the thread, and the same thread uses
// an element in all loops.
//
// A kPipelined loop holds buffers, thread loops that fill them and read nothing that the others write, then the others.
// Iterations fill ahead: the buffers exist once for each of its stages.
//
// kMatrix loops, each the only statement of the one around it, are a step of a product of matrices that the threads of
// a warp, or of four, take together: what they say thread by thread is what one matrix instruction does.
//
// kBulk loops, likewise nested and outside of thread loops, copy a box of a tensor into a kStack buffer: what they say
// element by element is what TMA does by itself.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"
#include "expr/expr.h"
#include "loop/implementation.h"

namespace tw::loop {

enum class Scope : uint8_t { kParam, kScratch, kStack, kRegister };
enum class ForKind : uint8_t { kSerial, kUnrolled, kVectorized, kThreads, kMatrix, kBulk, kPipelined };

struct Buffer {
  std::string name;
  DataType type;  // element type, scalar
  Shape shape;    // extents in elements
  Scope scope = Scope::kParam;
  int64_t size() const { return num_elements(shape); }  // elements
};

enum class StmtKind : uint8_t { kFor, kLet, kStore, kIf, kBlock, kAllocate, kPrefetch };

class Stmt;
struct StmtNode {
  StmtKind kind;
  // kFor: for var in [0, extent) body. kVectorized loops have constant extents and are gone after "vectorize".
  std::string var = {};
  int64_t extent = 0;
  ForKind for_kind = ForKind::kSerial;
  int64_t stages = 1;  // kPipelined: iterations under way at once
  // kLet: `var` is `value` (any type) in `body`: takes the tile variable apart, holds a tuple between its stores.
  // kStore: buffer[indices] = value, where predicate holds (null: always). A vector store has a vector among its
  // indices. kPrefetch: the line that holds buffer[indices] into cache level `extent` (1, 2).
  // kAllocate: `allocated` exists in `body`. kIf: `predicate` decides `body` or `otherwise`.
  std::string buffer = {};
  std::vector<Expr> indices = {};
  Expr value = {};
  Expr predicate = {};
  Buffer allocated = {};
  std::vector<Stmt> body = {};       // kFor, kLet, kAllocate, kIf (then), kBlock: in order
  std::vector<Stmt> otherwise = {};  // kIf
};

class Stmt {
 public:
  Stmt() = default;
  explicit Stmt(std::shared_ptr<const StmtNode> node) : node_(std::move(node)) {}
  const StmtNode* operator->() const { return node_.get(); }
  const StmtNode& operator*() const { return *node_; }
  explicit operator bool() const { return node_ != nullptr; }
  bool same(const Stmt& other) const { return node_ == other.node_; }

 private:
  std::shared_ptr<const StmtNode> node_;
};

Stmt make_for(std::string var, int64_t extent, ForKind kind, std::vector<Stmt> body, int64_t stages = 1);
/// A loop of the kind of `like`.
Stmt make_for_like(const Stmt& like, std::string var, int64_t extent, std::vector<Stmt> body);
/// `let var = value in body`; the variable has the type of `value`.
Stmt make_let(std::string var, Expr value, std::vector<Stmt> body);
Stmt make_store(std::string buffer, std::vector<Expr> indices, Expr value, Expr predicate = Expr());
Stmt make_if(Expr condition, std::vector<Stmt> then, std::vector<Stmt> otherwise = {});
Stmt make_block(std::vector<Stmt> stmts);
Stmt make_allocate(Buffer buffer, std::vector<Stmt> body);
Stmt make_prefetch(std::string buffer, std::vector<Expr> indices, int level);

inline bool is_thread_loop(const Stmt& s) { return s->kind == StmtKind::kFor && s->for_kind == ForKind::kThreads; }
inline bool is_matrix_loop(const Stmt& s) { return s->kind == StmtKind::kFor && s->for_kind == ForKind::kMatrix; }
inline bool is_bulk_loop(const Stmt& s) { return s->kind == StmtKind::kFor && s->for_kind == ForKind::kBulk; }

/// The parts of a kPipelined loop: the stack buffers it allocates around everything else, the thread and bulk loops and
/// what is around them in front that store to nothing but those, and the rest.
struct PipelineParts {
  std::vector<Buffer> buffers;
  std::vector<Stmt> fill, use;
};
PipelineParts pipeline_parts(const StmtNode& loop);

struct Kernel {
  std::string name;
  std::vector<Buffer> params;
  std::vector<std::string> written;  // names of the params that the kernel writes
  std::string tile_var;              // empty: one tile
  int64_t tiles = 1;
  int64_t cluster = 1;  // tiles [c * cluster, (c + 1) * cluster) run at the same time: bulk copies alike are made once
  std::vector<Stmt> body;
  /// What computes the kernel instead of code for its body, which then only says what that is.
  Implementation implementation = {};
  // Not 0: a block on each of so many units walks over the tiles; block b does b, b + blocks(), .., `together` of them
  // at a time; of clusters whole ones, which do as many tiles as each other. What a pipelined loop fills ahead goes on
  // from one to the next. 0: every tile is a block.
  int64_t units = 0;
  int64_t together = 1;
  bool is_implemented() const { return static_cast<bool>(implementation); }
  int64_t blocks() const { return units > 0 ? std::min(units, tiles) : tiles; }
};

struct Program {
  std::string name;
  std::vector<Kernel> kernels;
};

// ---- Traversal: an empty function leaves that kind alone.
struct Rewriter {
  std::function<Expr(const Expr&)> expr;               // every expression of a statement, whole
  std::function<std::vector<Stmt>(const Stmt&)> stmt;  // after its children; returns what takes its place
};
std::vector<Stmt> rewrite(const std::vector<Stmt>& stmts, const Rewriter& rewriter);
/// Calls on every statement, outer before inner.
void visit(const std::vector<Stmt>& stmts, const std::function<void(const Stmt&)>& visit);
/// Calls on every expression held directly by a statement.
void visit_exprs(const std::vector<Stmt>& stmts, const std::function<void(const Expr&)>& visit);
std::vector<Stmt> substitute(const std::vector<Stmt>& stmts, const VarMap& values);

// ---- Checking and text (verifier.cpp, printer.cpp, parser.cpp).
struct VerifyRules {
  bool no_vector_loops = false;    // after "vectorize"
  bool no_unrolled_loops = false;  // after "unroll"
  /// Innermost loops hold a kFloorDiv or kFloorMod of their variable only by divisors of this number: 1 forbids them
  /// all, 0 none.
  int64_t inner_divisor = 0;
  bool no_elementary_calls = false;  // after "expand-elementary"
  bool register_constant_indices = false;
};
/// Throws InternalError at the first broken rule: unknown names, duplicate loop variables, types, ranks, scopes,
/// `rules`.
void verify(const Program& program, const VerifyRules& rules = {});
std::string to_string(const Program& program);
/// Inverse of to_string. Throws UserError with line and column.
Program parse_program(std::string_view text);

}  // namespace tw::loop
