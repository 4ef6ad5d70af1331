// A schedule: an ordered, printable, replayable list of loop primitives (mechanism A5) over a te program. Hand-written
// families, Roller's construction and search all emit this one thing; apply() turns it into loop IR.
//
// A stage is a compute of the program, named after its first output. Its loops start as its axes (i0, i1, ..) followed
// by its reduction axes (r0, ..). Stages without compute_at or inline are roots: each becomes one kernel.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "loop/text.h"
#include "te/te.h"

namespace tw::schedule {

enum class PrimitiveKind : uint8_t {
  kSplit,  // loops [l], factors f1..fm: l becomes l.0 .. l.m; l.1 .. l.m have extents f1..fm; l.0 the rest, rounded up
  kReorder,     // loops: these loops, in this order, take the places they held together
  kFuse,        // loops [a, b, ..], adjacent: one loop "a$b$.."
  kVectorize,   // loops [l]
  kUnroll,      // loops [l]
  kThreads,     // loops [l]: its turns are the threads of a tile; of a sum, they combine their terms
  kParallel,    // loops: the leading loops of a root stage; their points are the kernel's tiles
                // factors [cluster]: so many neighbours of them run at the same time
                // factors [cluster, units, together]: a block on each unit walks over them (loop::Kernel::units)
                // option "last first": the last point is tile 0, where the last have the most to do
  kInline,      // the stage's body replaces its reads
  kComputeAt,   // loops [consumer, l], option scope: computed inside loop l of stage `consumer`, the region read there;
                // factors [pad]: rows of the local buffer are `pad` elements longer, so that columns meet other banks
  kCacheRead,   // stage names a tensor, loops its readers (all when empty): they read the copy "<tensor>.cache",
                // a second one of the tensor "<tensor>.cache2"; factors [n]: only the n-th read, from 1, of those in
                // the one reader that differ
  kCacheWrite,  // stage "s" computes into "s.acc"; "s" itself becomes a copy of it. Readers of an output read "s.acc"
  kRfactor,     // loops [r], factors [f]: partial results over r/f go to "s.rf" with a new last axis of extent f: of
                // every f-th point, or with option "blocks" of neighbouring points
  kPipeline,    // loops [l], factors [stages]: what is attached in l and fills buffers of a tile's threads runs that
                // many iterations less one ahead
  kTensorize,   // loops [l], option body name, factors its parameters: the nest from l inwards becomes that body
                // "mma": one matrix instruction of a warp or of four, on targets with threads
                // "bulk": a box of a tensor that TMA brings into a stack buffer
  kPrefetch,   // loops [l, consumer, m], factors [ahead, count, step], option a tensor that the stage, attached in loop
               // m of `consumer`, reads: each iteration of l loads `count` lines into L2, `step` elements apart,
               // beginning `ahead` elements after the place where m and l began; without m, where l began
  kLayout,     // stage names a tensor between two stages, option its layout: it is stored so
  kMatrices,   // loops [rows, columns, steps] or [rows, columns, steps, batch], axes joined by "$": the sum of products
               // over the steps becomes that of the matrices "s.lhs" [batch, rows, steps] and "s.rhs" [batch, columns,
               // steps], with zeros up to multiples of factors [rows, columns, steps], summed in "s.acc"; "s" picks
               // its elements. A fourth factor says up to which step the right operand's tensor has zeros itself: they
               // are read there, as are columns that it has beyond those of the sum. The option, if any, names the
               // reduction axis t of a window's filter positions by which the left operand moves as by its last axis x
               // of rows: its line i at position t is its line i + t * d at position 0, which "s.lhs" holds for all of
               // them. Rows are counted as if x went on to where the last position reads; "s.rhs" is [batch, positions,
               // columns, steps]. A fifth factor says by how much the last axis of rows goes on, as it does for that
               // reason in a product before this one: these lines of "s.lhs" are zeros.
  kWriteAt,    // loops [consumer, l]: the stage, an output made of one tensor point by point, or such a copy for
               // another kernel, is stored inside loop l of stage `consumer`: as far as others read the tensor
               // there, or else at the values of the consumer's first axes. No element may be stored twice.
               // Option: a tensor; those of its rows (first dim) that are read in a turn of the loop are stored, whole,
               // and the stage may be made of its source row by row, in any order of elements
  kImplement,  // a root stage, what computes it (loop::Kernel::implementation) in place of code for its loops
  kBranch,     // loops [l]: the first select of an element-wise stage whose condition reads an attached stage, and that
            // the loops down to l decide, is tested once in each turn of l: around all loops further inside, with the
            // stages attached there that its branch reads
  kOnline,  // the stage is the maximum of a row: what sums exponentials relative to it does so block by block of the
            // row, as a reduction over tuples (te/online.h); factors [block, each, width]: elements of a block; threads
            // that share the columns of the sum that has some, `width` neighbours each in turn
  kCarry,   // the stage is such a reduction over tuples, in whose loop its parts are computed: what is relative to the
            // maximum of a part is relative to that of all so far, and sums begin with what they are added to
            // (carry.cpp)
  kWhole,   // the stage, which combines nothing, rounds nothing to 16 bits on the way to its elements
  kSkipZeros,  // the stage, a sum of products: turns of its outermost loop of steps are left out where all terms are 0,
               // as conditions on indices say that lie in what it reads
};

inline constexpr const char* kLastFirst = "last first";

struct Primitive {
  PrimitiveKind kind;
  std::string stage;
  std::vector<std::string> loops = {};
  std::vector<int64_t> factors = {};
  std::string option = {};
  loop::Implementation implementation = {};  // kImplement
  friend bool operator==(const Primitive&, const Primitive&) = default;
};

/// The list, with one builder function for each primitive. Every function returns *this.
class Schedule {
 public:
  const std::vector<Primitive>& primitives() const { return primitives_; }
  Schedule& add(Primitive primitive) {
    primitives_.push_back(std::move(primitive));
    return *this;
  }
  Schedule& split(const std::string& stage, const std::string& loop, std::vector<int64_t> factors) {
    return add({kSplit, stage, {loop}, std::move(factors)});
  }
  Schedule& reorder(const std::string& stage, std::vector<std::string> loops) {
    return add({kReorder, stage, std::move(loops)});
  }
  Schedule& fuse(const std::string& stage, std::vector<std::string> loops) {
    return add({kFuse, stage, std::move(loops)});
  }
  Schedule& vectorize(const std::string& stage, const std::string& loop) { return add({kVectorize, stage, {loop}}); }
  Schedule& unroll(const std::string& stage, const std::string& loop) { return add({kUnroll, stage, {loop}}); }
  Schedule& threads(const std::string& stage, const std::string& loop) { return add({kThreads, stage, {loop}}); }
  Schedule& parallel(const std::string& stage, std::vector<std::string> loops, std::vector<int64_t> factors = {},
                     std::string option = {}) {
    return add({kParallel, stage, std::move(loops), std::move(factors), std::move(option)});
  }
  Schedule& inline_stage(const std::string& stage) { return add({kInline, stage}); }
  Schedule& compute_at(const std::string& stage, const std::string& consumer, const std::string& loop,
                       loop::Scope scope, int64_t pad = 0) {
    const std::vector<int64_t> factors(pad > 0 ? 1 : 0, pad);
    return add({kComputeAt, stage, {consumer, loop}, factors, std::string(loop::scope_name(scope))});
  }
  Schedule& write_at(const std::string& stage, const std::string& consumer, const std::string& loop,
                     const std::string& rows_of = {}) {
    return add({kWriteAt, stage, {consumer, loop}, {}, rows_of});
  }
  Schedule& cache_read(const std::string& tensor, std::vector<std::string> readers, std::vector<int64_t> which = {}) {
    return add({kCacheRead, tensor, std::move(readers), std::move(which)});
  }
  /// The name of the copy that the next cache_read of `tensor` makes.
  std::string next_cache(const std::string& tensor) const;
  Schedule& cache_write(const std::string& stage) { return add({kCacheWrite, stage}); }
  Schedule& rfactor(const std::string& stage, const std::string& loop, int64_t factor) {
    return add({kRfactor, stage, {loop}, {factor}});
  }
  Schedule& rfactor_blocks(const std::string& stage, const std::string& loop, int64_t blocks) {
    return add({kRfactor, stage, {loop}, {blocks}, "blocks"});
  }
  Schedule& pipeline(const std::string& stage, const std::string& loop, int64_t stages) {
    return add({kPipeline, stage, {loop}, {stages}});
  }
  Schedule& tensorize(const std::string& stage, const std::string& loop, const std::string& body,
                      std::vector<int64_t> parameters) {
    return add({kTensorize, stage, {loop}, std::move(parameters), body});
  }
  Schedule& prefetch(const std::string& stage, const std::vector<std::string>& loops, const std::string& tensor,
                     std::vector<int64_t> ahead_count_step) {
    return add({kPrefetch, stage, loops, std::move(ahead_count_step), tensor});
  }
  Schedule& layout(const std::string& tensor, const Layout& layout) {  // nothing for the identity
    return layout.is_identity() ? *this : add({kLayout, tensor, {}, {}, tw::to_string(layout)});
  }
  Schedule& implement(const std::string& stage, loop::Implementation implementation) {
    return add({kImplement, stage, {}, {}, {}, std::move(implementation)});
  }
  Schedule& matrices(const std::string& stage, std::vector<std::string> roles, std::vector<int64_t> multiples,
                     const std::string& positions = "") {
    return add({kMatrices, stage, std::move(roles), std::move(multiples), positions});
  }

