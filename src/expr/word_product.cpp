#include "expr/word_product.h"

#include <array>

#include "support/error.h"

namespace tw {
namespace {

constexpr int kWordBits = 32;

struct Row {
  WordFormat format;
  std::string_view name;
  int numbers;
  bool left_signed;
  bool right_signed;
};
constexpr std::array<Row, 3> kRows = {{{WordFormat::kPairs, "pairs", 2, true, true},
                                       {WordFormat::kQuads, "quads", 4, false, true},
                                       {WordFormat::kBf16, "bf16", 2, true, true}}};

const Row& row_of(WordFormat format) { return kRows.at(static_cast<size_t>(format)); }

Expr number(int64_t value, const Expr& like) { return int_imm(value, DataType::i32().with_lanes(like.type().lanes())); }

Expr shifted(Op op, const Expr& e, int bits) { return bits == 0 ? e : binary(op, e, number(bits, e)); }

// A word as it reached an operation on vectors: itself, or what all lanes share, broadcast after its number was taken.
struct Place {
  Expr word;
  int lanes;  // 0: not broadcast
};

// The word below the operations that take its first number.
Place place_of(const Expr& e) {
  Place place{e, 0};
  if (e.op() == Op::kBroadcast) place = {e.arg(0), e.type().lanes()};
  const auto takes = [](Op op) {
    return op == Op::kAnd || op == Op::kShiftLeft || op == Op::kShiftRight || op == Op::kBitcast;
  };
  while (takes(place.word.op())) place.word = place.word.arg(0);
  return place;
}

Expr number_at(const Row& row, WordSide side, const Place& place, int k) {
  const Expr taken = number_of_word(row.format, side, place.word, k);
  return place.lanes == 0 ? taken : broadcast(taken, place.lanes);
}

// Adds and products of the k-th term of a sum of `count` products, from the outside; null when e is none.
Expr term_of(const Expr& e, int count, int k) {
  Expr sum = e;
  for (int last = count - 1; last > 0; --last) {
    if (sum.op() != Op::kAdd) return {};
    if (k == last) return sum.arg(1).op() == Op::kMul ? sum.arg(1) : Expr();
    sum = sum.arg(0);
  }
  return sum.op() == Op::kMul ? sum : Expr();
}

std::optional<WordOperands> match(const Row& row, const Expr& e) {
  const Expr first = term_of(e, row.numbers, 0);
  if (!first) return std::nullopt;
  const Place a = place_of(first.arg(0)), b = place_of(first.arg(1));
  const auto is_word = [](const Place& p) { return p.word.type().scalar() == ScalarType::kI32; };
  if (!is_word(a) || !is_word(b)) return std::nullopt;
  for (int k = 0; k < row.numbers; ++k) {
    const Expr term = term_of(e, row.numbers, k);
    const bool is_product = term && equal(term.arg(0), number_at(row, WordSide::kLeft, a, k)) &&
                            equal(term.arg(1), number_at(row, WordSide::kRight, b, k));
    if (!is_product) return std::nullopt;
  }
  const auto whole = [](const Place& p) { return p.lanes == 0 ? p.word : broadcast(p.word, p.lanes); };
  return WordOperands{row.format, whole(a), whole(b)};
}

}  // namespace

std::string_view to_string(WordFormat format) { return row_of(format).name; }

std::optional<WordFormat> parse_word_format(std::string_view text) {
  for (const Row& row : kRows) {
    if (row.name == text) return row.format;
  }
  return std::nullopt;
}

DataType sum_type(WordFormat format) { return format == WordFormat::kBf16 ? DataType::f32() : DataType::i32(); }

bool sums_words(const TargetInfo& target, WordFormat format) {
  if (format == WordFormat::kBf16) return has_feature(target, "avx512bf16");
  return has_feature(target, "avx512vnni") || has_feature(target, "avxvnni");
}

int numbers_of(WordFormat format) { return row_of(format).numbers; }

Expr pack_word(WordFormat format, std::span<const Expr> numbers) {
  const Row& row = row_of(format);
  TW_CHECK(static_cast<int>(numbers.size()) == row.numbers, "{} numbers for a word of {}", numbers.size(), row.numbers);
  const int bits = kWordBits / row.numbers;
  const int64_t mask = (int64_t{1} << bits) - 1;
  Expr word;
  for (int k = 0; k < row.numbers; ++k) {
    const Expr& x = numbers[static_cast<size_t>(k)];
    const bool last = k + 1 == row.numbers;
    const Expr part = shifted(Op::kShiftLeft, last ? x : binary(Op::kAnd, x, number(mask, x)), k * bits);
    word = word ? binary(Op::kOr, word, part) : part;
  }
  return word;
}

Expr number_of_word(WordFormat format, WordSide side, const Expr& word, int k) {
  const Row& row = row_of(format);
  const int bits = kWordBits / row.numbers;
  if (format == WordFormat::kBf16) {  // the upper half of an f32
    const Expr upper = k == 0 ? shifted(Op::kShiftLeft, word, bits) : binary(Op::kAnd, word, number(-1 << bits, word));
    return bitcast(DataType::f32().with_lanes(word.type().lanes()), upper);
  }
  if (side == WordSide::kLeft ? row.left_signed : row.right_signed)
    return shifted(Op::kShiftRight, shifted(Op::kShiftLeft, word, kWordBits - (k + 1) * bits), kWordBits - bits);
  return binary(Op::kAnd, shifted(Op::kShiftRight, word, k * bits), number((int64_t{1} << bits) - 1, word));
}

Expr word_product(WordFormat format, const Expr& a, const Expr& b) {
  Expr sum;
  for (int k = 0; k < numbers_of(format); ++k) {
    const Expr product = number_of_word(format, WordSide::kLeft, a, k) * number_of_word(format, WordSide::kRight, b, k);
    sum = sum ? sum + product : product;
  }
  return sum;
}

std::optional<WordOperands> match_word_product(const Expr& e) {
  if (e.op() != Op::kAdd) return std::nullopt;
  for (const Row& row : kRows) {
    if (sum_type(row.format).scalar() != e.type().scalar()) continue;
    if (std::optional<WordOperands> words = match(row, e)) return words;
  }
  return std::nullopt;
}

}  // namespace tw
