// Philox4x32-10 as a function, as an operand of expressions and as their arithmetic, beside its published answers.
#include "core/philox.h"

#include <gtest/gtest.h>

#include <random>

#include "expr/elementary.h"
#include "expr/expand.h"
#include "tests/expr/tape.h"

namespace tw {
namespace {

using testing::Tape;

struct Answer {
  std::array<uint32_t, 4> counter;
  std::array<uint32_t, 2> key;
  std::array<uint32_t, 4> words;
};
// Random123 1.14.0, tests/kat_vectors: philox4x32 10.
constexpr Answer kAnswers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(Philox, GivesThePublishedWords) {
  for (const Answer& a : kAnswers) EXPECT_EQ(philox4x32(a.counter, a.key), a.words);
}

TEST(Philox, IsThatOfExpressions) {
  const ElementaryFunction& f = *find_elementary(kPhilox);
  for (const Answer& a : kAnswers) {
    std::vector<double> args = {0};
    args.insert(args.end(), a.counter.begin(), a.counter.end());
    args.insert(args.end(), a.key.begin(), a.key.end());
    for (size_t w = 0; w < 4; ++w) {
      args[0] = static_cast<double>(w);
      EXPECT_EQ(f.reference(args.data()), a.words.at(w)) << w;
    }
  }
}

// The published answers stand in the first lanes, random counters behind them.
void expect_expansion(int lanes) {
  const std::vector<std::string> names = {"w", "c0", "c1", "c2", "c3", "k0", "k1"};
  const DataType word = DataType(ScalarType::kU32, lanes);
  std::vector<Expr> args;
  for (const std::string& name : names) args.push_back(var(name, word));
  const Expr expanded = expand_elementary(call(std::string(kPhilox), args));
  ASSERT_EQ(expanded.type(), word);
  std::vector<Tape::Block> in(names.size());
  std::mt19937_64 random(3);
  for (auto& block : in) {
    for (uint64_t& x : block) x = static_cast<uint32_t>(random());
  }
  for (uint64_t& w : in[0]) w %= 4;
  for (size_t i = 0; i < 4 * std::size(kAnswers); ++i) {
    const Answer& a = kAnswers[i / 4];
    in[0][i] = i % 4;
    for (size_t k = 0; k < 4; ++k) in[1 + k][i] = a.counter.at(k);
    for (size_t k = 0; k < 2; ++k) in[5 + k][i] = a.key.at(k);
  }
  Tape::Block out;
  Tape(expanded, names).eval(in, &out);
  const auto at = [&](size_t k, size_t i) { return static_cast<uint32_t>(in[k][i]); };
  for (size_t i = 0; i < Tape::kBlock; ++i) {
    const auto want = philox4x32({at(1, i), at(2, i), at(3, i), at(4, i)}, {at(5, i), at(6, i)}).at(at(0, i));
    ASSERT_EQ(static_cast<uint32_t>(out[i]), want) << i;
  }
}

TEST(Philox, ExpandsToIntegerArithmetic) {
  for (const int lanes : {1, 8, 16}) expect_expansion(lanes);
}

// 4000 bits of each place of the four words: a place that is biased or constant would show.
TEST(Philox, EveryBitIsEvenlySet) {
  std::array<int, 128> set = {};
  for (uint32_t i = 0; i < 4000; ++i) {
    const auto words = philox4x32({i, 0, 0, 0}, {7, 0});
    for (size_t b = 0; b < set.size(); ++b) set.at(b) += static_cast<int>(words.at(b / 32) >> b % 32 & 1);
  }
  for (const int count : set) EXPECT_NEAR(count, 2000, 5 * 31.6) << "five standard deviations";
}

}  // namespace
}  // namespace tw
