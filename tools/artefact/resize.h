// Tensors of an entry's own shapes and of the smaller ones that it serves (format::Extent).
#pragma once
#include <vector>

#include "artefact/session.h"

namespace tw::artefact {

/// For each element of a tensor of shape `to` the place of that of shape `from`, of the same rank and not empty, at the
/// same indices, or the nearest ones that there are: rows that are missing are like the last one.
std::vector<size_t> nearest_elements(const Shape& from, const Shape& to);

/// The tensor with another shape by nearest_elements().
Array resized(const Array& array, const Shape& shape);
graph::RefTensor resized(const graph::RefTensor& tensor, const Shape& shape);

}  // namespace tw::artefact
