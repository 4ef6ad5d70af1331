// The state that primitives act on: stages with their loops. Private to src/schedule.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "expr/analyzer.h"
#include "schedule/schedule.h"

namespace tw::schedule {

struct Loop {
  std::string name;  // "i1.0": unique within the stage
  std::string var;   // "<stage>.<name>": unique in the program
  int64_t extent = 0;
  loop::ForKind kind = loop::ForKind::kSerial;
  bool parallel = false;
  bool reduction = false;
  int64_t stages = 1;  // kPipelined
};

/// A stage computed inside a loop of another one writes a local buffer that holds elements base .. base + extent of
/// each axis.
struct Region {
  std::vector<Expr> base;
  Shape extent;
  int64_t pad = 0;  // elements behind each innermost row of the buffer
  /// Of a tensor that has the first `rank` axes.
  Shape storage(size_t rank) const {
    Shape shape(extent.begin(), extent.begin() + static_cast<std::ptrdiff_t>(rank));
    if (rank > 0 && rank == extent.size()) shape.back() += pad;
    return shape;
  }
};

/// The line that holds one element, loaded at the begin of every iteration of a loop.
struct Prefetch {
  std::string loop;
  std::string tensor;
  std::vector<Expr> indices;  // the last one may reach into what follows
};

struct Stage {
  te::Compute compute;
  std::vector<Loop> loops;             // outermost first
  std::map<std::string, Expr> values;  // axis name -> its value in terms of loop variables
  std::vector<Expr> guards;            // conditions under which a point is computed
  std::string consumer;                // compute_at and write_at: stage and loop; empty for a root
  std::string at_loop;
  loop::Scope scope = loop::Scope::kParam;
  Region region;        // of what is attached
  int64_t cluster = 1;  // of a root's tiles, and what walks over them: see loop::Kernel
  int64_t units = 0;
  int64_t together = 1;
  bool last_first = false;  // of a root: tiles from the last one
  bool has_loop_primitives = false;
  std::string tensorized;               // body name, empty when none
  loop::Implementation implementation;  // of a root
  std::string branch;                   // the loop in which a select is tested; empty when none
  bool is_way = false;                  // one of the two ways of a stage that branched
  std::vector<Prefetch> prefetches;
  Expr start;  // of a reduction, what it begins with in place of the identity, by axes and loops; null: the identity

  const std::string& name() const { return compute.name(); }
  bool is_root() const { return consumer.empty(); }
  bool is_local() const { return scope != loop::Scope::kParam; }  // its buffer holds a region of its elements
  Loop& loop(const std::string& loop_name);                       // UserError when there is none
  size_t loop_index(const std::string& loop_name) const;          // likewise
};

struct State {
  te::Program program;        // inputs, outputs and tensors; computes live in `stages`
  std::vector<Stage> stages;  // producers before consumers

  Stage& stage(const std::string& name);  // UserError when there is none
  const Stage* producer(const std::string& tensor) const;
  /// All stages that read an output of `stage`.
  std::vector<const Stage*> readers(const Stage& stage) const;
};

Stage make_stage(const te::Compute& compute);
State make_state(const te::Program& program);

/// Applies one primitive after the other; throws UserError naming the one that is not legal.
void apply_primitives(State& state, std::span<const Primitive> primitives);

/// The primitive kPrefetch (prefetch.cpp).
void apply_prefetch(State& state, const Primitive& primitive);

/// The primitive kWriteAt (write_at.cpp).
void apply_write_at(State& state, const Primitive& primitive);
/// The primitive kBranch (branches.cpp).
void apply_branch(State& state, const Primitive& primitive);
/// A stage that branches as its two ways: `condition`, in terms of axes, decides between them.
struct Ways {
  Expr condition;
  Stage taken, other;
};
/// UserError when no select of `stage` is decided where it branches.
Ways ways_of(const State& state, const Stage& stage);
/// Names of the stages that `stage` reads, and that these read.
std::set<std::string> sources_of(const State& state, const Stage& stage);

/// The primitive kCarry (carry.cpp).
void apply_carry(State& state, const Primitive& primitive);

/// The primitives that rewrite the maths (rewrites.cpp, matrices.cpp).
void apply_cache_read(State& state, const Primitive& primitive);
void apply_cache_write(State& state, const Primitive& primitive);
void apply_rfactor(State& state, const Primitive& primitive);
void apply_layout(State& state, const Primitive& primitive);
void apply_matrices(State& state, const Primitive& primitive);
void apply_online(State& state, const Primitive& primitive);
void apply_whole(State& state, const Primitive& primitive);
void apply_skip_zeros(State& state, const Primitive& primitive);

/// The maths of all stages as they are.
te::Program current_program(const State& state);

/// Replaces the computes of the state's program by a rewritten program's; only before any loop primitive of the stages
/// named in `changed`.
void refresh(State& state, const te::Program& program, const std::vector<std::string>& changed);

/// UserError when a stage has the name.
void check_fresh(const State& state, const std::string& name);

/// Part of `producer` that is read inside loop `at_loop` of `consumer`, by others than `except` (regions.cpp).
Region read_region(const State& state, const Stage& producer, const Stage& consumer, size_t at_loop,
                   const std::set<const Stage*>& except = {});
/// What the stages inside that loop read of `tensor` there, whoever reads it elsewhere.
Region read_inside(const State& state, const std::string& tensor, const Stage& consumer, size_t at_loop);

/// Variables that run inside loop `at_loop` of `consumer`: its deeper loops, all loops of stages attached there.
std::set<std::string> inner_vars(const State& state, const Stage& consumer, size_t at_loop);

/// For a guard `lhs < constant`: index - lhs, when no variable of `inner` is left in it. Then every index under the
/// guard is below that distance plus the constant.
std::optional<Expr> guarded_distance(const Expr& index, const Expr& guard, const std::set<std::string>& inner,
                                     const Analyzer& ranges);

/// Has stages in registers compute what they have zeros for, where all that read those want nothing there (wanted.cpp).
void drop_unread_zeros(State& state);

/// Loop IR of all stages (emit.cpp).
loop::Program emit(const State& state);

/// An analyzer that knows the range of every loop variable of every stage.
Analyzer loop_ranges(const State& state);

/// Gives `values` the axes among `own` that are known where one reads `axis` of a tensor at `index`, in terms of
/// `axis`: a digit (own / unit) mod count of one of them, or all of theirs in a sum, each with the extents of those
/// behind it as its unit. False where `index` is neither.
bool solve(const Expr& index, const te::Axis& axis, std::span<const te::Axis> own, VarMap& values);

}  // namespace tw::schedule
