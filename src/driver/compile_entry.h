// One entry of an artefact: a graph for one combination of input shapes on its way to lowered groups.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "driver/artefact/compiled.h"
#include "driver/code/group_code.h"
#include "driver/dump.h"
#include "driver/options.h"
#include "driver/states.h"
#include "driver/stored_constants.h"
#include "driver/tune/planner.h"

namespace tw::driver {

/// The different loop programs of all entries: equal ones share their code.
class ProgramSet {
 public:
  struct Lowered {
    LoweredGroup group;
    int program = -1;  // index in programs()
  };
  /// What add() was given under `key`; null: nothing.
  const Lowered* find(const std::string& key) const;
  /// Adds the loops of a group of that name, and their program unless an equal one is there. `key` tells what they were
  /// made from.
  const Lowered& add(const std::string& key, LoweredGroup group, const std::string& name);
  const std::vector<loop::Program>& programs() const { return programs_; }
  /// The first group that needs program `p`.
  const std::string& group(size_t p) const { return groups_[p]; }
  int64_t kernels() const;

 private:
  std::vector<loop::Program> programs_;
  std::vector<std::string> groups_;
  std::map<std::string, int> index_;        // text -> index in programs_
  std::map<std::string, Lowered> lowered_;  // by key
};

/// What the entries of one compilation share.
struct EntryContext {
  const CompileOptions& options;
  const graph::OpTable& ops;
  const targets::Target& target;
  Planner& planner;
  ProgramSet& programs;
  Cubins& cubins;
  std::vector<PassTime>& times;
  std::vector<std::string>& warnings;
  StateLayouts& states;
  StoredConstants* constants;      // null: each entry stores them as it likes
  const plan::EntryPlan* nearest;  // of the function's entry that was compiled before this one; null: it is the first
  /// Of the function that was compiled first, for the same shapes: its variants of passes and its groups' families and
  /// tiles hold here, too. Null: this is of that function.
  const plan::EntryPlan* first_function;
};

/// Transforms `source`, plans its groups (or replays `replay`, and plans those that it does not have, with a warning)
/// and lowers them. UsageError for a plan of another model. Nothing when options.stop_after ended
/// the passes before. Dumps go to `dumper`.
std::optional<EntryCode> compile_entry(const EntryContext& context, const std::string& name, const graph::Graph& source,
                                       const plan::EntryPlan* replay, Dumper& dumper);

}  // namespace tw::driver
