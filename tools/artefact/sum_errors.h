// How errors of the terms of a sum add up.
#pragma once
#include <span>
#include <vector>

#include "graph/op.h"

namespace tw::artefact {

/// Of a sum of K terms the error, in units of one addition's: sqrt(K) where they differ, as errors of either sign come
/// to. Terms that are equal round alike, step for step: n of them err n times as much, and groups of them the root of
/// the sum of n^2. So do all that differ by less than `spacing`, that of the sum's own digits. Zeros are no terms:
/// adding one rounds nothing.
double error_growth(std::vector<double> terms, double spacing);

/// The same for each element of a reduction over axes of `in`; `u`: unit roundoff of the sums.
std::vector<double> error_growth_of_reduction(const graph::Node& reduction, const graph::RefTensor& in, double u);

/// For all elements of a product of matrices: its steps are equal where both the column and the row are,
/// and none where either is of zeros.
double error_growth_of_product(const graph::RefTensor& a, const graph::RefTensor& b);

/// Of each element of a normalization over rows, layer_norm, rms_norm, instance_norm and group_norm, the error that
/// those of the sums behind its mean and its variance make; zeros for other operators.
std::vector<double> error_of_statistics(const graph::Node& node, const std::vector<graph::RefTensor>& inputs, double u);

}  // namespace tw::artefact
