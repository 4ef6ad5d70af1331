#include "ops/gradient/draws.h"

#include "expr/elementary.h"

namespace tw::ops {

void check_seed(const OpCall& call, size_t first) {
  require(call, call.has(first) == call.has(first + 1), "a seed needs a step, and a step a seed");
  for (const size_t k : {first, first + 1}) {
    if (!call.has(k)) continue;
    require(call, call.inputs[k] == TensorType{DataType::i64(), {}}, "its {} is {}, expected i64[]",
            k == first ? "seed" : "step", to_string(call.inputs[k]));
  }
}

Expr te_word(const Draw& draw, const Expr& counter, const Expr& word, const DrawSource& source) {
  const auto as_word = [](const Expr& e) { return cast(ScalarType::kU32, e); };
  const auto words = [](uint32_t value) { return int_imm(value, ScalarType::kU32); };
  const Expr upper = binary(Op::kShiftRight, source.seed, Expr(32));
  return call(std::string(kPhilox), {as_word(word), as_word(counter), words(draw.seed), as_word(source.step),
                                     words(draw.stream), as_word(source.seed), as_word(upper)});
}

std::array<uint32_t, 4> words_of(const Draw& draw, int64_t counter, Refs source) {
  const auto seed = static_cast<uint64_t>(source[0].ints[0]);
  const auto step = static_cast<uint32_t>(source[1].ints[0]);
  return philox4x32({static_cast<uint32_t>(counter), draw.seed, step, draw.stream},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

Expr row_major(const Exprs& i, const Shape& shape) {
  const Shape strides = row_major_strides(shape);
  Expr element = 0;
  for (size_t k = 0; k < i.size(); ++k) element = element + i[k] * Expr(strides[k]);
  return element;
}

}  // namespace tw::ops
