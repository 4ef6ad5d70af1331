// What happens to a sum of products before it is stored, in terms that kernels of others can be told.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/precision.h"
#include "runtime/format/problem.h"
#include "support/error.h"
#include "te/te.h"

namespace tw::construct {

/// A tensor as problems name it, without strides.
format::Operand operand_of(const te::Tensor& tensor);

struct SumEpilogue {
  /// What is read beside the sum: an element for each column (a bias), or for each element of the result (a residual).
  struct Operand {
    std::string name;
    DataType type = DataType::f16();
    bool is_tensor = false;
    friend bool operator==(const Operand&, const Operand&) = default;
  };
  Expr value = var("x0", DataType::f32());  ///< f32, of x0, the f32 sum, and x1, x2, .. of the operands in their types
  std::vector<Operand> operands;
};

/// What `last`, which reads the sums of the stage `sum` point by point, makes of them; a reason where that depends on
/// more than the sum, operands of its columns and operands of its points. Values between stages are not rounded.
Result<SumEpilogue> find_epilogue(const te::Program& program, const te::Compute& last, const std::string& sum);

/// `product` followed by `epilogue`, where it is one that problems have: late_residual + activation(sum + bias +
/// residual). Other functions of `precision` strict than minima and maxima are left to our own kernels.
Result<format::Problem> with_epilogue(format::Problem product, const SumEpilogue& epilogue, Precision precision);

/// "x2:f16:column,x3:f16:point max(((x0 + cast<f32>(x1)) + cast<f32>(x2)), 0:f32)".
std::string to_string(const SumEpilogue& epilogue);
/// Inverse of to_string; UserError for any other text.
SumEpilogue parse_epilogue(std::string_view text);

}  // namespace tw::construct
