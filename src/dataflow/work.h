// The work of an operator, counted from its te program: operations, and words read and written.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "te/te.h"

namespace tw::dataflow {

/// A flop is an addition, subtraction, multiplication or division of elements, floats or whole numbers, and a call of
/// an elementary function (exp, sqrt, erf, ..); a fused multiply-add is two. A sum or product of n terms is n flop, so
/// that a term of a sum of products is two. Nothing else is one: comparisons, min, max, selects, changes of sign,
/// absolute values, roundings, conversions, operations on bits, random words, and all that computes an index. So ReLU
/// has none, which is how Ivanov et al. count (Data Movement Is All You Need, table III).
///
/// An operation counts once for each point of the axes that its operands depend on, and once where several computes of
/// the program have it with the same operands: x - mean of a layer norm, which the variance and the result both need.
/// Where a sum has a condition that no element decides, only the terms for which it holds count; and of a transposed
/// convolution, whose definition reads zeros between its elements, only products with elements.
/// What is only read where an element says so, the fallback of a Winograd convolution, does not count.
double flop_of(const te::Program& program);

/// Whether elements decide at run time if `tensor` is read: all loads of it are in branches that such selects pick.
bool is_read_on_demand(const te::Program& program, const std::string& tensor);

/// Of each input, how many of its elements the program reads at most; each counts once. Slices and gathers read a part.
std::map<std::string, int64_t> words_read(const te::Program& program);

/// Elements of all outputs.
int64_t words_written(const te::Program& program);

/// Whether the program only gives its input another shape: its elements in their order. Nothing is moved for it.
bool is_view(const te::Program& program);

}  // namespace tw::dataflow
