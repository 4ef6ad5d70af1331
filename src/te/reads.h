// What schedules and layouts ask about the maths: which tensors a program reads, where, and whether indices divide.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "te/te.h"

namespace tw::te {

/// What a program reads and computes: its inputs, then the outputs of its computes.
std::vector<Tensor> all_tensors(const Program& program);

/// Calls on every load in the bodies of `compute`; on one that is shared within a body once.
void visit_reads(const Compute& compute, const std::function<void(const Expr& load)>& visit);

/// The loads of any of `tensors` in `compute`.
std::vector<Expr> reads_of(const Compute& compute, const std::vector<Tensor>& tensors);

/// Whether `e` loads an element of `tensor`.
bool reads(const Expr& e, const std::string& tensor);

/// The same read of another tensor.
Expr read_from(const Expr& load, const std::string& tensor);

/// Number of loads of `tensor` in one compute; of every tensor that is read, in all of a program.
int count_reads(const Compute& compute, const std::string& tensor);
std::map<std::string, int> count_reads(const Program& program);

/// The loads of `tensor` in `compute` that differ from each other, in order.
std::vector<Expr> distinct_reads(const Compute& compute, const std::string& tensor);

/// Whether `compute` reads `tensor`, itself or through the computes that it reads.
bool depends_on(const Program& program, const Compute& compute, const std::string& tensor);

/// The number of the element that `load` reads, among those of a tensor of `shape` in row-major order.
Expr element_number(const Expr& load, const Shape& shape);

/// The largest number to which `program` limits what it reads of `tensor`, as an index of a gather is limited to its
/// axis; nothing where it limits none, or to less than 1.
std::optional<int64_t> largest_index(const Program& program, const std::string& tensor);

/// Number of leading indices of `load` that are the leading axes of `compute`, unchanged.
size_t own_axes(const Compute& compute, const Expr& load);

/// The axis of `compute` that index `d` of `load` is, or null; where it is 0, the axis in that place, if that has one
/// element.
const Axis* own_axis(const Compute& compute, const Expr& load, size_t d);

/// Whether `compute` reads `tensor` only at its own point: index d is axis d.
bool reads_own_point(const Compute& compute, const std::string& tensor);

/// The product of all numbers by which `program` divides whole numbers (kFloorDiv, kFloorMod), so that each divides it,
/// and the product of those that meet when one compute is inlined into another. 0, which every number divides, when it
/// has no 64 bits or a divisor is no constant; 1 when nothing is divided.
int64_t common_divisor(const Program& program);

// ---- The terms of a sum of products: the condition under which they are summed, and the axes that index their reads
// (sum_terms.cpp).

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
