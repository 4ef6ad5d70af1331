// Words: an i32 that holds neighbours along the axis that a contraction sums, and the sum of the products of the
// numbers of two words. Vector machines have that sum as one instruction; to loops, tiles and layouts a word is an
// element.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/target_info.h"
#include "expr/expr.h"

namespace tw {

enum class WordFormat : uint8_t {
  kPairs,  // two 16-bit integers; x86: pmaddwd, exact where every number lies in [-32767, 32767]
  kQuads,  // four bytes, those of the left word unsigned, those of the right one signed; x86: vpdpbusd
  kBf16,   // two bf16, products and sum in f32; x86: vdpbf16ps, which rounds its sums in an order of its own and takes
           // subnormal numbers for zero: not for strict precision
};

/// "pairs", "quads", "bf16".
std::string_view to_string(WordFormat format);
/// Inverse of to_string; nothing if the text names no format.
std::optional<WordFormat> parse_word_format(std::string_view text);

/// Numbers in one word.
int numbers_of(WordFormat format);
/// Whether `target` sums the products of two words and a sum in one instruction.
bool sums_words(const TargetInfo& target, WordFormat format);
/// Type of products of words and of sums of them: i32 or f32.
DataType sum_type(WordFormat format);

/// The i32 word of `numbers` (as many as the format holds), i32 each (of bf16 the bits), the first one in the lowest
/// bits; what is beyond a number's width is cut off.
Expr pack_word(WordFormat format, std::span<const Expr> numbers);

enum class WordSide : uint8_t { kLeft, kRight };

/// Number `k` of a word, in the format's sum type.
Expr number_of_word(WordFormat format, WordSide side, const Expr& word, int k);

/// sum over k of number k of a times number k of b, in the format's sum type; i32 wraps.
Expr word_product(WordFormat format, const Expr& a, const Expr& b);

struct WordOperands {
  WordFormat format;
  Expr a;
  Expr b;
};
/// The words of an expression that word_product built, also after the number of a word that is the same in all lanes
/// was taken before it was broadcast; nothing for other expressions.
std::optional<WordOperands> match_word_product(const Expr& e);

}  // namespace tw
