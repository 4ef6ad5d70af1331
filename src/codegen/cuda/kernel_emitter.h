// Emits one kernel. Private to codegen/cuda.
#pragma once
#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "codegen/cuda/emit_expr.h"
#include "codegen/cuda/matrix.h"
#include "codegen/cuda/source.h"
#include "codegen/cuda/threads.h"

namespace tw::codegen {

using loop::Stmt;
using loop::StmtKind;

inline constexpr int64_t kMaxThreads = 1024;   // threads of a block
inline constexpr int64_t kSharers = 4;         // lanes that share a row of a matrix instruction's sums
inline constexpr int64_t kGroupThreads = 128;  // threads of a warp group

// Whether the statement at hand is the last one of a tile: no thread waits after it.
enum class Then : uint8_t { kMore, kEnd };

// Who runs the text at hand: the threads that compute, or the one that tells TMA what to fetch for them.
enum class WarpRole : uint8_t { kConsumer, kProducer };

class KernelEmitter {
 public:
  KernelEmitter(const loop::Kernel& kernel, std::string name) : kernel_(kernel), out_{std::move(name)} {}
  CudaKernel run();
  std::string text() const;

 private:
  void declare_params();
  // Registers of each thread that computes, where those hold more than their share, and the producer gives up some of
  // its own; else 0.
  int64_t registers_to_take() const;
  bool fits_narrow() const;

  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += std::string(2 * depth_, ' ') + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  // `body` in braces behind `head`.
  template <typename Body>
  void nested(const std::string& head, const Body& body) {
    line("{}{{", head);
    ++depth_;
    const std::map<std::string, std::string> rows = matrix_rows_;  // those named in `body` are known there only
    body();
    matrix_rows_ = rows;
    --depth_;
    line("}}");
  }
  std::string fresh() { return fmt::format("v{}", counter_++); }
  // The body for the block's tiles, by those of one role.
  void tiles(WarpRole role);
  // Where blocks walk over tiles: consumer t of a block takes the tiles t, t + together, .. of those of the block.
  void walk(const std::string& type);
  // Fills, before the first tile, buffers that all tiles fill with the same.
  void fill_once();
  // Goes on by the slots of `tiles` tiles, which other consumers use.
  void skip(const std::string& tiles);
  // The threads of a tile wait for each other.
  void meet() {
    tma_ring_ ? line("tw_meet<{}>({});", tile_threads_,
                     kernel_.together > 1 ? fmt::format("{} + tw_team", 1 + kernel_.together) : "1")
              : line("__syncthreads();");
  }
  // Whether these threads see of each other what they store to or load, `own` buffers aside.
  bool is_shared(const std::vector<Stmt>& stmts, std::set<std::string> own) const;
  void statements(const std::vector<Stmt>& stmts, Then then);
  void statement(const Stmt& s, Then then);
  void serial(const Stmt& s);
  // A loop whose turns do something where they find a number in memory that is theirs, and few do: the lanes of a warp
  // look at one turn each, and those that find theirs follow, in order, by all.
  bool is_searched_by_warps(const Stmt& s) const;
  void search(const Stmt& s);

  // ---- What the threads of a block do together (kernel_threads.cpp).
  void threads(const Stmt& s, Then then);

