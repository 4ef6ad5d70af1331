// Operators and edges of graphs, and what classes have of all.
#include "dataflow/dataflow.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/dataflow/one_operator.h"

namespace tw::dataflow::test {
namespace {

TEST(Dataflow, HasAnEdgeForEachReader) {
  const Dataflow flow = analyze(graph::test::mlp(4, 3, 2), graph::test::table());
  ASSERT_EQ(flow.operators.size(), 3u);
  std::vector<std::string> edges;
  for (const Edge& e : flow.edges)
    edges.push_back(fmt::format("{}>{}:{}{}", e.from, e.to, e.type.elements(), e.is_constant ? " constant" : ""));
  EXPECT_EQ(edges,
            (std::vector<std::string>{"-1>0:12", "-1>0:6 constant", "0>1:8", "-1>1:2 constant", "1>2:8", "2>-1:8"}));
}

TEST(Dataflow, TakesAGroupForOneOperator) {
  const Dataflow flow = analyze(graph::test::grouped(4, 3, 2), graph::test::table());
  ASSERT_EQ(flow.operators.size(), 2u);
  const Operator& group = flow.operators[0];
  EXPECT_EQ(group.operator_class, OperatorClass::kContraction);
  EXPECT_EQ(group.flop, 2 * 4 * 3 * 2 + 8);        // product and bias
  EXPECT_EQ(group.words_read, 4 * 3 + 3 * 2 + 2);  // x, and the constants inside
  EXPECT_EQ(group.words_written, 8);
}

TEST(Dataflow, SharesAddUp) {
  const Dataflow flow = analyze(graph::test::mlp(4, 3, 2), graph::test::table());
  const std::vector<ClassShare> shares = shares_of(flow.operators);
  ASSERT_EQ(shares.size(), 3u);
  EXPECT_EQ(shares[0].flop, 48);
  EXPECT_EQ(shares[1].operators, 0);
  EXPECT_EQ(shares[2].operators, 2);
  EXPECT_EQ(shares[2].flop, 8);
  EXPECT_EQ(shares[2].words, 8 + 2 + 8 + 8 + 8);
}

}  // namespace
}  // namespace tw::dataflow::test
