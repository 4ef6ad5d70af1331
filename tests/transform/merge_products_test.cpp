// Products of one activation become one, whose columns are read without a copy; elsewhere nothing changes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::Node;
using testing::count_nodes;
using testing::parse;

TransformContext gpu() {
  TransformContext context = testing::context();
  context.target.kind = DeviceKind::kCuda;
  return context;
}

// Constants of 2 x 4 and of 4 elements that differ by name.
std::string constants(const std::string& names) {
  std::string text;
  double first = 0;
  for (const char c : names) {
    first += 0.25;
    const bool weights = std::islower(static_cast<unsigned char>(c)) != 0;
    text += fmt::format("  const {} : f32[{}] = [", c, weights ? "2, 4" : "4");
    for (int k = 0; k < (weights ? 8 : 4); ++k) text += fmt::format("{}{:.3f}", k == 0 ? "" : ", ", first - 0.5 * k);
    text += "]\n";
  }
  return text;
}

Graph merged(const std::string& body, const TransformContext& context = gpu()) {
  const Graph before = parse("graph g {\n  input x : f32[1, 3, 2]\n" + body + "}");
  Graph after = find_pass("merge-products").run(before, context);
  graph::verify(after, context.ops);
  testing::expect_same_function(before, after, 0);
  return after;
}

// Two heads of queries, keys and values, and what is left of an attention without its softmax.
std::string attention(const std::string& query, const std::string& key, const std::string& value) {
  const std::string heads = R"(
  {0}h : f32[1, 3, 2, 2] = reshape({1}) {{shape = [1, 3, 2, 2]}}
  {0}t : f32[1, 2, {2}] = transpose({0}h) {{perm = [0, 2, {3}]}}
)";
  return "  qm : f32[1, 3, 4] = matmul(x, q)\n  km : f32[1, 3, 4] = matmul(x, k)\n  vm : f32[1, 3, 4] = matmul(x, "
         "v)\n" +
         (query == "qa" ? std::string("  qa : f32[1, 3, 4] = add(Q, qm)\n") : std::string()) +
         (key == "ka" ? std::string("  ka : f32[1, 3, 4] = add(km, K)\n") : std::string()) +
         (value == "va" ? std::string("  va : f32[1, 3, 4] = add(vm, V)\n") : std::string()) +
         fmt::format(fmt::runtime(heads), "q", query, "3, 2", "1, 3") +
         fmt::format(fmt::runtime(heads), "k", key, "2, 3", "3, 1") +
         fmt::format(fmt::runtime(heads), "v", value, "3, 2", "1, 3") +
         "  s : f32[1, 2, 3, 3] = matmul(qt, kt)\n  y : f32[1, 2, 3, 2] = matmul(s, vt)\n  output y\n";
}

int products_of_constants(const Graph& g) {
  return static_cast<int>(std::ranges::count_if(
      g.nodes, [&](const Node& n) { return n.op == "matmul" && g.value(n.inputs[1]).is_constant(); }));
}

TEST(MergeProducts, QueriesKeysAndValues) {
  const Graph after = merged(constants("qkvQKV") + attention("qa", "ka", "va"));
  EXPECT_EQ(products_of_constants(after), 1);
  EXPECT_EQ(count_nodes(after, "add"), 1);
  // The contractions read their columns themselves: no group but the product and the two that were there.
  const Graph fused = testing::run_pass(testing::run_pass(after, "fuse"), "partition");
  EXPECT_EQ(fused.nodes.size(), 3u + static_cast<size_t>(count_nodes(after, "reshape")));  // these are views
}

TEST(MergeProducts, WithoutBiasesOrWithSomeOfThem) {
  EXPECT_EQ(count_nodes(merged(constants("qkv") + attention("qm", "km", "vm")), "add"), 0);
  const Graph after = merged(constants("qkvQV") + attention("qa", "km", "va"));
  EXPECT_EQ(products_of_constants(after), 1);
  EXPECT_EQ(count_nodes(after, "add"), 1);
}

