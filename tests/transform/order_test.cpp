// Reshapes, slices and transposes come in one order, in which what models write around heads is one index map; numbers
// that operands of products are multiplied by are factors of the products.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::Node;
using testing::count_nodes;
using testing::parse;

Graph after(const std::string& text, std::string_view pass, DeviceKind kind = DeviceKind::kCpu) {
  const Graph before = parse(text);
  TransformContext context = testing::context();
  context.target.kind = kind;
  Graph result = find_pass(pass).run(before, context);
  graph::verify(result, context.ops);
  testing::expect_same_function(before, result, kind == DeviceKind::kCpu ? 0 : 1e-6);
  return result;
}

// Operators of a graph, in order.
std::string ops_of(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) text += (text.empty() ? "" : " ") + node.op;
  return text;
}

std::string canonical(const std::string& text) { return ops_of(after(text, "canonicalize")); }

TEST(Order, KeysTransposedAsOneBatchAreTransposedOnce) {
  EXPECT_EQ(canonical(R"(graph g {
  input x : f32[2, 5, 12]
  h : f32[2, 5, 3, 4] = reshape(x) {shape = [2, 5, 3, 4]}
  t : f32[2, 3, 5, 4] = transpose(h) {perm = [0, 2, 1, 3]}
  b : f32[6, 5, 4] = reshape(t) {shape = [6, 5, 4]}
  k : f32[6, 4, 5] = transpose(b) {perm = [0, 2, 1]}
  y : f32[2, 3, 4, 5] = reshape(k) {shape = [2, 3, 4, 5]}
  output y
})"),
            "reshape transpose");
}

// dW = x^T dy of batches of rows: the product reads the rows of all batches through the transpose, a view before it.
TEST(Order, RowsOfBatchesAreTurnedWhereTheyAreRead) {
  const Graph turned = after(R"(graph g {
  input a : f32[2, 5, 6]
  input b : f32[2, 5, 4]
  x : f32[2, 5, 6] = relu(a)
  r : f32[10, 6] = reshape(x) {shape = [10, 6]}
  t : f32[6, 10] = transpose(r) {perm = [1, 0]}
  s : f32[10, 4] = reshape(b) {shape = [10, 4]}
  y : f32[6, 4] = matmul(t, s)
  output y
})",
                             "canonicalize");
  EXPECT_EQ(ops_of(turned), "relu reshape transpose reshape matmul");
  const Graph groups = testing::run_pass(testing::run_pass(turned, "fuse"), "partition");
  EXPECT_EQ(groups.nodes.size(), 4U) << "views and one kernel behind relu";
}

// The gradient of weights that are read transposed is a product of its own.
TEST(Order, ATransposedProductOfTurnedRowsIsOneOfTheOthers) {
  EXPECT_EQ(canonical(R"(graph g {
  input x : f32[10, 6]
  input d : f32[10, 4]
  t : f32[6, 10] = transpose(x) {perm = [1, 0]}
  p : f32[6, 4] = matmul(t, d)
  y : f32[4, 6] = transpose(p) {perm = [1, 0]}
  output y
})"),
            "transpose matmul");
  EXPECT_EQ(canonical(R"(graph g {
  input t : f32[6, 10]
  input d : f32[10, 4]
  p : f32[6, 4] = matmul(t, d)
  y : f32[4, 6] = transpose(p) {perm = [1, 0]}
  output y
})"),
            "matmul transpose");
}

std::string sum_of_parts(const std::string& pads, const std::string& sum) {
  return canonical(fmt::format(R"(graph g {{
  input x : f32[2, 3, 2]
  input y : f32[2, 1, 2]
  input z : f32[2, 2, 2]
  p : f32[2, 6, 2] = pad(x) {{pads = [{}]}}
  q : f32[2, 6, 2] = pad(y) {{pads = [0, 0, 0, 0, 5, 0]}}
  r : f32[2, 6, 2] = pad(z) {{pads = [0, 4, 0, 0, 0, 0]}}
  s : f32[2, 6, 2] = add(r, p)
  t : f32[2, 6, 2] = {}
  output t
}})",
                               pads, sum));
}

