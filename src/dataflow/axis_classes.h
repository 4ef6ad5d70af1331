// Which axes of the computes of a te program are one axis of the operator: those that run along one dim of one tensor.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "te/te.h"

namespace tw::dataflow {

/// Two axes are of one class when both index one dim of a tensor as they are (t[.., i, ..]) and have its extent. Axes
/// of one compute are never of one class, whatever it reads: in x[i, j] + x[j, i] there are two.
class AxisClasses {
 public:
  explicit AxisClasses(const te::Program& program);

  /// The class of an axis of compute number `compute`, or -1 where that has no axis of this name.
  int of(size_t compute, const std::string& axis) const;
  int64_t extent(int axis_class) const { return extents_[static_cast<size_t>(axis_class)]; }
  int count() const { return static_cast<int>(extents_.size()); }

 private:
  std::map<std::pair<size_t, std::string>, int> classes_;
  std::vector<int64_t> extents_;
};

}  // namespace tw::dataflow
