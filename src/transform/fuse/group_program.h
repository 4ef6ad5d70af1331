// The maths of a group that fusion thinks of making, as the driver will give it to the constructors.
#pragma once
#include "graph/op.h"
#include "te/te.h"
#include "transform/names.h"

namespace tw::transform {

/// Of `body`, as its values are stored; tensors inside follow the last output where they have its rank. Outputs of one
/// space are one compute, neighbouring axes are merged.
te::Program stored_program(const Graph& body, const graph::OpTable& ops);

}  // namespace tw::transform
