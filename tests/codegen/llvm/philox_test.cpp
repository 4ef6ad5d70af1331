// Words of Philox4x32-10 as CPU code: each counter once where lanes are the words of neighbouring counters.
#include "core/philox.h"

#include "expr/elementary.h"
#include "expr/expand.h"
#include "tests/codegen/llvm/harness.h"

namespace tw::codegen::cpu::testing {
namespace {

constexpr DataType kWord(ScalarType::kU32);
constexpr int64_t kFirst = (int64_t{1} << 32) - 2;  // counters wrap behind the second

// What is asked for in `lanes` neighbouring elements from a counter's first one on, `of_one` of each counter, as noise
// (4) and dropout (8) do; K holds c1 to c3, then the key.
Expr words_of_neighbours(int lanes, int of_one = 4) {
  const Expr places = ramp(Expr(0), Expr(1), lanes), four = broadcast(Expr(4), lanes);
  const Expr first = broadcast(load("A", DataType::i64(), {Expr(0)}), lanes);
  const Expr counter = lanes <= of_one ? first : first + floor_div(places, broadcast(Expr(of_one), lanes));
  std::vector<Expr> args = {cast(kWord, lanes == 4 ? places : floor_mod(places, four)), cast(kWord, counter)};
  for (int k = 0; k < 5; ++k) args.push_back(broadcast(load("K", kWord, {Expr(k)}), lanes));
  return call(std::string(kPhilox), args);
}

// The same in an order of lanes that is none of counters one after the other.
Expr words_in_turn(int lanes) {
  const Expr call_of_neighbours = words_of_neighbours(lanes);
  std::vector<Expr> args = call_of_neighbours->args;
  args[0] = cast(kWord, floor_mod(ramp(Expr(1), Expr(1), lanes), broadcast(Expr(4), lanes)));
  return call(std::string(kPhilox), args);
}

loop::Program program_of(const Expr& words) {
  const int lanes = words.type().lanes();
  loop::Program program{.name = "philox", .kernels = {}};
  program.kernels.push_back(
      make_kernel("k", {param("A", DataType::i64(), {1}), param("K", kWord, {5}), param("Y", kWord, {lanes})}, {"Y"},
                  {loop::make_store("Y", {ramp(Expr(0), Expr(1), lanes)}, words)}));
  return program;
}

loop::Memory memory_of(int64_t first, const std::vector<int64_t>& others, int lanes) {
  return {{"A", {DataType::i64(), {1}, {}, {first}}},
          {"K", {kWord, {5}, {}, others}},
          {"Y", {kWord, {lanes}, {}, std::vector<int64_t>(static_cast<size_t>(lanes))}}};
}

std::vector<int64_t> interpreted(const Expr& words, loop::Memory memory) {
  loop::interpret(program_of(words), memory);
  return memory.at("Y").ints;
}

int counters_at_once(const Expr& expanded) {
  int lanes = 0;
  visit(expanded, [&](const Expr& e) {
    if (e.op() == Op::kMul) lanes = std::max(lanes, e.type().lanes());
  });
  return lanes;
}

TEST(Philox, NeighboursShareTheirCounters) {
  const std::vector<int64_t> others = {7, 0xffffffff, 3, 0x90abcdef, 0x12345678};
  for (const auto& [lanes, of_one] : {std::pair{4, 4}, {8, 4}, {16, 4}, {32, 4}, {4, 8}, {8, 8}, {16, 8}, {32, 8}}) {
    SCOPED_TRACE(fmt::format("{} lanes, {} of a counter", lanes, of_one));
    const Expr words = words_of_neighbours(lanes, of_one), expanded = expand_elementary(words);
    EXPECT_EQ(counters_at_once(expanded), std::max(1, lanes / of_one));
    const loop::Memory memory = memory_of(kFirst, others, lanes);
    const std::vector<int64_t> got = interpreted(expanded, memory);
    EXPECT_EQ(got, interpreted(words, memory));
    for (int lane = 0; lane < lanes; ++lane) {
      const auto counter = static_cast<uint32_t>(kFirst + lane / of_one);
      const auto want = philox4x32({counter, 7, 0xffffffff, 3}, {0x90abcdef, 0x12345678});
      EXPECT_EQ(got.at(static_cast<size_t>(lane)), want.at(static_cast<size_t>(lane % 4))) << lane;
    }
    check_program(program_of(expanded), memory);
  }
}

// Of counter and key of zeros: 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
TEST(Philox, GivesThePublishedWords) {
  const loop::Memory zeros = memory_of(0, {0, 0, 0, 0, 0}, 4);
  const Expr expanded = expand_elementary(words_of_neighbours(4));
  EXPECT_EQ(interpreted(expanded, zeros), (std::vector<int64_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  check_program(program_of(expanded), zeros);
}

TEST(Philox, OtherLanesHaveCountersOfTheirOwn) {
  for (const int lanes : {3, 8, 12}) {
    SCOPED_TRACE(lanes);
    const Expr words = lanes == 3 ? words_of_neighbours(lanes) : words_in_turn(lanes);
    const Expr expanded = expand_elementary(words);
    EXPECT_EQ(counters_at_once(expanded), lanes);
    const loop::Memory memory = memory_of(kFirst, {1, 2, 3, 4, 5}, lanes);
    EXPECT_EQ(interpreted(expanded, memory), interpreted(words, memory));
    check_program(program_of(expanded), memory);
  }
}

}  // namespace
}  // namespace tw::codegen::cpu::testing
