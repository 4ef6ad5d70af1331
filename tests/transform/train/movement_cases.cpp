// Data movement and reads at computed indices.
#include "tests/transform/train/rule_cases.h"

namespace tw::testing {
namespace {

using Ints = std::vector<int64_t>;

graph::Attrs slices(Ints starts, Ints steps, Ints extents) {
  return {{"starts", std::move(starts)}, {"steps", std::move(steps)}, {"extents", std::move(extents)}};
}

std::vector<Case> movement() {
  const TensorType x = f64({3, 5});
  return {{"reshape", {x}, {{"shape", Ints{1, 15}}}},
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
          {"band", {f64({4, 4})}, {{"lower", int64_t{0}}}}};
}

std::vector<Case> repeated_borders() {
  std::vector<Case> cases;
  for (const std::string mode : {"edge", "reflect", "wrap"}) {
    cases.push_back({"pad", {f64({3, 5})}, {{"pads", Ints{1, 2, 2, 0}}, {"mode", mode}}});
    cases.push_back({"pad", {f64({4, 5})}, {{"pads", Ints{-1, 2, 3, -2}}, {"mode", mode}}});
    cases.push_back({"pad", {f64({3})}, {{"pads", Ints{7, 8}}, {"mode", mode}}});
    cases.push_back({"pad", {f64({5})}, {{"pads", Ints{-7, 4}}, {"mode", mode}}});
    cases.push_back({"pad", {f64({5})}, {{"pads", Ints{4, -6}}, {"mode", mode}}});
    cases.push_back({"pad", {f64({1, 3})}, {{"pads", Ints{2, 0, 1, 0}}, {"mode", mode}}});
  }
  return cases;
}

std::vector<Case> update_slice(Range where) {
  return {{"update_slice", {f64({5, 3}), f64({2, 3}), i64({})}, {}, {{}, {}, where}},
          {"update_slice", {f64({2, 5, 3}), f64({2, 2, 3}), i64({1})}, {{"axis", int64_t{1}}}, {{}, {}, where}},
          {"update_slice", {f64({3, 2, 6}), f64({3, 2, 2}), i64({3})}, {{"axis", int64_t{2}}}, {{}, {}, where}}};
}

std::vector<Case> runtime_indices(Range range) {
  return {{"gather", {f64({3, 4}), i64({5})}, {}, {{}, range}},
          {"gather", {f64({2, 3, 4}), i64({2, 3})}, {{"axis", int64_t{1}}}, {{}, range}},
          {"gather", {f64({3, 2}), i64({})}, {}, {{}, range}},
          {"gather", {f64({7, 4}), i64({5})}, {}, {{}, range}},
          {"gather", {f64({2, 6, 4}), i64({2, 3})}, {{"axis", int64_t{1}}}, {{}, range}},
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
          {"one_hot", {i64({4}), f64({2})}, {{"depth", int64_t{3}}, {"axis", int64_t{0}}}, {range, {}}}};
}

}  // namespace

std::vector<CaseSet> movement_cases() {
  return {{"Movement", movement()},
          {"RepeatedBorders", repeated_borders()},
          {"UpdateSlice", update_slice({0, 3})},
          {"UpdateSliceBeyondTheEnds", update_slice({-4, 9})},
          {"Indices", runtime_indices({0, 2})},
          {"IndicesFromTheEnd", runtime_indices({-3, 2})},
          {"IndicesBeyondTheEnds", runtime_indices({-9, 9})}};
}

}  // namespace tw::testing
