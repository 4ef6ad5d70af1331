// Constructors: from a group's te program and the target's properties to schedules, best predicted first, or the reason
// why the family declines. Families are asked in the target's order; the first that takes a group owns it.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/precision.h"
#include "core/target_info.h"
#include "runtime/format/problem.h"
#include "schedule/schedule.h"
#include "support/error.h"

namespace tw::construct {

/// A library that may compute groups on the machine at hand.
struct Library {
  int64_t version = 0;
  /// The calls by which it may compute a problem, best first; a reason where it does not.
  std::function<Result<std::vector<format::LibraryCall>>(const format::ProblemDescriptor&)> offers;
};
using Libraries = std::map<std::string, Library>;  // by the names of format::LibraryCall

/// One fused group, activations already in their storage layouts.
struct GroupTask {
  te::Program program;
  std::set<std::string> kept;  // inputs that the artefact keeps: the construction may choose their storage
  Libraries libraries = {};    // that may compute it
  Precision precision = Precision::kDefault;
  /// Of inputs in `kept`: how the artefact stores them already. Another storage of one of these is one more copy.
  std::map<std::string, std::vector<Layout>> stored = {};
};

struct Construction {
  std::string family;
  std::map<std::string, Layout> constant_layouts;  // of inputs in GroupTask::kept, and of intermediate tensors
  schedule::Schedule schedule;                     // of the program after those layouts
  double predicted_ns = 0;                         // one run on all compute units by the closed-form model; 0: no model
  std::vector<std::string> trace;                  // how it was constructed: rTiles with their scores, a line each
};

/// Whether two constructions are one: equal schedules and layouts.
inline bool is_same(const Construction& a, const Construction& b) {
  return a.schedule == b.schedule && a.constant_layouts == b.constant_layouts;
}

/// Whether the construction stores what the artefact has already in one of the ways in which it has it.
bool fits_stored(const GroupTask& task, const Construction& construction);

/// What a family offers for one group: at least one, best predicted first, all different.
using Candidates = std::vector<Construction>;

/// Those that differ in schedule or layouts, best predicted first, as many as are worth their compilation.
Candidates best_distinct(Candidates candidates);

/// Which candidates of a group there are: the best predicted ones, the first of them, or as many at random.
enum class Offer : uint8_t { kTopK, kFirst, kRandom };

/// How many schedules to draw at random, from which seed, and whether besides a family's own.
struct Sampling {
  size_t count = 0;
  uint64_t seed = 0;
  Offer offer = Offer::kTopK;
};

/// Families that own groups are asked in order, and the first one that takes a group has it. The candidates of those
/// that join are measured beside the owner's and stand behind them.
enum class FamilyKind : uint8_t { kOwns, kJoins };

struct Constructor {
  std::string_view family;
  Result<Candidates> (*construct)(const GroupTask& task, const TargetInfo& target);
  /// Aligned schedules drawn from the family's whole space, for the same groups; null for a family without parameters.
  Result<Candidates> (*sample)(const GroupTask& task, const TargetInfo& target, const Sampling& sampling) = nullptr;
  FamilyKind kind = FamilyKind::kOwns;
};

struct Decline {
  std::string family;
  std::string reason;
};

/// The candidates of the first owning family that does not decline; `declines` collects why earlier ones did.
/// InternalError when all do: the last owner of a target, whose owners stand first, takes everything.
Candidates construct(std::span<const Constructor> families, const GroupTask& task, const TargetInfo& target,
                     std::vector<Decline>* declines);
/// Those of all families that join.
Candidates joining_candidates(std::span<const Constructor> families, const GroupTask& task, const TargetInfo& target,
                              std::vector<Decline>* declines);

/// Sums of products with element-wise epilogue: register tiles, B in panels (contraction.cpp).
Result<Candidates> construct_contraction(const GroupTask& task, const TargetInfo& target);
/// Of the same groups: register tiles that fit, blocks of any number of them, in any order.
Result<Candidates> sample_contraction(const GroupTask& task, const TargetInfo& target, const Sampling& sampling);
/// Winograd convolution with element-wise epilogue: blocks of tiles, transformed in the cache (winograd.cpp).
Result<Candidates> construct_winograd(const GroupTask& task, const TargetInfo& target);
/// A contraction whose rows are computed by contractions and reductions before it, block by block: attention
/// (chain.cpp).
Result<Candidates> construct_chain(const GroupTask& task, const TargetInfo& target);
/// A value that leaves beside sums of its columns (cpu/column_sums.cpp).
Result<Candidates> construct_sums(const GroupTask& task, const TargetInfo& target);
/// Rows that are reduced and leave beside sums of their columns (cpu/row_sums.cpp, gpu/row_sums.cpp).
Result<Candidates> construct_row_sums(const GroupTask& task, const TargetInfo& target);
Result<Candidates> construct_gpu_row_sums(const GroupTask& task, const TargetInfo& target);
/// Sums at computed indices, with element-wise epilogue: gradients of gathers (cpu/scatter.cpp, gpu/scatter.cpp).
Result<Candidates> construct_scatter(const GroupTask& task, const TargetInfo& target);
Result<Candidates> construct_gpu_scatter(const GroupTask& task, const TargetInfo& target);
/// One reduction that keeps the contiguous axis, with element-wise epilogue: pooling, means over images (columns.cpp).
Result<Candidates> construct_columns(const GroupTask& task, const TargetInfo& target);
/// A product of matrices whose rows a reduction combines, by the tiles that compute them (cpu/reduced.cpp).
Result<Candidates> construct_reduced(const GroupTask& task, const TargetInfo& target);
/// Reductions along rows that share their leading axes with the output: softmax, layer norm (rows.cpp).
Result<Candidates> construct_rows(const GroupTask& task, const TargetInfo& target);
/// Everything: each stage a kernel of its own, vectorised along the last axis, parallel along the others (generic.cpp).
Result<Candidates> construct_generic(const GroupTask& task, const TargetInfo& target);

/// Reductions along rows for GPUs (gpu/rows.cpp).
Result<Candidates> construct_gpu_rows(const GroupTask& task, const TargetInfo& target);
/// A value that leaves beside sums of its columns (gpu/column_sums.cpp).
Result<Candidates> construct_gpu_sums(const GroupTask& task, const TargetInfo& target);
/// Rows of few elements for the same devices, each by one thread (gpu/thread_rows.cpp).
Result<Candidates> construct_thread_rows(const GroupTask& task, const TargetInfo& target);
/// Products of few rows, one after the other, for the same devices: a block has a row (gpu/row_products.cpp).
Result<Candidates> construct_row_products(const GroupTask& task, const TargetInfo& target);
/// One reduction that keeps the contiguous axis, for the same devices: depthwise convolutions, poolings
/// (gpu/columns.cpp).
Result<Candidates> construct_gpu_columns(const GroupTask& task, const TargetInfo& target);
/// Element-wise stages that read across their output's order, for the same devices (gpu/transpose.cpp).
Result<Candidates> construct_gpu_transpose(const GroupTask& task, const TargetInfo& target);
/// Sums of products for the same devices: tiles of sums in registers, operands through shared memory
/// (gpu/contraction.cpp).
Result<Candidates> construct_gpu_contraction(const GroupTask& task, const TargetInfo& target);
Result<Candidates> sample_gpu_contraction(const GroupTask& task, const TargetInfo& target, const Sampling& sampling);
/// The same of narrow products of a batch, as a convolution's groups are: also tiles of several of them.
Result<Candidates> construct_gpu_packed(const GroupTask& task, const TargetInfo& target);
/// Chains for the same devices: attention as one kernel (gpu/chain.cpp).
Result<Candidates> construct_gpu_chain(const GroupTask& task, const TargetInfo& target);
/// A contraction whose rows a reduction combines, by the tiles that compute them (gpu/reduced.cpp).
Result<Candidates> construct_gpu_reduced(const GroupTask& task, const TargetInfo& target);
/// Everything, one thread a point or vector of each stage, sums in a register: for GPUs (point.cpp).
Result<Candidates> construct_point(const GroupTask& task, const TargetInfo& target);

/// Products of matrices by cuBLASLt (libraries.cpp).
Result<Candidates> construct_cublaslt(const GroupTask& task, const TargetInfo& target);
/// Convolutions and attention by cuDNN (libraries.cpp).
Result<Candidates> construct_cudnn(const GroupTask& task, const TargetInfo& target);

}  // namespace tw::construct
