// Random programs survive printing and parsing.
#include "tests/expr/random_expr.h"
#include "tests/loop/helpers.h"

namespace tw::loop::test {
namespace {

using tw::testing::NamedRange;
using tw::testing::Random;

// Builds statements over the variables i, j, k, l and the buffers that are in scope.
class RandomStatements {
 public:
  explicit RandomStatements(uint64_t seed) : random_(seed) {}

  Program program() {
    Program program{"random", {}};
    for (int64_t n = random_.between(0, 3); n > 0; --n) {
      Kernel kernel;
      kernel.name = fmt::format("kernel {}", n);
      kernel.params = {{"X", DataType::f32(), {100, 100}}, {"a/b", DataType::f16(), {7}}};
      kernel.written = {"X"};
      kernel.tile_var = "i";
      kernel.tiles = random_.between(0, 9);
      kernel.units = random_.between(0, 2);
      kernel.together = kernel.units > 0 ? random_.between(1, 3) : 1;
      kernel.body = {make_for("j", 5, ForKind::kSerial, {make_let("k", index(1), {make_let("l", index(1), list(3))})})};
      program.kernels.push_back(std::move(kernel));
    }
    return program;
  }

 private:
  Expr index(int depth) {
    // k and l are declared by lets whose values use i and j only.
    return depth == 1 ? tw::testing::random_index(random_, {{"i", 0, 9}, {"j", 0, 9}}, 1)
                      : tw::testing::random_index(random_, kAll, depth);
  }

  std::vector<Stmt> list(int depth) {
    std::vector<Stmt> stmts;
    for (int64_t n = random_.between(0, 3); n > 0; --n) stmts.push_back(statement(depth));
    return stmts;
  }

  Stmt statement(int depth) {
    const std::string name = fmt::format("v{}", names_++);
    switch (random_.between(0, depth > 0 ? 7 : 2)) {
      case 0:
        return make_prefetch("X", {index(2), index(2)}, static_cast<int>(random_.between(1, 2)));
      case 1:
        return make_store("X", {index(3), index(3)}, value(), random_.chance(50) ? condition() : Expr());
      case 2:
        return make_store("X", {index(2), ramp(index(2), int_imm(1), 8)}, broadcast(value(), 8));
      case 3:
        return make_for(name, random_.between(0, 99), static_cast<ForKind>(random_.between(0, 2)), list(depth - 1));
      case 4:
        return make_let(name, value(), list(depth - 1));
      case 5:
        return make_if(condition(), list(depth - 1), list(depth - 1));
      case 6:
        return make_block(list(depth - 1));
      default:
        return allocate(name, depth);
    }
  }

  Stmt allocate(const std::string& name, int depth) {
    const auto scope = static_cast<Scope>(random_.between(1, 3));
    return make_allocate({name, DataType(static_cast<ScalarType>(random_.between(0, 12))), {3, 4}, scope},
                         list(depth - 1));
  }

  Expr condition() {
    const Expr found = tw::testing::random_condition(random_, kAll, 2);
    return found;
  }
  Expr value() {
    const Expr loaded = load("X", DataType::f32(), {index(2), index(2)});
    return random_.chance(50) ? loaded * float_imm(static_cast<double>(random_.between(-9, 9)) / 7)
                              : cast(DataType::f32(), index(2));
  }

  inline static const std::vector<NamedRange> kAll = {{"i", 0, 9}, {"j", 0, 9}, {"k", 0, 9}, {"l", 0, 9}};
  Random random_;
  int names_ = 0;
};

std::vector<Expr> all_exprs(const Program& program) {
  std::vector<Expr> out;
  for (const Kernel& kernel : program.kernels) visit_exprs(kernel.body, [&](const Expr& e) { out.push_back(e); });
  return out;
}

TEST(LoopText, RandomProgramsSurvive) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Program before = RandomStatements(seed).program();
    ASSERT_NO_THROW(verify(before)) << to_string(before);
    const std::string text = to_string(before);
    const Program after = parse_program(text);
    ASSERT_EQ(to_string(after), text) << "seed " << seed;
    const std::vector<Expr> a = all_exprs(before);
    const std::vector<Expr> b = all_exprs(after);
    ASSERT_EQ(a.size(), b.size()) << "seed " << seed;
    for (size_t i = 0; i < a.size(); ++i) ASSERT_TRUE(equal(a[i], b[i])) << "seed " << seed << ": " << to_string(a[i]);
  }
}

}  // namespace
}  // namespace tw::loop::test
