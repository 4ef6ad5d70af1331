// Constructors: from a group's te program and the target's properties to a schedule, in order of preference, each with
// a reason when it declines. Hand-written families today; Roller's rTiles join this list.
#pragma once
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/target_info.h"
#include "schedule/schedule.h"
#include "support/error.h"

namespace tw::tune {

/// One fused group, activations already in their storage layouts.
struct GroupTask {
  te::Program program;
  std::set<std::string> constants;  // inputs whose storage the construction may choose
};

struct Construction {
  std::string family;
  std::map<std::string, Layout> constant_layouts;  // of inputs in GroupTask::constants
  schedule::Schedule schedule;                     // of the program after those layouts
};

struct Constructor {
  std::string_view family;
  Result<Construction> (*construct)(const GroupTask& task, const TargetInfo& target);
};

struct Rejection {
  std::string family;
  std::string reason;
};

/// The first construction that is not declined; `rejections` collects why earlier families declined. InternalError when
/// all do: the last family of a target takes everything.
Construction construct(std::span<const Constructor> families, const GroupTask& task, const TargetInfo& target,
                       std::vector<Rejection>* rejections);

/// Sums of products with element-wise epilogue: register tiles, B in panels (contraction.cpp).
Result<Construction> construct_contraction(const GroupTask& task, const TargetInfo& target);
/// One reduction that keeps the contiguous axis, with element-wise epilogue: pooling, means over images (columns.cpp).
Result<Construction> construct_columns(const GroupTask& task, const TargetInfo& target);
/// Reductions along rows that share their leading axes with the output: softmax, layer norm (rows.cpp).
Result<Construction> construct_rows(const GroupTask& task, const TargetInfo& target);
/// Everything: each stage a kernel of its own, vectorised along the last axis, parallel along the others (generic.cpp).
Result<Construction> construct_generic(const GroupTask& task, const TargetInfo& target);

/// Everything, one tile a point of each stage, sums in a register: for devices whose tiles are threads (point.cpp).
Result<Construction> construct_point(const GroupTask& task, const TargetInfo& target);

}  // namespace tw::tune