TEST(Order, ASumOfPaddedPartsJoinsThem) {
  const std::string between = "0, 1, 0, 0, 2, 0";
  EXPECT_EQ(sum_of_parts(between, "add(s, q)"), "concat");
  EXPECT_EQ(sum_of_parts(between, "sub(s, q)"), "pad pad pad add sub");
  EXPECT_EQ(sum_of_parts("0, 0, 0, 0, 3, 0", "add(s, q)"), "pad pad pad add add");  // overlap
  EXPECT_EQ(sum_of_parts(between, "add(q, p)"), "pad pad add");                     // and nothing behind
}

TEST(Order, SoAreThoseOfOneSequence) {
  EXPECT_EQ(canonical(R"(graph g {
  input x : f32[1, 5, 12]
  h : f32[1, 5, 3, 4] = reshape(x) {shape = [1, 5, 3, 4]}
  t : f32[1, 3, 5, 4] = transpose(h) {perm = [0, 2, 1, 3]}
  b : f32[3, 5, 4] = reshape(t) {shape = [3, 5, 4]}
  k : f32[3, 4, 5] = transpose(b) {perm = [0, 2, 1]}
  y : f32[1, 3, 4, 5] = reshape(k) {shape = [1, 3, 4, 5]}
  output y
})"),
            "reshape transpose");
}

TEST(Order, HeadsJoinedWithSequencesComeApartAgain) {
  EXPECT_EQ(canonical(R"(graph g {
  input x : f32[5, 2, 12]
  b : f32[5, 6, 4] = reshape(x) {shape = [5, 6, 4]}
  t : f32[6, 5, 4] = transpose(b) {perm = [1, 0, 2]}
  y : f32[2, 3, 5, 4] = reshape(t) {shape = [2, 3, 5, 4]}
  output y
})"),
            "reshape transpose");
}

TEST(Order, SelectedPartOfTransposedHeadsIsASliceBeforeTheTranspose) {
  EXPECT_EQ(canonical(R"(graph g {
  input x : f32[5, 2, 36]
  const i : i64[] = [-2]
  p : f32[5, 2, 3, 3, 4] = reshape(x) {shape = [5, 2, 3, 3, 4]}
  t : f32[3, 2, 3, 5, 4] = transpose(p) {perm = [2, 1, 3, 0, 4]}
  y : f32[2, 3, 5, 4] = gather(t, i) {axis = 0}
  output y
})"),
            "reshape slice transpose");
}

std::string gathered(const std::string& shape, const std::string& indices) {
  return canonical(fmt::format(R"(graph g {{
  input x : f32[6, 2]
  const i : i64[{0}] = [{1}]
  y : f32[{0}, 2] = gather(x, i) {{axis = 0}}
  output y
}})",
                               shape, indices));
}

TEST(Order, GathersOfNeighboursAreSlices) {
  EXPECT_EQ(gathered("3", "1, 2, 3"), "slice");
  EXPECT_EQ(gathered("3", "5, 3, 1"), "slice");
  EXPECT_EQ(gathered("2, 2", "-4, -3, -2, -1"), "reshape slice");
  EXPECT_EQ(gathered("3", "1, 2, 4"), "gather");
  EXPECT_EQ(gathered("2", "1, 1"), "gather");
  EXPECT_EQ(gathered("2", "5, 6"), "gather");
}

TEST(Order, RolledImagesAreCutOnce) {
  const std::string roll = R"(graph g {
  input x : f32[4, 5, 2]
  a : f32[1, 5, 2] = slice(x) {starts = [0, 0, 0], steps = [1, 1, 1], extents = [1, 5, 2]}
  b : f32[3, 5, 2] = slice(x) {starts = [1, 0, 0], steps = [1, 1, 1], extents = [3, 5, 2]}
  r : f32[4, 5, 2] = concat(b, a) {axis = 0}
  c : f32[4, 2, 2] = slice(r) {starts = [0, 0, 0], steps = [1, 1, 1], extents = [4, 2, 2]}
  d : f32[4, 3, 2] = slice(r) {starts = [0, 2, 0], steps = [1, 1, 1], extents = [4, 3, 2]}
  y : f32[4, 5, 2] = concat(d, c) {axis = -2}
  output y
})";
  EXPECT_EQ(canonical(roll), "slice slice concat slice slice concat concat");
  std::string kept = roll;
  EXPECT_EQ(canonical(kept.replace(kept.find("output y"), 8, "output y, r")), "slice slice concat slice slice concat");
}

