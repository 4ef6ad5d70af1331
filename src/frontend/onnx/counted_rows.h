// Selections whose number comes out of a run.
#pragma once
#include "frontend/onnx/context.h"

namespace tw::frontend {

/// Whether what comes out of a run may be selected; else what decides must be known at import.
bool counts_rows(NodeContext& c);

/// Numbers of the elements that are wanted, in the order of their ranks.
struct Selected {
  graph::ValueId numbers;  // i64[bound]; 0 behind the last one
  int64_t bound;           // all of them are there where they are known at import
};

/// Of the elements of `wanted`, bool[n], those that are true, in their order. There is room for as many as the option
/// says for the node's first output (ImportOptions::bounds), without one for n. A run in which there are more ends with
/// an error. Unsupported in a loop's body.
Selected select_true(NodeContext& c, graph::ValueId wanted);

/// The same in the order of `ranks`, i64[n]: 0, 1, .. for those that are wanted.
Selected select_ranked(NodeContext& c, graph::ValueId wanted, graph::ValueId ranks);

}  // namespace tw::frontend
