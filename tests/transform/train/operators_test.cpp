// The operator table says of each operator how gradients pass it, and docs/reference/gradients.md says the same.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "tests/transform/train/gradient_check.h"

namespace tw::testing {
namespace {

using graph::Gradient;
using graph::OpDef;

TEST(GradientTable, EveryOperatorIsStated) {
  for (const OpDef& row : operators().rows()) {
    switch (row.gradient.kind) {
      case Gradient::Kind::kUnstated:
        ADD_FAILURE() << "operator '" << row.name << "': is there a rule, is its gradient zero, or is it refused?";
        break;
      case Gradient::Kind::kRule:
        EXPECT_NE(row.gradient.rule, nullptr) << row.name;
        break;
      case Gradient::Kind::kZero:
      case Gradient::Kind::kRefused:
        EXPECT_FALSE(row.gradient.reason.empty()) << row.name;
        break;
    }
  }
}

std::string stated(const Gradient& gradient) {
  if (gradient.kind == Gradient::Kind::kRule) return "rule";
  return (gradient.kind == Gradient::Kind::kZero ? "zero: " : "refused: ") + std::string(gradient.reason);
}

TEST(GradientTable, IsDocumented) {
  std::map<std::string, std::string> by_statement;
  for (const OpDef& row : operators().rows()) {
    std::string& names = by_statement[stated(row.gradient)];
    names += (names.empty() ? "`" : " `") + std::string(row.name) + "`";
  }
  std::ifstream file(TW_SOURCE_DIR "/docs/reference/gradients.md");
  std::ostringstream text;
  text << file.rdbuf();
  for (const auto& [statement, names] : by_statement) {
    const std::string line = "| " + statement + " | " + names + " |";
    EXPECT_NE(text.str().find(line), std::string::npos) << "docs/reference/gradients.md lacks the line\n" << line;
  }
}

// What is zero by definition, of operators of floats: constant around almost every point.
TEST(GradientTable, ZeroIsZero) {
  for (const std::string op : {"floor", "ceil", "round", "sign", "hardmax"}) {
    ASSERT_EQ(operators().at(op).gradient.kind, Gradient::Kind::kZero);
    check_case({op, {f64({3, 5})}});
  }
}

}  // namespace
}  // namespace tw::testing
