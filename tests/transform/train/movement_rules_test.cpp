// Rules of data movement and of reads at computed indices against finite differences.
#include <gtest/gtest.h>

#include "tests/transform/train/gradient_check.h"

namespace tw::testing {
namespace {

using Ints = std::vector<int64_t>;
using graph::Graph;
using graph::RefTensor;
using graph::ValueId;

void check_all(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.op);
    check_case(c);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

graph::Attrs slices(Ints starts, Ints steps, Ints extents) {
  return {{"starts", std::move(starts)}, {"steps", std::move(steps)}, {"extents", std::move(extents)}};
}

TEST(GradientRules, Movement) {
  const TensorType x = f64({3, 5});
  check_all({{"reshape", {x}, {{"shape", Ints{1, 15}}}},
             {"transpose", {f64({2, 3, 4})}, {{"perm", Ints{2, 0, 1}}}},
             {"expand", {f64({3, 1})}, {{"shape", Ints{2, 3, 4}}}},
             {"expand", {f64({})}, {{"shape", Ints{2, 3}}}},
             {"tile", {f64({3, 2})}, {{"repeats", Ints{2, 3}}}},
             {"tile", {f64({3, 2})}, {{"repeats", Ints{1, 2}}}},
             {"slice", {x}, slices({1, 0}, {1, 1}, {2, 5})},
             {"slice", {f64({7, 5})}, slices({1, 4}, {2, -1}, {3, 4})},
             {"slice", {f64({7, 6})}, slices({6, 0}, {-3, 4}, {3, 2})},
             {"slice", {x}, slices({2, 3}, {-2, 2}, {1, 1})},
             {"concat", {x, f64({2, 5}), x}, {{"axis", int64_t{0}}}},
             {"concat", {x, f64({3, 1})}, {{"axis", int64_t{-1}}}},
             {"pad", {x}, {{"pads", Ints{1, 0, 2, 3}}, {"value", 0.5}}},
             {"pad", {x}, {{"pads", Ints{1, -2, -1, 3}}}},
             {"depth_to_space", {f64({2, 8, 2, 3})}, {{"blocksize", int64_t{2}}}},
             {"depth_to_space", {f64({1, 18, 1, 2})}, {{"blocksize", int64_t{3}}, {"mode", std::string("CRD")}}},
             {"space_to_depth", {f64({2, 3, 4, 6})}, {{"blocksize", int64_t{2}}}},
             {"band", {f64({4, 4})}, {{"lower", int64_t{0}}}}});
}

TEST(GradientRules, RepeatedBorders) {
  std::vector<Case> cases;
  for (const std::string mode : {"edge", "reflect", "wrap"}) {
    cases.push_back({"pad", {f64({3, 5})}, {{"pads", Ints{1, 2, 2, 0}}, {"mode", mode}}});
    cases.push_back({"pad", {f64({4, 5})}, {{"pads", Ints{-1, 2, 3, -2}}, {"mode", mode}}});
    cases.push_back({"pad", {f64({3})}, {{"pads", Ints{7, 8}}, {"mode", mode}}});
    cases.push_back({"pad", {f64({5})}, {{"pads", Ints{-7, 4}}, {"mode", mode}}});
    cases.push_back({"pad", {f64({5})}, {{"pads", Ints{4, -6}}, {"mode", mode}}});
    cases.push_back({"pad", {f64({1, 3})}, {{"pads", Ints{2, 0, 1, 0}}, {"mode", mode}}});
  }
  check_all(cases);
}

TEST(GradientRules, UpdateSlice) {
  for (const Range where : {Range{0, 3}, Range{-4, 9}}) {  // the second one beyond the ends
    check_all({{"update_slice", {f64({5, 3}), f64({2, 3}), i64({})}, {}, {{}, {}, where}},
               {"update_slice", {f64({2, 5, 3}), f64({2, 2, 3}), i64({1})}, {{"axis", int64_t{1}}}, {{}, {}, where}},
               {"update_slice", {f64({3, 2, 6}), f64({3, 2, 2}), i64({3})}, {{"axis", int64_t{2}}}, {{}, {}, where}}});
  }
}

TEST(GradientRules, RuntimeIndices) {
  for (const Range range : {Range{0, 2}, Range{-3, 2}, Range{-9, 9}}) {
    check_all(
        {{"gather", {f64({3, 4}), i64({5})}, {}, {{}, range}},
         {"gather", {f64({2, 3, 4}), i64({2, 3})}, {{"axis", int64_t{1}}}, {{}, range}},
         {"gather", {f64({3, 2}), i64({})}, {}, {{}, range}},
         {"gather_elements", {f64({3, 4}), i64({5, 4})}, {}, {{}, range}},
         {"gather_elements", {f64({3, 4}), i64({1, 4})}, {}, {{}, range}},
         {"gather_elements", {f64({3, 4}), i64({2, 3})}, {{"axis", int64_t{1}}}, {{}, range}},
         {"gather_elements", {f64({3, 4, 2}), i64({2, 1, 2})}, {{"axis", int64_t{1}}}, {{}, range}},
         {"gather_nd", {f64({3, 4, 2}), i64({5, 2})}, {}, {{}, range}},
         {"gather_nd", {f64({3, 4}), i64({2, 2, 1})}, {}, {{}, range}},
         {"gather_nd", {f64({2, 3, 4}), i64({2, 5, 1})}, {{"batch_dims", int64_t{1}}}, {{}, range}},
         {"gather_nd", {f64({2, 2, 3, 4}), i64({2, 2, 2})}, {{"batch_dims", int64_t{2}}}, {{}, range}},
         {"scatter_sum", {f64({2, 5, 3}), i64({5})}, {{"axis", int64_t{1}}, {"extent", int64_t{3}}}, {{}, range}},
         {"scatter_sum", {f64({2, 2, 3}), i64({2, 2})}, {{"axis", int64_t{0}}, {"extent", int64_t{3}}}, {{}, range}},
         {"scatter_sum", {f64({2}), i64({})}, {{"axis", int64_t{0}}, {"extent", int64_t{3}}}, {{}, range}},
         {"scatter_elements_sum", {f64({5, 2}), i64({5, 2})}, {{"shape", Ints{3, 4}}}, {{}, range}},
         {"one_hot", {i64({3, 2}), f64({2})}, {{"depth", int64_t{3}}}, {range, {}}},
         {"one_hot", {i64({4}), f64({2})}, {{"depth", int64_t{3}}, {"axis", int64_t{0}}}, {range, {}}}});
  }
}

// A gather whose indices are constants: `indices` from x of `extent` rows.
Graph constant_gather(int64_t extent, const Ints& indices, int64_t axis) {
  Graph g;
  g.name = "gather";
  Shape x{2, 3};
  x.insert(x.begin() + axis, extent);
  const ValueId in = g.add_input("x", f64(x));
  const ValueId at = add_constant(g, {i64({std::ssize(indices)}), {}, indices});
  g.outputs = {add_node(g, "gather", {in, at}, {{"axis", axis}})};
  return g;
}

TEST(GradientRules, ConstantIndices) {
  std::mt19937_64 random(3);
  const std::vector<std::pair<int64_t, Ints>> all = {
      {4, {0, 0, 1, 1, 2, 2, 3, 3}}, {5, {4, -1, 0}}, {9, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}}, {1, {0, 0, 5}}};
  for (const auto& [extent, indices] : all) {
    for (const int64_t axis : {0, 2}) {
      const Graph g = constant_gather(extent, indices, axis);
      check_gradients(g, {random_tensor(g.value(g.inputs[0]).type, {}, random)});
    }
  }
}

}  // namespace
}  // namespace tw::testing
