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

}  // namespace tw::te