  // ---- Pipelined loops (kernel_pipeline.cpp).
  // The buffers of one, in shared memory as often as it has stages.
  struct Ring {
    Stmt loop;
    std::vector<loop::Buffer> buffers;
    std::vector<std::string> memory;  // names of their shared memory
    std::string turn;                 // name of the loop's variable in the text
    std::string slot;                 // copy of the buffers that belongs to that turn
    // Of TMA: barriers of full and of empty copies; the parity of this round of slots.
    std::string full = {}, empty = {}, phase = {};
  };
  void pipelined(const Stmt& s, Then then);
  // Iteration i uses what an earlier turn has begun to fill for it; meanwhile the buffers of the last iteration whose
  // instructions are done are filled for a later one.
  void filled_by_threads(Ring ring, const loop::PipelineParts& parts, const std::set<std::string>& sums);
  // The ring of a kernel whose loops `loops` are filled by TMA: it is set up once, and slots go on from loop to loop
  // and from tile to tile.
  void set_up_tma(const std::vector<Stmt>& loops);
  void filled_by_tma(const Stmt& s, loop::PipelineParts parts, Then then);
  // Whether the only warp group of a block tells TMA itself what to fetch, when it is done with a copy of the buffers:
  // a warp more would take the registers of four.
  bool fetched_by_users(const std::vector<Stmt>& loops) const;
  // The turns of such a group: one of its threads fetches for the first turns, and after each for a later one.
  void turns_of_users(Ring ring, const Expr& needed, const loop::PipelineParts& parts);
  // The condition under which a turn does anything, which its statements then no longer have; null: none.
  static Expr needed_turns(loop::PipelineParts& parts);
  // Leaves out the conditions of the statements, allocations around them aside, and names them: null where there is
  // none.
  static void take_condition(std::vector<Stmt>& stmts, std::vector<Expr>& conditions);
  // Turns that are not `needed` take no copy of the buffers.
  template <typename Body>
  void turns(const Ring& ring, const Expr& needed, const Body& body);
  // Tells TMA that the copy `slot` is empty, if `condition` holds.
  void release(const Ring& ring, const std::string& slot, const std::string& condition);
  void fetch(const loop::PipelineParts& parts, const std::string& barrier);
  // Whether the tiles of each cluster have the same indices.
  bool is_alike(const std::vector<Expr>& indices) const;
  void use(const loop::PipelineParts& parts);
  // Names the copy of each buffer that belongs to the turn at hand.
  void name_copies(const Ring& ring);

  // What the matrix instructions of warp groups read in shared memory.
  void find_swizzled();
  // Asynchronous instructions of warp groups; `sums` are the buffers they change, those aside that the statements
  // allocate themselves.
  static std::set<std::string> sums_of_groups(const std::vector<Stmt>& stmts);
  // Those that go on from turn to turn of a pipelined loop while its next turn begins: not such to which rows in
  // registers of a turn are multiplied, which the next turn changes.
  static std::set<std::string> running_sums(const std::vector<Stmt>& turn);
  void settle(const std::set<std::string>& sums);
  void begin_groups(const std::set<std::string>& sums);
  void end_groups(const std::set<std::string>& sums);
  void group_matrix(const Stmt& s);
  // Notes sums to which no instruction adds in a loop: their first instructions have nothing to add to.
  void find_fresh_sums(const Stmt& allocation);
  bool zeroes_fresh_sums(const Stmt& s) const;
  // Whether a statement of a turn may begin while the instructions of awaited sums run: where it adds to others.
  bool runs_beside_sums(const Stmt& s) const;
  void await_sums();

  template <typename Body>
  void by_threads(const ThreadGroup& group, const Body& body) {
    if (group.threads == tile_threads_) return body();
    nested(fmt::format("if ({} < {}) ", thread_, group.threads), body);
  }
  // Each thread combines its terms in a register, then runs of threads combine theirs, then the first one of a run
  // combines that with what the element held.
  void combine(const ThreadGroup& group, const Combination& c);

  // ---- Shared memory (kernel_memory.cpp).
  // Bytes of it from here to the end of the enclosing allocation.
  int64_t reserve(int64_t bytes);
  // Elements from one copy of a shared buffer to the next.
  int64_t stride_of(const loop::Buffer& buffer) const;
  // Of an element of a buffer that matrix instructions of warp groups read; else 0.
  int swizzled_bytes(const loop::Buffer& buffer) const;
  int64_t alignment_of(const loop::Buffer& buffer) const;
  // The name of shared memory for `copies` of a buffer, until the enclosing statement ends.
  std::string share(const loop::Buffer& buffer, int64_t copies);
  void allocate(const Stmt& s, Then then);

  // ---- Matrix instructions of a warp (kernel_threads.cpp).
  void matrix(const Stmt& s);
  // Elements that one lane holds beside each other, in one access where they lie so.
  std::string neighbours(const std::vector<Expr>& loads) const;
  // What the instruction takes of an operand: rows of shared memory, or single elements.
  void add_operand(const std::optional<MatrixRows>& rows, const std::vector<std::vector<Expr>>& loads,
                   std::vector<std::string>& operands);
  bool is_param(const std::string& buffer) const;

