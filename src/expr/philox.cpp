// The function philox of expressions as integer arithmetic. Words stand in u64, whose upper halves are whatever they
// are: a product of two lower halves is one instruction of vectors, and nothing needs to be narrowed on the way.
#include "core/philox.h"

#include "expr/math_builder.h"

namespace tw {
namespace {

constexpr DataType kWord(ScalarType::kU32), kWide(ScalarType::kU64);
constexpr int64_t kLowerHalf = 0xffffffff;
using Words = std::array<Expr, 4>;

class Rounds {
 public:
  Rounds(int lanes, const Share& share) : lanes_(lanes), share_(share) {}

  /// All words of a counter (args[1..4]) and a key (args[5..6]), u32 of these lanes.
  Words run(const std::vector<Expr>& args) const {
    const auto wide = [&](size_t k) { return cast(kWide, args[k]); };
    Words c = {wide(1), wide(2), wide(3), wide(4)};
    std::array<Expr, 2> key = {wide(5), wide(6)};
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const Expr left = product(0, c[0]), right = product(1, c[2]);
      c = {mixed(right, c[1], key[0]), right, mixed(left, c[3], key[1]), left};
      for (size_t k = 0; k < key.size(); ++k) key.at(k) = key.at(k) + number(kPhiloxWeyl.at(k));
    }
    return {narrow(c[0]), narrow(c[1]), narrow(c[2]), narrow(c[3])};
  }

 private:
  Expr number(int64_t value) const { return int_imm(value, kWide.with_lanes(lanes_)); }
  Expr kept(const Expr& e) const { return share_ ? share_(e) : e; }
  Expr product(size_t k, const Expr& x) const {
    return kept(bit_and(x, number(kLowerHalf)) * number(kPhiloxMultipliers.at(k)));
  }
  Expr mixed(const Expr& product, const Expr& word, const Expr& key) const {
    return kept(bit_xor(bit_xor(shift_right(product, number(kWordBits)), word), key));
  }
  Expr narrow(const Expr& e) const { return kept(cast(kWord, e)); }

  static constexpr int64_t kWordBits = 32;
  int lanes_;
  const Share& share_;
};

// Counters of lanes that follow each other, each of the same number of lanes: first, first + 1, ..
struct Counters {
  Expr first;
  int count = 1;
};

// Of base + lane / 4, or lane / 8, or one for all lanes.
std::optional<Counters> counters_of(const Expr& counter) {
  const Expr e = counter.op() == Op::kCast ? counter.arg(0) : counter;
  const int lanes = e.type().lanes();
  if (e.op() == Op::kBroadcast) return Counters{e.arg(0), 1};
  for (const int lanes_of_one : {4, 8}) {
    if (lanes % lanes_of_one != 0) continue;
    const auto is_part = [&](const Expr& x) {
      return equal(x, floor_div(ramp(Expr(0), Expr(1), lanes), broadcast(Expr(lanes_of_one), lanes)));
    };
    const int count = lanes / lanes_of_one;
    if (is_part(e)) return Counters{Expr(0), count};
    for (const size_t k : {0, 1}) {
      if (e.op() == Op::kAdd && e.arg(k).op() == Op::kBroadcast && is_part(e.arg(1 - k)))
        return Counters{e.arg(k).arg(0), count};
    }
  }
  return std::nullopt;
}

// The operands of `counters` alone, where lanes are the words of counters one after the other, as those of neighbouring
// elements are. Nothing for others.
std::optional<std::vector<Expr>> of_counters(const std::vector<Expr>& args, const Counters& counters) {
  const int lanes = args[0].type().lanes();
  const Expr places = ramp(Expr(0), Expr(1), lanes);
  const Expr in_turn = lanes == 4 ? places : floor_mod(places, broadcast(Expr(4), lanes));
  if (counters.first.type() != DataType::i64() || !equal(args[0], cast(kWord, in_turn))) return std::nullopt;
  const auto repeated = [&](const Expr& x) { return counters.count == 1 ? x : broadcast(x, counters.count); };
  const Expr first = repeated(counters.first);
  std::vector<Expr> narrow = {args[0]};
  narrow.push_back(cast(kWord, counters.count == 1 ? first : first + ramp(Expr(0), Expr(1), counters.count)));
  for (size_t k = 2; k < args.size(); ++k) {
    if (args[k].op() != Op::kBroadcast) return std::nullopt;
    narrow.push_back(repeated(args[k].arg(0)));
  }
  return narrow;
}

// Lane l is word l mod 4 of its counter.
Expr spread(const Words& words, int counters, int lanes) {
  const Expr place = ramp(Expr(0), Expr(1), lanes);
  Expr all;
  for (int lane = 0; lane < lanes; ++lane) {
    const Expr& word = words.at(static_cast<size_t>(lane % 4));
    const Expr own = broadcast(counters == 1 ? word : extract(word, lane * counters / lanes), lanes);
    all = all ? select(place == broadcast(Expr(lane), lanes), own, all) : own;
  }
  return all;
}

}  // namespace

Expr expand_philox(const std::vector<Expr>& args, const Share& share) {
  const int lanes = args[0].type().lanes();
  const auto counters = lanes % 4 == 0 ? counters_of(args[1]) : std::nullopt;
  if (const auto narrow = counters ? of_counters(args, *counters) : std::nullopt)
    return spread(Rounds(counters->count, share).run(*narrow), counters->count, lanes);
  const Words words = Rounds(lanes, share).run(args);
  const auto is_word = [&](int64_t w) { return args[0] == int_imm(w, kWord.with_lanes(lanes)); };
  const Expr upper = select(is_word(2), words[2], words[3]);
  return select(is_word(0), words[0], select(is_word(1), words[1], upper));
}

}  // namespace tw
