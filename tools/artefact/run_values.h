// What a finished run left behind: every value of the graph of groups that can be read back.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "artefact/session.h"
#include "graph/graph.h"

namespace tw::artefact {

class RunValues {
 public:
  /// Of the last run of `session`, an artefact of `graph`, or of a loop with that body, whose buffers do not share
  /// memory; of a loop those of its last turn. Both must outlive this.
  RunValues(const graph::Graph& graph, Session& session, const std::vector<graph::RefTensor>& inputs,
            const std::vector<graph::RefTensor>& outputs);

  /// The value in logical order, until forget(); null when it has no place of its own (a view that is stored in an
  /// output).
  const graph::RefTensor* find(graph::ValueId id);
  /// Lets go of what can be read again.
  void forget() { read_.clear(); }
  /// Whether an output came out at a smaller extent: nothing that lies in it can be read back.
  bool are_cut() const { return are_cut_; }

 private:
  void know_sources_of_views(graph::ValueId id);
  const graph::RefTensor* find_view(graph::ValueId id, const graph::Node& group);

  const graph::Graph& graph_;
  Session& session_;
  bool are_cut_ = false;
  std::map<graph::ValueId, graph::RefTensor> given_, read_;
  std::map<std::string, int> buffers_;  // by the name of the value
};

/// The elements of `value` in logical order from its storage, and the other way round.
std::vector<std::byte> from_storage(const graph::Value& value, std::span<const std::byte> stored);
std::vector<std::byte> to_storage(const graph::Value& value, std::span<const std::byte> logical);

}  // namespace tw::artefact
