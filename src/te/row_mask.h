// What a mask that is a function of indices leaves of the elements of a row.
#pragma once
#include <string>
#include <vector>

#include "te/te.h"

namespace tw::te {

/// A row's elements that count: those j for which all bounds hold. Others are a number so low that the exponential of
/// their distance to any other is 0.
struct RowMask {
  static constexpr double kLowest = -1e30;  // beside what is so low, sums of products of 16-bit floats are nothing
  /// of_j * j + rest >= 0.
  struct Bound {
    int64_t of_j = 0;
    Expr rest;
  };
  std::vector<Bound> bounds;  // none: there is no such mask
  Expr kept;                  // what elements that count are
};

/// The mask of s_j = bounds ? x : -1e30 or less, as `element` has it, a function of variable `j` and of the row.
RowMask mask_of(const Expr& element, const std::string& j);

/// Whether there is a mask, and it leaves each row, of those that axis `row` counts, some of its `length` elements.
bool leaves_each_some(const RowMask& mask, const Axis& row, int64_t length);

/// The conditions on indices without which `e`, of `program`, is 0: a select leaves that, or a factor is. Null: none
/// are known. What is infinite or no number counts as a number.
Expr nonzero_where(const Program& program, const Expr& e);

/// The condition under which it leaves some of the `count` elements from `first` on.
Expr leaves_some(const RowMask& mask, const Expr& first, int64_t count);

}  // namespace tw::te
