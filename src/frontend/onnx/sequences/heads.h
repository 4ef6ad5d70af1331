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

/// Of each head of `a` [B, N, S, E] with the one of `b` that it shares with its neighbours: repeated, which is nothing
/// where a product reads it, and no product of few rows does (pass join-rows).
graph::ValueId shared_product(Emitter& e, graph::ValueId a, graph::ValueId b);
/// Queries times keys, [B, N, S, E] and [B, N / r, L, E], times `scale`: [B, N, S, L].
graph::ValueId scaled_scores(Emitter& e, graph::ValueId queries, graph::ValueId keys, double scale);
/// cap tanh(scores / cap); the scores for a cap of 0 or less.
graph::ValueId capped_scores(Emitter& e, graph::ValueId scores, double cap);
/// To add to scores: 0 for keys up to a query's own place, of which the last `window` ones count, minus infinity for
/// others: [queries, keys]. The queries are those behind `past` keys.
graph::ValueId causal_mask(Emitter& e, int64_t past, const Shape& scores, DataType type, int64_t window = INT64_MAX);
/// first, first + 1, .. `count` numbers as i64 of `shape`.
graph::ValueId positions(Emitter& e, int64_t first, int64_t count, const Shape& shape);

/// Which elements of a head are turned together.
enum class Pairs : uint8_t { kHalves, kNeighbours };
/// The first elements of each head of `x` [B, H, S, E] turned by the angles whose cosines and sines [B or 1, 1, S, n]
/// are given, 2 n of them: (x1 cos - x2 sin, x1 sin + x2 cos) for each pair.
graph::ValueId rotated(Emitter& e, graph::ValueId x, graph::ValueId cos, graph::ValueId sin, Pairs pairs);

}  // namespace tw::frontend
