// Equal expressions of several computes of a te program have one number. Internal to the counting of work.
#pragma once
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "dataflow/axis_classes.h"

namespace tw::dataflow {

/// Two expressions are equal where axes of one class stand in the same places: exp of x[i, k] in a compute over i and k
/// and in a sum over k.
class ExprNumbers {
 public:
  explicit ExprNumbers(const te::Program& program) : classes_(program) {}

  int of(size_t compute, const Expr& e);
  /// Whether the value depends on an element of a tensor.
  bool reads(int number) const { return known_[static_cast<size_t>(number)].reads; }
  /// Points of all axes that the expression depends on, through indices, too.
  double points(int number) const;
  const AxisClasses& classes() const { return classes_; }

 private:
  struct Known {
    std::set<int> axes;  // classes
    bool reads = false;
  };
  AxisClasses classes_;
  std::map<std::string, int> numbers_;
  std::vector<Known> known_;
  std::map<size_t, std::unordered_map<const ExprNode*, int>> seen_;  // of each compute
};

}  // namespace tw::dataflow
