// The terms of a sum of products: the condition under which they are summed, and the axes that index their reads.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "te/te.h"

namespace tw::te {

/// `e` without conversions of type and roundings to tf32 around it.
Expr strip_casts(const Expr& e);

/// Conditions in axes of `sum`, a sum of products; where one of them fails, the term is zero: the parts of the guards
/// of operands that are padded with zeros (a && b of select(a && b, x, 0)). `find` gives the compute of a tensor, or
/// null.
std::vector<Expr> nonzero_conditions(const Compute& sum,
                                     const std::function<const Compute*(const std::string& tensor)>& find);

/// Reduction steps inside a test for zero terms, from which the test costs little beside them.
inline constexpr int64_t kMinTestedSteps = 8;

/// The body of a sum without the condition under which its terms are summed: e of select(condition, e, 0), else the
/// body itself.
Expr summed_term(const Expr& body);

/// The dimension of `read` whose index is exactly `axis`, or -1.
int dim_of_axis(const Expr& read, const std::string& axis);
/// By how many points of `pixel` `read` moves from a turn of `position` to the next; 0: otherwise than along that axis.
int64_t position_distance(const Expr& read, const std::string& pixel, const std::string& position);
/// Whether any index of `read` uses `axis`.
bool uses_axis(const Expr& read, const std::string& axis);

}  // namespace tw::te
