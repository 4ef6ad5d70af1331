// How tensors inside a program are stored, where nobody says.
#pragma once
#include <map>
#include <string>

#include "te/te.h"

namespace tw::te {

/// Of the tensors of `program` that are neither inputs nor outputs: the order of dims of an output of the same shape,
/// else of an input in `layouts`, else of an output with as many dims, so that loops over both are the same loops.
/// `layouts` are those of inputs and outputs; what is left out is in the identical order.
std::map<std::string, Layout> followed_layouts(const Program& program, const std::map<std::string, Layout>& layouts);

}  // namespace tw::te
