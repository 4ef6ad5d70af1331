// How long each group takes in which layouts of the values that it reads and writes (mechanism D6).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "driver/layouts/layout_labels.h"

namespace tw::driver {

/// A group with one layout of each value that has a choice.
struct Configuration {
  std::vector<int> labels;  // of each port
  std::string text;         // text_of() its te; empty: a view, which takes no time
  double us = 0;            // with its best candidate
  bool is_known = false;    // measured, or a view
};

struct GroupLayouts {
  size_t group = 0;
  std::vector<graph::ValueId> ports;          // values between groups that it reads or writes, each once
  size_t read = 0;                            // of the ports, the first: those that it reads
  std::vector<Configuration> configurations;  // the first one is as things are
};

/// All configurations of the groups, and those copies between layouts that somebody asks for.
class LayoutBench {
 public:
  /// All outlive the bench. Adds what is to be measured to `planner`.
  LayoutBench(const LayoutTask& task, const std::map<graph::ValueId, std::vector<Layout>>& labels, Planner& planner);

  /// Takes the times, after planner.decide().
  void take();
  const std::vector<GroupLayouts>& groups() const { return groups_; }

  /// A copy of the value from one of its layouts to another: adds it to the planner.
  void add_copy(graph::ValueId value, size_t from, size_t to);
  /// Its time; 0: not measured. From a layout to itself: the bytes as they lie, and no copy is faster.
  double copy_us(graph::ValueId value, size_t from, size_t to) const;

 private:
  std::vector<std::vector<int>> choices_of(const GroupLayouts& group) const;
  bool is_feasible(const GroupLayouts& group, const std::vector<int>& labels) const;
  void add(GroupLayouts& group, const std::vector<int>& labels);
  size_t count(graph::ValueId id) const { return labels_.at(id).size(); }

  const LayoutTask& task_;
  const std::map<graph::ValueId, std::vector<Layout>>& labels_;
  Planner& planner_;
  graph::Graph graph_;  // whose layouts are those of the configuration that is made
  std::vector<GroupLayouts> groups_;
  std::map<std::pair<graph::ValueId, std::pair<size_t, size_t>>, std::string> copies_;  // their text_of()
};

}  // namespace tw::driver