  Schedule& branch(const std::string& stage, const std::string& loop) { return add({kBranch, stage, {loop}}); }
  Schedule& online(const std::string& maximum, int64_t block, int64_t each, int64_t width) {
    return add({kOnline, maximum, {}, {block, each, width}});
  }
  Schedule& carry(const std::string& tuple) { return add({kCarry, tuple}); }
  Schedule& whole(const std::string& stage) { return add({kWhole, stage}); }
  Schedule& skip_zeros(const std::string& stage) { return add({kSkipZeros, stage}); }

  friend bool operator==(const Schedule&, const Schedule&) = default;

 private:
  using enum PrimitiveKind;
  std::vector<Primitive> primitives_;
};

/// One primitive a line: "split conv i3 [16]", "compute_at conv.acc relu i2 register".
std::string to_string(const Schedule& schedule);
/// Inverse of to_string; throws UserError naming line and word.
Schedule parse_schedule(std::string_view text);
/// One line of it; throws UserError naming the word.
Primitive parse_primitive(const std::string& line);

/// Loop IR of `program` under `schedule`, with guards (kIf) where a factor does not divide, and with unrolled and
/// vectorised loops still as loops. Throws UserError naming the primitive that is not legal.
loop::Program apply(const te::Program& program, const Schedule& schedule);

/// The name of copy `number`, from 1, of a tensor (kCacheRead).
std::string cache_name(const std::string& tensor, int64_t number);

/// Whether it gathers the elements of matrices: then indices divide by the extents of their axes.
bool gathers(const Schedule& schedule);

/// What `other` does in another way than `chosen`: "conv: i1 in tiles of 4x16 (chosen: 2x16), order i1.0 i0.0 (chosen:
/// i0.0 i1.0); 3 more". At most four differences are named: tiles, orders and whole implementations, which decide the
/// rest, and where all of these are equal any other. Empty for equal schedules.
std::string difference_in_words(const Schedule& other, const Schedule& chosen);

}  // namespace tw::schedule
