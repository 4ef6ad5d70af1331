// The closed list of operator families.
#pragma once
#include "graph/op.h"

namespace tw::ops {

/// All operators: one call for each family file of this folder, in list.cpp.
graph::OpTable all_ops();

}  // namespace tw::ops
