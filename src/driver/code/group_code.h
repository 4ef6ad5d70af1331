// One group of the graph on its way to code: te program, plan, loop IR, and what its parameters stand for.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/precision.h"
#include "driver/code/in_place.h"
#include "graph/op.h"
#include "loop/loop.h"
#include "lower/pass.h"
#include "plan/plan.h"
#include "support/join.h"
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

struct GroupCode {
  plan::GroupPlan plan;
  loop::Program loops;                  // lowered
  std::map<std::string, Param> params;  // by name in `loops`
  double flop = 0;                      // of its sums of products: 2 for each multiply and add
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
  std::optional<InPlaceTe> in_place = {};
};
GroupTe build_te(const GroupInputs& in);
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
                          const std::optional<InPlaceTe>& in_place = {});

/// The group after `plan`: loops, and what their parameters are.
GroupCode build_group(const GroupInputs& in, const GroupTe& te, const plan::GroupPlan& plan,
                      const GroupOptions& options);

/// Operations of the sums of products of `program`: 2 for each multiply and add.
double contraction_flop(const te::Program& program);

}  // namespace tw::driver