TEST(Order, SlicesOfAConcatLeaveOtherPartsOut) {
  EXPECT_EQ(canonical(R"(graph g {
  input a : f32[2, 3]
  input b : f32[2, 4]
  input c : f32[2, 5]
  j : f32[2, 12] = concat(a, b, c) {axis = 1}
  y : f32[2, 5] = slice(j) {starts = [0, 4], steps = [1, 1], extents = [2, 5]}
  output y
})"),
            "slice slice concat");
}

TEST(Order, ImagesKeepTheirTransposes) {
  EXPECT_EQ(canonical(R"(graph g {
  input x : f32[1, 4, 3, 2]
  t : f32[1, 3, 2, 4] = transpose(x) {perm = [0, 2, 3, 1]}
  y : f32[1, 3, 2, 2] = slice(t) {starts = [0, 0, 0, 1], steps = [1, 1, 1, 1], extents = [1, 3, 2, 2]}
  output y
})"),
            "transpose slice");
}

TEST(Order, DimsThatAreCutAnewStay) {
  EXPECT_EQ(canonical(R"(graph g {
  input x : f32[4, 6]
  r : f32[3, 8] = reshape(x) {shape = [3, 8]}
  y : f32[8, 3] = transpose(r) {perm = [1, 0]}
  output y
})"),
            "reshape transpose");
}

TEST(Order, WhatIsRepeatedIsComputedBefore) {
  EXPECT_EQ(canonical(R"(graph g {
  input x : f32[2, 1, 3]
  const c : f32[] = [0.5]
  e : f32[2, 4, 3] = expand(x) {shape = [2, 4, 3]}
  y : f32[2, 4, 3] = mul(e, c)
  output y
})"),
            "mul expand");
}

TEST(Order, BroadcastsNeedNoExpand) {
  const std::string sum = R"(graph g {
  input x : f32[2, 4, 3]
  input b : f32[4, 1]
  e : f32[2, 4, 3] = expand(b) {shape = [2, 4, 3]}
  y : f32[2, 4, 3] = add(x, e)
  output y
})";
  EXPECT_EQ(canonical(sum), "add");
  std::string both = sum;  // without the one, the other alone would not have that shape
  EXPECT_EQ(canonical(both.replace(both.find("add(x, e)"), 9, "add(e, e)")), "expand add");
}

TEST(Order, ConditionThatIsTheSameEverywhereIsNone) {
  const std::string select = R"(graph g {
  input x : f32[2, 3]
  const c : bool[3] = [1, 1, 1]
  const zero : f32[] = [0.0]
  const low : f32[] = [-1e30]
  e : bool[2, 3] = expand(c) {shape = [2, 3]}
  m : f32[2, 3] = where(e, zero, low)
  y : f32[2, 3] = mul(x, m)
  output y
})";
  EXPECT_EQ(canonical(select), "mul");
  std::string some = select;
  EXPECT_EQ(canonical(some.replace(some.find("[1, 1, 1]"), 9, "[1, 0, 1]")), "where mul");
}

// Queries and keys that are columns of one value.
std::string scores(const std::string& factors) {
  return R"(graph g {
  input x : f32[5, 16]
  const a : f32[] = [0.5]
  const b : f32[] = [0.25]
  q : f32[5, 8] = slice(x) {starts = [0, 0], steps = [1, 1], extents = [5, 8]}
  k : f32[5, 8] = slice(x) {starts = [0, 8], steps = [1, 1], extents = [5, 8]}
)" + factors +
         R"(  t : f32[8, 5] = transpose(ks) {perm = [1, 0]}
  y : f32[5, 5] = matmul(qs, t)
  output y
})";
}

