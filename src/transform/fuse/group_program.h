// The maths of a group that fusion thinks of making, as the driver will give it to the constructors.
#pragma once
#include <string>

#include "graph/op.h"
#include "te/te.h"
#include "transform/names.h"

namespace tw::transform {

/// Of `body`, as its values are stored; tensors inside follow the last output where they have its rank. Outputs of one
/// space are one compute, neighbouring axes are merged.
/// `nodes`, if given, gets who computes its tensors (graph::GroupProgram::nodes).
te::Program stored_program(const Graph& body, const graph::OpTable& ops,
                           std::map<std::string, std::string>* nodes = nullptr);

/// `group` without names and elements of constants: groups of one text have one stored_program() but for its name.
std::string shape_of_group(const Graph& group);

}  // namespace tw::transform
