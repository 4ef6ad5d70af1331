// What happens to a sum of products before it is stored, in terms that kernels of others can be told.
#pragma once
#include <string>

#include "core/precision.h"
#include "loop/implementation.h"
#include "runtime/format/problem.h"
#include "support/error.h"
#include "te/te.h"

namespace tw::construct {

/// A tensor as problems name it, without strides.
format::Operand operand_of(const te::Tensor& tensor);

using loop::SumEpilogue;

/// What `last`, which reads the sums of the stage `sum` point by point, makes of them; a reason where that depends on
/// more than the sum, operands of its columns and operands of its points. Values between stages are not rounded.
Result<SumEpilogue> find_epilogue(const te::Program& program, const te::Compute& last, const std::string& sum);

/// `product` followed by `epilogue`, where it is one that problems have: late_residual + activation(sum + bias +
/// residual). Other functions of `precision` strict than minima and maxima are left to our own kernels.
Result<format::ProblemDescriptor> with_epilogue(format::ProblemDescriptor product, const SumEpilogue& epilogue,
                                                Precision precision);

}  // namespace tw::construct