TEST(ScaleProducts, NumbersOfBothOperandsBecomeOneFactor) {
  const std::string text = scores("  qs : f32[5, 8] = mul(q, a)\n  ks : f32[5, 8] = mul(b, k)\n");
  EXPECT_EQ(ops_of(after(text, "scale-products", DeviceKind::kCuda)), "slice slice transpose matmul mul");
  EXPECT_EQ(count_nodes(after(text, "scale-products"), "mul"), 2);
}

// What f16 stores of a product before a small number makes it small may be too large for it.
TEST(ScaleProducts, ProductsOfHalvesStayInRange) {
  std::string text = scores("  qs : f32[5, 8] = mul(q, a)\n  ks : f32[5, 8] = mul(b, k)\n");
  for (size_t at = text.find("f32"); at != std::string::npos; at = text.find("f32")) text.replace(at, 3, "f16");
  EXPECT_EQ(ops_of(after(text, "scale-products", DeviceKind::kCuda)), "slice slice transpose matmul mul");
  text.replace(text.find("[0.25]"), 6, "[0.0125]");
  EXPECT_EQ(ops_of(after(text, "scale-products", DeviceKind::kCuda)), "slice slice mul transpose matmul mul")
      << "the half alone moves";
}

// As in a backward pass, whose products are of the scaled queries, too.
TEST(ScaleProducts, EveryProductOfAScaledOperandIsMultiplied) {
  std::string text = scores("  qs : f32[5, 8] = mul(q, a)\n  ks : f32[5, 8] = mul(b, k)\n");
  text.replace(text.find("output y"), 8,
               "u : f32[8, 5] = transpose(qs) {perm = [1, 0]}\n  z : f32[8, 5] = matmul(u, y)\n"
               "  s : f32[8, 8] = matmul(u, qs)\n  output z, s");
  const graph::Graph moved = after(text, "scale-products", DeviceKind::kCuda);
  EXPECT_EQ(ops_of(moved), "slice slice transpose transpose matmul mul matmul mul matmul mul");
  testing::expect_same_function(testing::parse(text), moved, 1e-6);
}

// The rows that take others' place are no multiples.
TEST(ScaleProducts, RowsAmongWhichOthersArePutStayMultiplied) {
  std::string text = scores(
      "  input row : f32[1, 8]\n  input at : i64[]\n  qa : f32[5, 8] = mul(q, a)\n"
      "  qs : f32[5, 8] = update_slice(qa, row, at) {axis = 0}\n  ks : f32[5, 8] = relu(k)\n");
  EXPECT_EQ(count_nodes(after(text, "scale-products", DeviceKind::kCuda), "mul"), 1);
  EXPECT_EQ(ops_of(after(text, "scale-products", DeviceKind::kCuda)),
            "slice slice mul update_slice relu transpose matmul");
}

TEST(ScaleProducts, WhatIsComputedIsMultipliedThere) {
  const std::string text =
      scores("  qr : f32[5, 8] = relu(q)\n  qs : f32[5, 8] = mul(qr, a)\n  ks : f32[5, 8] = relu(k)\n");
  EXPECT_EQ(ops_of(after(text, "scale-products", DeviceKind::kCuda)), "slice slice relu mul relu transpose matmul");
}

TEST(JoinBatches, MaskOfWindowsIsRepeated) {
  const std::string masked = R"(graph g {
  input x : f32[6, 2, 4, 4]
  input m : f32[3, 1, 4, 4]
  a : f32[2, 3, 2, 4, 4] = reshape(x) {shape = [2, 3, 2, 4, 4]}
  b : f32[2, 3, 2, 4, 4] = add(a, m)
  c : f32[6, 2, 4, 4] = reshape(b) {shape = [6, 2, 4, 4]}
  y : f32[6, 2, 4, 4] = softmax(c) {axis = 3}
  output y
})";
  EXPECT_EQ(ops_of(after(masked, "join-batches", DeviceKind::kCuda)), "reshape expand reshape add softmax");
  EXPECT_EQ(ops_of(after(masked, "join-batches")), "reshape add reshape softmax");
  std::string kept = masked;
  EXPECT_EQ(ops_of(after(kept.replace(kept.find("output y"), 8, "output y, b"), "join-batches", DeviceKind::kCuda)),
            "reshape add reshape softmax");
}

