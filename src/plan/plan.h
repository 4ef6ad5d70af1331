// The decision record of a compiled model: how its values are stored, for each group its implementation and the storage
// of its constants, with the other candidates and why they lost, and the machine parameters that all this was
// decided by. Compiled once more with its plan a model becomes the same code, whatever the machine parameters and the
// compiler's cost models say by then. Graph passes that only rewrite are no decisions: they run again, and a plan's
// groups are found by what they compute.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout.h"
#include "plan/reasons.h"
#include "schedule/schedule.h"

namespace tw::plan {

struct OtherCandidate {
  std::string family;
  std::string reason = {};   // why it cannot be the one: declined, wrong, not measured; empty: it has a time
  double microseconds = 0;   // measured, as GroupPlan::microseconds; 0: not
  double predicted_us = 0;   // by the constructor's model; 0: it has none
  bool is_rough = false;     // far slower, so that measuring it ended early
  int64_t equal_code = 0;    // how many more candidates became the same code
  std::string differs = {};  // how its schedule differs from the chosen one; of another family: how it was built
  friend bool operator==(const OtherCandidate&, const OtherCandidate&) = default;
};

/// The family of a group that is stored in the place of its input and has no code.
inline constexpr std::string_view kViewFamily = "view";
/// The family of a group whose kernels are those of a loop's body: the plan of that is in EntryPlan::bodies.
inline constexpr std::string_view kLoopFamily = "loop";

struct GroupPlan {
  std::string name;                            // ONNX nodes of the group
  std::string family;                          // who constructed the schedule, or kViewFamily
  std::map<std::string, Layout> layouts = {};  // of the te program's constant inputs
  schedule::Schedule schedule = {};
  double microseconds = 0;  // measured; 0: not measured
  std::vector<OtherCandidate> other_candidates = {};
  double predicted_us = 0;              // by the constructor's model; 0: it has none
  std::vector<std::string> trace = {};  // how the schedule was constructed, a line each
  std::string content = {};             // hash of what the group computes; empty for views, or: whatever has the name
  friend bool operator==(const GroupPlan&, const GroupPlan&) = default;
};

/// Whether kernels of its own compute the group.
inline bool has_code(const GroupPlan& group) { return group.family != kViewFamily && group.family != kLoopFamily; }

/// One variant of an optional graph pass against what it does by its own cost model: times of the groups that differ.
struct PassVariant {
  std::string pass;
  std::string variant;  // one of the pass's row (transform/pass.h)
  double us = 0, usual_us = 0;
  bool is_chosen = false;
  friend bool operator==(const PassVariant&, const PassVariant&) = default;
};

/// What the layouts of the values between groups do to the time of one of them.
struct LayoutTimes {
  std::string group;
  double usual_us = 0;     // as the layouts were before; 0: a copy that only the chosen ones need
  double chosen_us = 0;    // 0: a view, which takes no time
  std::vector<double> us;  // of all layouts that were measured, each with its best candidate
  friend bool operator==(const LayoutTimes&, const LayoutTimes&) = default;
};

/// Of all groups together.
struct LayoutTotals {
  double usual_us = 0, chosen_us = 0;  // the chosen ones with their copies
  double best_us = 0;                  // each group in the layouts that it likes best: no choice is faster
  int64_t groups = 0, layouts = 0;     // that were measured
};
LayoutTotals totals_of(const std::vector<LayoutTimes>& times);

/// One combination of input shapes on one target.
struct EntryPlan {
  std::string name;
  std::string graph_hash;                // of the graph as imported
  std::vector<GroupPlan> groups;         // one for each node of the graph of groups, in order
  std::string target = {};               // "cpu:x86-64-v4"
  std::vector<PassVariant> passes = {};  // what was measured of them
  ValueLayouts layouts = {};             // of the graph's values
  ValueLayouts between = {};             // of values between groups, where those were measured (pass reorder-values)
  std::vector<LayoutTimes> layout_times = {};
  std::string machine = {};  // the machine parameters, a line of JSON (driver/machine/parameters_file.h)
  Reasons reasons = {};      // of its groups and layouts; a replay makes them anew
  /// Of the bodies of its loops, in the order of their groups; each is named after this entry and its loop.
  std::vector<EntryPlan> bodies = {};
  friend bool operator==(const EntryPlan&, const EntryPlan&) = default;
};

/// The name of a plan for the body of a loop of `entry`, and the plan of that name; null: there is none.
std::string body_name(const EntryPlan& entry, std::string_view prefix);
const EntryPlan* find_body(const EntryPlan& entry, std::string_view name);

struct Plan {
  std::vector<EntryPlan> entries;  // those of a target one after the other
  /// The targets of the entries: "cpu:x86-64-v4, cpu:x86-64-v3".
  std::string targets() const;
  friend bool operator==(const Plan&, const Plan&) = default;
};

/// The layouts of a group's constant inputs, a line each.
std::string layouts_text(const GroupPlan& plan);
std::string to_string(const Plan& plan);
/// Inverse of to_string; throws UserError naming the line.
Plan parse_plan(std::string_view text);

}  // namespace tw::plan