  // ---- What one thread does (kernel_memory.cpp; lets and branches: kernel_emitter.cpp).
  void let(const Stmt& s, Then then);
  void define(const Stmt& s);  // the variable of a let
  void bind_range(const Stmt& s);
  void lanes(int count, const std::string& statement);
  void store(const Stmt& s);
  void scalar_store(const Stmt& s);
  std::string condition(const Stmt& s, const std::string& lane) const;
  // Whether a store of a pipelined loop is a copy from memory, which goes on while others compute.
  bool copy_ahead(const Stmt& s);
  // An element, or a vector that is contiguous in memory; else nothing.
  std::string place(const std::string& buffer, DataType type, const std::vector<Expr>& indices) const;
  // The first element of an access to shared memory as arguments: its buffer, what varies of its number, a constant.
  std::string apart(const std::string& buffer, const CudaOffset& offset) const;
  // What memory holds, or a constant where a condition of all lanes fails.
  struct MaybeLoad {
    Expr load, condition, otherwise;
  };
  static MaybeLoad maybe_load(const Expr& e);
  void vector_store(const Stmt& s);
  // The first four of `stmts`, if they store pairs of 16 bits of one row, 8 elements apart, as the four lanes have them
  // that share a row of a matrix instruction's sums: each lane stores 16 bytes of one of the four. By themselves they
  // store halves of sectors, four times as often.
  bool store_together(std::span<const Stmt> stmts);
  bool are_stored_together(std::span<const Stmt> stmts) const;
  // Four of several outputs each, whose values have names first: the values of all, then output by output.
  bool share_together(std::span<const Stmt> stmts);
  // Evaluates before the statement what one lane's text cannot: whole vectors in memory, reductions over lanes; and
  // what would be written many times.
  // Operands that a select may not touch are left to it.
  void prepare(const Expr& e);
  static bool is_constant_in_kernel(const Expr& e);
  bool loads_exist(const Expr& e) const;
  void prepare_loads(const Expr& e);
  void prepare_load(const Expr& e);
  // Whether a buffer is a parameter that the kernel does not write.
  bool is_read_only(const std::string& buffer) const;
  void prepare_reduction(const Expr& e);
  // Values that are rounded to 16 bits, two at a time. Sums and maxima of 16-bit floats: in their own type.
  void prepare_pairs(const Expr& e);
  // The name of a variable for the value of an expression.
  std::string bind(const Expr& e);
  // C++ of a op b for two values that have names.
  static std::string combined(Op op, DataType type, const std::string& a, const std::string& b);
  void branch(const Stmt& s, Then then);

  const loop::Kernel& kernel_;
  CudaKernel out_;
  CudaNames names_;
  std::set<const ExprNode*> prepared_;
  std::string text_;
  int64_t shared_ = 0;  // bytes in use
  bool has_threads_ = false;
  int64_t tile_threads_ = 1;            // threads of a tile: of one consumer
  int64_t consumer_threads_ = 1;        // threads of all consumers of a block
  std::string thread_ = "threadIdx.x";  // thread of a consumer
  int64_t taken_registers_ = 0;         // of consumers, with those of the producer's warp group; 0: all have as many
  WarpRole role_ = WarpRole::kConsumer;
  std::optional<Ring> tma_ring_;                    // ring of buffers filled by TMA
  bool per_team_ = false;                           // whether each of the tiles together has buffers of its own
  std::set<std::string> filled_once_;               // buffers that are filled before the first tile
  VarMap lets_;                                     // indices by their names, in terms of tiles and loops
  const ThreadGroup* group_ = nullptr;              // of the statement at hand
  std::set<std::string> swizzled_;                  // buffers read by wgmma
  std::map<std::string, std::string> matrix_rows_;  // of operands, and the registers that have them
  bool in_pipeline_ = false;                        // where a pipelined loop's buffers are used
  std::set<std::string> stored_in_turn_;            // there: to what a turn of that loop stores
  bool users_fetch_ = false;                        // fetched_by_users()
  std::set<std::string> fresh_sums_, begun_sums_;   // find_fresh_sums(); elements, by text, whose sums have begun
  std::set<std::string> running_;                   // there: running_sums()
  std::set<std::string> awaited_;                   // there: those of a turn whose instructions run
  bool fills_ahead_ = false;                        // inside a pipelined loop's fill
  bool lanes_differ_ = false;                       // where a condition may hold for some of a row's lanes only
  bool stored_for_matrix_ = false;                  // by threads, not by copies
  int depth_ = 1;
  int counter_ = 0;
};

}  // namespace tw::codegen
