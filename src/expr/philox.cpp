// The function philox of expressions as integer arithmetic.
#include "core/philox.h"

#include "expr/math_builder.h"

namespace tw {

Expr expand_philox(const std::vector<Expr>& args, const Share& share) {
  const int lanes = args[0].type().lanes();
  const DataType word(ScalarType::kU32), wide(ScalarType::kU64);
  const auto number = [lanes](int64_t value, DataType type) { return int_imm(value, type.with_lanes(lanes)); };
  const auto kept = [&](const Expr& e) { return share ? share(e) : e; };
  const auto product = [&](size_t k, const Expr& x) {
    return kept(cast(wide, x) * number(kPhiloxMultipliers[k], wide));
  };
  const auto high = [&](const Expr& e) { return cast(word, shift_right(e, number(32, wide))); };
  std::vector<Expr> c(args.begin() + 1, args.begin() + 5), key(args.begin() + 5, args.end());
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const Expr left = product(0, c[0]), right = product(1, c[2]);
    c = {kept(bit_xor(bit_xor(high(right), c[1]), key[0])), cast(word, right),
         kept(bit_xor(bit_xor(high(left), c[3]), key[1])), cast(word, left)};
    for (size_t k = 0; k < key.size(); ++k) key[k] = key[k] + number(kPhiloxWeyl[k], word);
  }
  const Expr upper = select(args[0] == number(2, word), c[2], c[3]);
  return select(args[0] == number(0, word), c[0], select(args[0] == number(1, word), c[1], upper));
}

}  // namespace tw
