// A value that leaves beside sums of its columns (schedule/match/column_sums.h): tiles compute some rows of the value,
// store them, and combine them while they are in registers. Memory gets one row of sums for each part of the rows,
// which a second kernel adds.
#pragma once
#include <string>
#include <vector>

#include "construct/construct.h"
#include "schedule/match/chain.h"
#include "schedule/match/column_sums.h"

namespace tw::construct {

/// A reduction over rows, the first one of its axes, and what follows it point by point.
struct SumOfRows {
  te::Program program;
  std::string sum, output;
  std::vector<std::string> leaving;  // outputs of it and behind it
};

/// The stages of the first kernel.
struct SumsKernel {
  te::Program program;            // with them
  std::string root;               // owns the tiles: a row of sums of each part, or what follows the sums
  std::string sums;               // combines rows in registers
  std::string value, stored;      // the elements of a row, and the output that they are stored to; of one value
  std::vector<std::string> axes;  // of root and sums: the part where there are several, .., the column
  std::string row;                // reduction axis of the sums
  int64_t rows = 1;               // of a part
  int64_t columns = 1;
};

/// Cuts `sum` along `axis` into `parts`, stored part behind part; returns the stage that has them.
std::string cut_sum(schedule::Schedule& s, const te::Compute& sum, const std::string& axis, int64_t parts);

/// What combines the parts `partial` of `sum`, and what follows up to `outputs`, as a program of its own.
te::Program adding_program(const te::Program& all, const std::string& partial, const std::string& sum,
                           const std::vector<std::string>& outputs);

/// The kernel that combines parts on GPUs: columns that are not cut into parts again (gpu/columns.cpp).
Result<Candidates> add_parts_on_gpu(const GroupTask& task, const TargetInfo& target);

/// Numbers of parts into which `rows` rows may be cut evenly, the nearest to `wanted` first, at most `limit` of them.
std::vector<int64_t> part_counts(int64_t rows, int64_t wanted, size_t limit);

/// Constructs the kernel that adds the parts.
using AddParts = Result<Candidates> (*)(const GroupTask&, const TargetInfo&);
/// Cuts the rows into `parts`; appends the primitives to `s`, with those of the kernel that adds the parts. Declines
/// where `add` does.
Result<SumsKernel> split_rows(const SumOfRows& in, int64_t parts, const TargetInfo& target, AddParts add,
                              schedule::Schedule& s);
/// The same of a value that leaves beside its sums, which is held in a stage of its own.
Result<SumsKernel> split_rows(const schedule::ColumnSums& match, int64_t parts, const TargetInfo& target, AddParts add,
                              schedule::Schedule& s);

/// The rows of `segment` leave the group: what holds them in a tile is a stage of its own from here on, the segment's
/// last one. Returns the stage that they are stored to, an output of `program`.
std::string keep_rows(te::Program& program, schedule::Schedule& s, schedule::ChainSegment& segment);
/// What the kernel that adds parts is made of: `program` without the rows that keep_rows() stores; all of it where none
/// are (`stored` is empty).
te::Program without_rows(te::Program program, const std::string& stored);

}  // namespace tw::construct
