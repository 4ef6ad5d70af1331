// Groups that one kernel of somebody else's can compute: a sum of products, as a product of matrices or a convolution
// with the channels last, and the element-wise stages that follow it; attention.
#pragma once
#include <map>
#include <string>

#include "construct/construct.h"
#include "construct/library/sum_epilogue.h"
#include "runtime/format/problem.h"

namespace tw::construct {

struct Implementable {
  format::ProblemDescriptor problem;  // all of attention, the sum alone of others; operands' names are the program's
  SumEpilogue epilogue;               // of the sum
  std::map<std::string, Layout> layouts;  // of constants, as the problem has them
  schedule::Schedule schedule;            // all stages in one kernel of plain loops
  std::string output;                     // the stage that is this kernel

  /// The construction by which `implementation` computes the kernel.
  Construction by(loop::Implementation implementation) const;
};

/// The problem that a group is, or why it is none. Values between its stages may be rounded in the group; the problem
/// rounds its result only.
Result<Implementable> match_implementable(const GroupTask& task);

}  // namespace tw::construct