TEST(MergeProducts, NotOnCpus) {
  EXPECT_EQ(products_of_constants(merged(constants("qkvQKV") + attention("qa", "ka", "va"), testing::context())), 3);
}

// Read without a reshape: by a transpose, by a contraction; and twice by one node.
TEST(MergeProducts, OtherReaders) {
  const Graph after = merged(constants("ab") + R"(
  am : f32[1, 3, 4] = matmul(x, a)
  bm : f32[1, 3, 4] = matmul(x, b)
  bt : f32[1, 4, 3] = transpose(bm) {perm = [0, 2, 1]}
  y : f32[1, 3, 3] = matmul(am, bt)
  at : f32[1, 4, 3] = transpose(am) {perm = [0, 2, 1]}
  z : f32[1, 4, 4] = matmul(at, am)
  output y, z
)");
  EXPECT_EQ(products_of_constants(after), 1);
  EXPECT_EQ(count_nodes(after, "slice"), 4);
}

// An epilogue, an output of the graph, a reshape that mixes rows and columns, a view that others read as it is.
TEST(MergeProducts, OnlyThoseWhoseColumnsAreReadByIndex) {
  for (const char* other :
       {"  bm : f32[1, 3, 4] = matmul(x, b)\n  z : f32[1, 3, 4] = relu(bm)\n", "  z : f32[1, 3, 4] = matmul(x, b)\n",
        "  bm : f32[1, 3, 4] = matmul(x, b)\n  br : f32[6, 2] = reshape(bm) {shape = [6, 2]}\n"
        "  z : f32[2, 6] = transpose(br) {perm = [1, 0]}\n",
        "  bm : f32[1, 3, 4] = matmul(x, b)\n  z : f32[1, 3, 2, 2] = reshape(bm) {shape = [1, 3, 2, 2]}\n",
        "  bm : f32[1, 3, 4] = matmul(x, b)\n  z : f32[1, 3, 4] = softmax(bm) {axis = 2}\n"}) {
    SCOPED_TRACE(other);
    const Graph after = merged(constants("abc") + other + R"(
  am : f32[1, 3, 4] = matmul(x, a)
  cm : f32[1, 3, 4] = matmul(x, c)
  ct : f32[1, 4, 3] = transpose(cm) {perm = [0, 2, 1]}
  y : f32[1, 3, 3] = matmul(am, ct)
  output y, z
)");
    EXPECT_EQ(products_of_constants(after), 2);
    EXPECT_EQ(count_nodes(after, "slice"), 2);
  }
}

// The gate of a feed-forward network and what it opens: apart as a rule, one product where that is measured to be
// faster; both halves are read by one operator.
TEST(MergeProducts, GatedOnesAreOneInAVariant) {
  const std::string gated = constants("abV") + R"(
  am : f32[1, 3, 4] = matmul(x, a)
  ab : f32[1, 3, 4] = add(am, V)
  bm : f32[1, 3, 4] = matmul(x, b)
  s : f32[1, 3, 4] = sigmoid(ab)
  g : f32[1, 3, 4] = mul(ab, s)
  y : f32[1, 3, 4] = mul(g, bm)
  output y
)";
  EXPECT_EQ(products_of_constants(merged(gated)), 2);
  TransformContext context = gpu();
  context.variant = kAlways;
  const Graph after = merged(gated, context);
  EXPECT_EQ(products_of_constants(after), 1);
  EXPECT_EQ(count_nodes(after, "add"), 1);
  EXPECT_EQ(count_nodes(after, "slice"), 3);
}

// Columns that begin within an access of others would make these slow.
TEST(MergeProducts, OnlyWholeAccesses) {
  const Graph after = merged(R"(  const a : f32[2, 3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  const b : f32[2, 3] = [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
  am : f32[1, 3, 3] = matmul(x, a)
  bm : f32[1, 3, 3] = matmul(x, b)
  bt : f32[1, 3, 3] = transpose(bm) {perm = [0, 2, 1]}
  y : f32[1, 3, 3] = matmul(am, bt)
  output y
)");
  EXPECT_EQ(products_of_constants(after), 2);
}

}  // namespace
}  // namespace tw::transform
