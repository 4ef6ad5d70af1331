// The layouts of values between groups that take the least time over the whole graph (mechanism D7).
#pragma once
#include <functional>
#include <vector>

#include "driver/layouts/layout_labels.h"

namespace tw::driver {

struct LayoutChoice {
  ValueLayouts between;                  // what differs from the layouts that values have; empty: nothing is faster
  std::vector<plan::LayoutTimes> times;  // of each group that takes time, and of each copy
  std::string declined;                  // why nothing was chosen, where that is no matter of times
};

/// Measures all groups with all layouts and chooses: a node for each value and each read of it, the costs of a group
/// over its nodes, a copy where a read differs from its value; the least of all by elimination (support/many_labels.h).
/// Readers that want the same share a copy; of values of many layouts each pays for it in the choice, so that it may
/// miss one that pays for several only. A copy is measured where a choice would take it: one that is not
/// counts as fast as the bytes copied in their order, so that no faster choice is missed.
/// `decide` has the planner decide what was added to it.
LayoutChoice choose_layouts(const LayoutTask& task, Planner& planner, const std::function<void()>& decide);

}  // namespace tw::driver