TEST(MoveBeforeNorms, WindowsAreCutFirst) {
  const std::string windows = R"(graph g {
  input x : f32[4, 4, 5]
  input w : f32[5, 3]
  const s : f32[3] = [1.0, 2.0, 3.0]
  m : f32[4, 4, 3] = matmul(x, w)
  n : f32[4, 4, 3] = layer_norm(m, s) {axis = 2, epsilon = 0.5}
  a : f32[1, 4, 3] = slice(n) {starts = [0, 0, 0], steps = [1, 1, 1], extents = [1, 4, 3]}
  b : f32[3, 4, 3] = slice(n) {starts = [1, 0, 0], steps = [1, 1, 1], extents = [3, 4, 3]}
  c : f32[4, 4, 3] = concat(b, a) {axis = 0}
  d : f32[2, 2, 2, 2, 3] = reshape(c) {shape = [2, 2, 2, 2, 3]}
  t : f32[2, 2, 2, 2, 3] = transpose(d) {perm = [0, 2, 1, 3, 4]}
  e : f32[4, 4, 3] = reshape(t) {shape = [4, 4, 3]}
  y : f32[4, 4, 3] = relu(e)
  output y
})";
  EXPECT_EQ(ops_of(after(windows, "move-before-norms", DeviceKind::kCuda)),
            "matmul slice slice concat reshape transpose reshape layer_norm relu");
  EXPECT_EQ(ops_of(after(windows, "move-before-norms")),
            "matmul layer_norm slice slice concat reshape transpose reshape relu");
  std::string kept = windows;
  EXPECT_EQ(
      ops_of(after(kept.replace(kept.find("output y"), 8, "output y, n"), "move-before-norms", DeviceKind::kCuda)),
      "matmul layer_norm slice slice concat reshape transpose reshape relu");
}

TEST(MoveBeforeNorms, OthersStay) {
  const auto moved = [](const std::string& made, const std::string& read) {
    return ops_of(
        after("graph g {\n  input x : f32[4, 2, 5]\n  input w : f32[5, 3]\n  const s : f32[3] = [1.0, 2.0, 3.0]\n"
              "  p : f32[4, 2, 3] = matmul(x, w)\n" +
                  made + "  n : f32[4, 2, 3] = layer_norm(m, s) {axis = 2, epsilon = 0.5}\n" + read + "  output y\n}",
              "move-before-norms", DeviceKind::kCuda));
  };
  const std::string sum = "  m : f32[4, 2, 3] = relu(p)\n";
  const std::string turned = "  y : f32[2, 4, 3] = transpose(n) {perm = [1, 0, 2]}\n";
  const std::string first =
      "  y : f32[4, 1, 3] = slice(n) {starts = [0, 0, 0], steps = [1, 1, 1], extents = [4, 1, 3]}\n";
  const std::string part =
      "  y : f32[4, 2, 2] = slice(n) {starts = [0, 0, 0], steps = [1, 1, 1], extents = [4, 2, 2]}\n";
  EXPECT_EQ(moved(sum, first), "matmul relu slice layer_norm") << "of one token";
  EXPECT_EQ(moved(sum, turned), "matmul relu layer_norm transpose") << "readers read through it";
  EXPECT_EQ(moved(sum, part), "matmul relu layer_norm slice") << "other rows";
  EXPECT_EQ(moved("  m : f32[4, 2, 3] = softmax(p) {axis = 2}\n", first), "matmul softmax layer_norm slice")
      << "one kernel of rows";
}

TEST(ScaleProducts, ScaledOperandThatIsReadElsewhereStays) {
  std::string text = scores("  qs : f32[5, 8] = mul(q, a)\n  ks : f32[5, 8] = mul(k, b)\n");
  text.replace(text.find("output y"), 8, "output y, qs");
  EXPECT_EQ(count_nodes(after(text, "scale-products", DeviceKind::kCuda), "mul"), 2);
}

}  // namespace
}  // namespace tw::transform
