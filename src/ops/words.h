// Words of neighbours along a summed axis (expr/word_product.h), as operators see them: attribute `words` is a format's
// name. Operators that multiply words: matmul_words, conv_words.
#pragma once

#include "expr/word_product.h"
#include "ops/common.h"

namespace tw::ops {

WordFormat word_format(const OpCall& call);
/// The product of two words in the call's format.
MultiplyFn product_of_words(const OpCall& call);

/// The tensor of `type` that holds `sums`; integers wrap.
RefTensor of_sums(const TensorType& type, std::vector<double> sums);

/// Input k of u8 or i8 less its zero point, input 2 + k where there is one, in i32. The zero
/// point has one element, or one for each index of `axis`.
te::Tensor less_zero_point(const OpCall& call, te::Builder& builder, const Tensors& inputs, size_t k, size_t axis);

/// Rejects a call whose input is not i32; not u8 or i8.
void require_words(const OpCall& call, size_t input);
void require_byte(const OpCall& call, size_t input);

/// All numbers of `words`, those of one word neighbours along an axis after which `inner` elements follow. Sums of
/// products of integers are exact in f64 below 2^53.
std::vector<double> unpacked(const std::vector<int64_t>& words, int64_t inner, WordFormat format, WordSide side);

}  // namespace tw::ops
