// Attention heads: how operators of the attention family pack and share them.
#pragma once
#include "frontend/onnx/emitter.h"

namespace tw::frontend {

/// [B, S, heads * E] as [B, heads, S, E]; 4-dimensional operands have that shape already. UserError for others.
graph::ValueId split_heads(Emitter& e, graph::ValueId x, int64_t heads);
/// The inverse: [B, heads, S, E] as [B, S, heads * E].
graph::ValueId join_heads(Emitter& e, graph::ValueId x);
/// [B, heads, S, E] with each head `repeat` times in a row: one for every query head that shares it.
graph::ValueId repeat_heads(Emitter& e, graph::ValueId x, int64_t repeat);

}  // namespace tw::frontend
