// Reading and making constants in passes.
#pragma once
#include <optional>

#include "graph/graph.h"
#include "graph/ref_tensor.h"

namespace tw::transform {

/// The one number that every element of a constant is; nothing when the value is no constant, is empty, or has elements
/// that differ. Constants above 4096 elements are not looked through.
std::optional<double> splat_of(const graph::Value& value);

/// Whether a constant is `wanted` as a model of this type writes it: to the type's precision, and not worse than f32.
bool is_about(double x, double wanted, DataType type);

/// Elements in f64 or i64.
graph::RefTensor elements_of(const graph::Value& constant);
/// Elements rounded to their type.
graph::Bytes bytes_of(const graph::RefTensor& tensor);

/// A constant of type `type` and shape [] that holds `number` rounded to it.
graph::Bytes scalar_bytes(DataType type, double number);

}  // namespace tw::transform
