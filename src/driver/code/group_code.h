// One group of the graph on its way to code: te program, plan, loop IR, and what its parameters stand for.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/precision.h"
#include "driver/code/in_place.h"
#include "graph/op.h"
#include "loop/loop.h"
#include "lower/pass.h"
#include "plan/plan.h"
#include "targets/registry.h"
#include "transform/in_place.h"

namespace tw::driver {

/// What a kernel parameter of a group is.
struct Param {
  enum class Kind : uint8_t { kValue, kConstant, kTemporary } kind = Kind::kValue;
  graph::ValueId value = graph::kAbsent;  // kValue, kConstant: of the graph of groups
  Layout layout;                          // kConstant: storage of its logical elements
  int64_t bytes = 0;
};

/// Loops of a te program under a plan. Groups of equal maths and plans share them.
struct LoweredGroup {
  std::shared_ptr<const loop::Program> loops;  // null: a view has none
  double flop = 0;                             // of its sums of products: 2 for each multiply and add
};

struct GroupCode {
  std::string name;  // ONNX nodes of the group
  LoweredGroup lowered;
  std::map<std::string, Param> params = {};  // by name in the loops
};

struct GroupInputs {
  const graph::Graph& graph;
  const graph::Node& group;
  const graph::OpTable& ops;
  const targets::Target& target;
  std::vector<transform::StateNames> states = {};
};

/// The te program of a group with activations in their layouts and axes merged, what the artefact keeps still logical,
/// all tensors named by position (x0.. for inputs): equal groups give equal programs.
struct GroupTe {
  te::Program program;
  std::map<std::string, graph::ValueId> values;  // inputs and outputs -> value of the graph of groups
  std::map<std::string, Layout> kept;            // inputs that the artefact keeps -> layout so far
  std::vector<InPlaceTe> in_place = {};
};
GroupTe build_te(const GroupInputs& in);
/// For each value that the group reads or writes and the artefact does not keep: whether dim d of its storage and the
/// one behind it are one axis to the group, wherever it has them.
std::map<graph::ValueId, std::vector<bool>> joined_dims(const GroupInputs& in);
/// All that the te program of a group depends on, as bytes: groups with equal keys have equal programs.
std::string te_key(const GroupInputs& in);
/// What build_te() gives for `group`, without the program, when that of `other`, with the same te_key(), is `te`.
GroupTe te_like(const GroupTe& te, const graph::Node& other, const graph::Node& group);
/// What tells groups apart.
std::string text_of(const GroupTe& te);

/// Who answers for a plan whose schedule does not fit: the user who gave it, or we.
enum class PlanOrigin : uint8_t { kOurs, kUser };

struct GroupOptions {
  lower::RunOptions lower;
  PlanOrigin origin = PlanOrigin::kOurs;
  std::function<void(const te::Program& program)> dump_te;  // once, with constants in the layouts of the plan
};

/// What loop passes may ask of `target`.
lower::LowerOptions lowering_for(const TargetInfo& target, Precision precision);

/// Loop IR of `program` under the layouts and the schedule of `plan`, lowered; of a state's next value in its place.
/// UserError when the schedule does not fit.
loop::Program lower_group(const te::Program& program, const plan::GroupPlan& plan, const GroupOptions& options,
                          std::span<const InPlaceTe> in_place = {});

/// The same with its operations. UsageError, which names the group, when a plan of the user's does not fit.
LoweredGroup lower_planned(const te::Program& program, const plan::GroupPlan& plan, const GroupOptions& options,
                           std::span<const InPlaceTe> in_place = {});

/// What the parameters of a group's loops are, whose plan stores constants in `layouts`.
std::map<std::string, Param> describe_params(const GroupInputs& in, const GroupTe& te, const loop::Program& loops,
                                             const std::map<std::string, Layout>& layouts);

/// Operations of the sums of products of `program`: 2 for each multiply and add.
double contraction_flop(const te::Program& program);

}  // namespace tw::driver
