// A graph of groups, and the maths of each that needs code.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "driver/tune/planner.h"
#include "graph/repeat.h"
#include "support/work_watch.h"
#include "transform/in_place.h"

namespace tw::driver {

struct EntryGroups {
  graph::Graph graph;
  /// Groups whose output is stored in the place of their input: a view needs no step. Output value -> input value.
  /// A view of an input or constant that leaves the graph is no alias, nor is one of two outputs on one storage, nor
  /// the next value of a state, which is written behind all that reads the state.
  std::map<graph::ValueId, graph::ValueId> aliases = {};
  // Of each node of `graph`; empty for views and loops. Groups of thousands of steps are a few different ones: the
  // program of a te, and its text_of(), is kept with the first group that has it.
  std::vector<GroupTe> te = {};
  std::vector<std::string> texts = {};
  std::vector<size_t> first = {};

  bool is_view(size_t i) const { return aliases.contains(graph.nodes[i].outputs[0]); }
  bool is_loop(size_t i) const { return graph::loop_of(graph.nodes[i]) != nullptr; }
  /// Whether kernels of its own compute the group: a view needs none, a loop those of its body.
  bool has_code(size_t i) const { return !is_view(i) && !is_loop(i); }
  const te::Program& program(size_t i) const { return te[first[i]].program; }
  const std::string& text(size_t i) const { return texts[first[i]]; }
};

EntryGroups entry_groups(graph::Graph graph, const graph::OpTable& ops, const targets::Target& target,
                         const std::vector<transform::StateNames>& states, WorkWatch* watch = nullptr);

/// Whether a pass that changes nothing may have made one of the other: values may have other numbers.
bool is_alike(const graph::Graph& a, const graph::Graph& b);

/// Two graphs that compute the same, one by the usual variant of a pass, one by another of its variants.
class VariantComparison {
 public:
  /// Adds the groups that one graph has more often than the other to `planner`, to be measured.
  VariantComparison(plan::PassVariant variant, const EntryGroups& usual, const EntryGroups& other, Planner& planner);
  /// The times, when `planner` has decided; nothing where the graphs do not differ or some time is not known.
  std::optional<plan::PassVariant> times(const Planner& planner) const;
  /// The groups of the usual variant that the other one does not have, by their text.
  std::set<std::string> replaced() const;

 private:
  struct Surplus {
    std::string name;
    GroupTe te;
    int64_t uses = 0;  // in the usual variant, less those in the other
  };
  plan::PassVariant variant_;
  std::map<std::string, Surplus> groups_;  // by text
};

/// The variants that save more than times of the same code differ by, those that save most first: one of each pass, and
/// one of those that replace the same groups, since each was measured without the other. `replaced` is of each variant.
void choose_variants(std::vector<plan::PassVariant>& variants, const std::vector<std::set<std::string>>& replaced);

}  // namespace tw::driver
