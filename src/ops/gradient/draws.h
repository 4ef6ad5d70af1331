// What operators that draw random numbers have in common (dropout, noise): Philox4x32-10 (core/philox.h) by counters,
// so that a number depends on its element's place alone. Counter: (c, attribute seed, step, stream), key: the halves of
// the input seed, the lower one first; each of them modulo 2^32.
#pragma once
#include "core/philox.h"
#include "ops/common.h"

namespace tw::ops {

/// Attributes seed (0) and stream (0), by which nodes of one step differ.
struct Draw {
  explicit Draw(const graph::Node& node)
      : seed(static_cast<uint32_t>(node.int_attr_or("seed", 0))),
        stream(static_cast<uint32_t>(node.int_attr_or("stream", 0))) {}

  uint32_t seed, stream;
};

/// Inputs seed i64[] and step i64[] number `first` and `first` + 1: both, or none.
void check_seed(const OpCall& call, size_t first);

/// Where the seed and the step are read.
struct DrawSource {
  Expr seed, step;
};

/// Word `word` (0 to 3) of counter `counter`, u32.
Expr te_word(const Draw& draw, const Expr& counter, const Expr& word, const DrawSource& source);
/// All words of a counter; `source` are the inputs seed and step.
std::array<uint32_t, 4> words_of(const Draw& draw, int64_t counter, Refs source);

/// The row-major number of the element at `i`.
Expr row_major(const Exprs& i, const Shape& shape);

}  // namespace tw::ops
