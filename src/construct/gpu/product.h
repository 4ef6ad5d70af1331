// Products of matrices on devices whose tiles have threads: the roles of their axes, how constant operands lie, and
// sums that are cut into parts so that more tiles share their terms.
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
struct Product {
  std::string sum, output;
  schedule::Contraction match;
  std::vector<size_t> rows, columns, batch;
  std::vector<te::Axis> steps;
  std::optional<te::Axis> taps =
      {};             // of a window along the last axis of rows: a block of steps of rows serves all of them
  int64_t zeros = 0;  // behind the steps of the columns' operand, as it is stored
};

/// A sum as equal parts, each of neighbours along one axis of its terms.
struct Parts {
  std::string axis;
  int64_t count = 1;  // 1: the whole sum
};

/// A product whose constant operands have their layouts.
struct StoredProduct {
  te::Program program;  // of a sum in parts their sums only, which are one more batch
  Product product;
  std::map<std::string, Layout> layouts;
  Parts parts;
  schedule::Schedule split;  // what makes the parts of the whole
  te::Program rest;          // what adds them, with all that follows
};

/// What of an operand one access moves: neighbours along its steps or along its lines, as it lies in memory.
struct OperandAccess {
  bool by_steps = true;
  int64_t lanes = 1;
};

int64_t extent_at(const te::Compute& c, const std::vector<size_t>& places);

/// Rows are axes of A alone, columns of B alone; what both have is the batch. Declines what is no product of matrices.
Result<Product> product_of(const te::Program& program, const te::Compute& sum);

/// Operands that are constants, stored as they are read: batch, lines, steps; steps next to each other.
std::map<std::string, Layout> constant_layouts(const Product& p, const te::Compute& sum, const GroupTask& task);

OperandAccess access_of(const Expr& read, const te::Axis& step, const te::Axis& line, const TargetInfo& target);

/// Where the instructions of a tile leave column i, dim `dim` of an operand of `rank` dims: each thread holds pairs of
/// columns of several of them (BlockTile), which are neighbours in the output.
Layout dealt_out(const BlockTile& tile, int dim, size_t rank, int64_t columns);

/// The product of the contraction `sum` of `program` with constants under `layouts`, summed in `parts`.
StoredProduct stored(const te::Program& program, const std::string& sum, std::map<std::string, Layout> layouts,
                     const Parts& parts);

/// Leaves what sums the parts of reduction `sum` in `out`, the parts their first axis, and in `rest` what adds them.
/// Returns the name of their sums.
std::string split_sum(const std::string& sum, StoredProduct& out);

/// `whole`, of `program`, with the taps of a window's row beside its steps; nothing where windows do not overlap so, or
/// the copy engine does not bring them.
std::optional<StoredProduct> with_taps(const StoredProduct& whole, const te::Program& program, const GroupTask& task,
                                       const TargetInfo& target);

/// `in`, of `program`, with the columns' operand, if it is a constant, in the order in which the instructions of `tile`
/// want its lines. What the copy engine brings has zeros up to whole blocks of lines and behind its steps, up to whole
/// lines or sectors of memory.
StoredProduct stored_for(const BlockTile& tile, const StoredProduct& in, const te::Program& program,
                         const GroupTask& task);

BlockProblem problem_of(const StoredProduct& in, const GroupTask& task, const TargetInfo& target);

/// The parts in which `whole`, whose problem is `problem`, may be summed.
std::vector<Parts> parts_of(const StoredProduct& whole, const BlockProblem& problem, const TargetInfo& target);

}  // namespace tw::construct
