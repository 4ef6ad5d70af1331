// How the entries of an artefact store what they share.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "driver/code/group_code.h"
#include "graph/graph.h"

namespace tw::driver {

/// Constants by their elements, with the layouts in which entries that are compiled already store them.
class StoredConstants {
 public:
  void add(const graph::Value& constant, const Layout& layout);
  /// By input of `te`, a group of `graph`: the layouts, beyond that which it has so far, in which it is stored already.
  /// Inputs that are not stored yet are left out.
  std::map<std::string, std::vector<Layout>> inputs_of(const GroupTe& te, const graph::Graph& graph);
  /// Lets constants of `graph` that are equal to those of graphs before share their elements with them.
  void share_elements(graph::Graph& graph);
  /// Lets go of elements that no graph has any more.
  void end_entry();

 private:
  std::string key(const graph::Value& constant);

  graph::ContentHashes hashes_;
  std::map<std::string, std::vector<Layout>> layouts_;
  std::map<std::string, graph::Bytes> elements_;  // by hash
};

}  // namespace tw::driver
