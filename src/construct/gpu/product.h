// Products of matrices on GPUs: the roles of their axes, how constant operands are stored, and split-K: sums in parts
// so that more tiles share their terms.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "construct/construct.h"
#include "construct/gpu/thread_block_tile.h"
#include "schedule/match/contraction.h"

namespace tw::construct {

/// A contraction whose axes have roles, by position in the output's axes.
struct MatrixProduct {
  std::string sum, output;
  schedule::Contraction match;
  std::vector<size_t> rows, columns, batch;
  std::vector<te::Axis> steps;
  // Of a window along the last axis of rows: a k-block of rows serves all of them.
  std::optional<te::Axis> filter_positions = {};
  int64_t zeros = 0;    // zero padding of K of the right operand, as stored
  int64_t halo = 0;     // rows of zeros behind each line of the last axis of rows: so many the product before it reads
  bool packs = false;   // narrow products of a batch, beside each other in lines of A: tiles may have several
  bool narrow = false;  // no product of matrices unless packed
};

/// A sum as equal parts, each of neighbours along one axis of its terms.
struct SplitK {
  std::string axis;
  int64_t count = 1;  // 1: the whole sum
};

/// A product whose constant operands have their layouts.
struct StoredProduct {
  te::Program program;  // under split-K: the partial sums only, parts as one more batch axis
  MatrixProduct product;
  std::map<std::string, Layout> layouts;
  SplitK split_k;
  schedule::Schedule split;  // primitives that split the whole sum
  te::Program rest;          // sum of the parts, and all that follows
};

/// What of an operand one access moves: neighbours along its steps or along its lines, as it is stored in memory.
struct OperandAccess {
  bool by_steps = true;
  int64_t lanes = 1;
};

int64_t extent_at(const te::Compute& c, const std::vector<size_t>& places);

/// Rows are axes of A alone, columns of B alone; what both have is the batch. Declines what is no product of matrices,
/// not even beside others of its batch: of fewer columns than pay for sharing an operand, or fewer rows. Two rows of 16
/// bits are enough to bring the columns' operand once for both.
Result<MatrixProduct> product_of(const te::Program& program, const te::Compute& sum);
/// The same of `min_rows` or more.
Result<MatrixProduct> product_of(const te::Program& program, const te::Compute& sum, int64_t min_rows);

/// Operands that are constants, stored as they are read: batch, lines, steps; steps next to each other.
std::map<std::string, Layout> constant_layouts(const MatrixProduct& p, const te::Compute& sum, const GroupTask& task);

/// Whether TMA can bring blocks of what `load` reads: `fast` runs along the lines of an input, in blocks of 128 bytes,
/// and `slow` along one other dim of it, in blocks of `slow_block`. Blocks are whole or end where the tensor does.
bool is_read_in_boxes(const te::Program& program, const Expr& load, const te::Axis& fast, const te::Axis& slow,
                      int64_t slow_extent, int64_t slow_block);

OperandAccess access_of(const Expr& read, const te::Axis& step, const te::Axis& line, const TargetInfo& target);

/// Where the instructions of a tile leave column i, dim `dim` of an operand of `rank` dims: each thread holds pairs of
/// columns of several of them (ThreadBlockTile), which are neighbours in the output.
Layout interleaved_columns(const ThreadBlockTile& tile, int dim, size_t rank, int64_t columns);

/// The product of the contraction `sum` of `program` with constants under `layouts`, summed in `split_k`.
StoredProduct stored(const te::Program& program, const std::string& sum, std::map<std::string, Layout> layouts,
                     const SplitK& split_k);

/// Leaves what sums the parts of reduction `sum` in `out`, the parts their first axis, and in `rest` what adds them.
/// Returns the name of their sums.
std::string split_sum(const std::string& sum, StoredProduct& out);

/// `whole`, of `program`, with the filter positions of a window's row beside its steps; nothing where windows do not
/// overlap so, or TMA does not bring them.
std::optional<StoredProduct> with_filter_positions(const StoredProduct& whole, const te::Program& program,
                                                   const GroupTask& task, const TargetInfo& target);

/// `in`, of `program`, with the columns' operand, if it is a constant, in the order in which the instructions of `tile`
/// want its lines. What TMA brings has zeros up to whole blocks of lines and behind its steps, up to whole lines or
/// sectors of memory.
StoredProduct stored_for(const ThreadBlockTile& tile, const StoredProduct& in, const te::Program& program,
                         const GroupTask& task);

GemmProblem problem_of(const StoredProduct& in, const GroupTask& task, const TargetInfo& target);

/// The parts in which `whole`, whose problem is `problem`, may be summed.
std::vector<SplitK> split_ks_of(const StoredProduct& whole, const GemmProblem& problem, const TargetInfo& target);

}  // namespace tw::construct
