// Reading tensors between their elements: neighbours with weights.
#pragma once
#include <array>

#include "frontend/onnx/emitter.h"

namespace tw::frontend {

/// One neighbour of every sampled point: its element (along an axis, or of all pixels) and what it counts.
struct Neighbour {
  graph::ValueId index, weight;
};

/// pixels [N, C, elements] at index [N, points], times weight [N, points]: [N, C, points].
graph::ValueId weighted_pixels(Emitter& e, graph::ValueId pixels, const Neighbour& at);

/// The neighbours of points with one neighbour a row and one a column, as elements of a picture `columns` wide. Both
/// may broadcast against each other.
Neighbour crossed(Emitter& e, const Neighbour& row, const Neighbour& column, int64_t columns);

/// The elements below and above a coordinate in [0, extent - 1] along an axis, with the weights of linear
/// interpolation.
std::array<Neighbour, 2> linear_neighbours(Emitter& e, graph::ValueId coordinate, int64_t extent);

/// The neighbour at a whole coordinate along an axis; outside of the axis it counts nothing.
Neighbour zero_outside(Emitter& e, graph::ValueId coordinate, graph::ValueId weight, int64_t extent);

}  // namespace tw::frontend
