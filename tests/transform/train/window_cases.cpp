// Convolutions, poolings and normalizations.
#include "tests/transform/train/rule_cases.h"

namespace tw::testing {
namespace {

using Ints = std::vector<int64_t>;
using graph::Attrs;

Attrs windows(Ints strides, Ints dilations, Ints pads, int64_t group = 1) {
  return {{"strides", std::move(strides)},
          {"dilations", std::move(dilations)},
          {"pads", std::move(pads)},
          {"group", group}};
}

std::vector<Case> convolutions() {
  return {{"conv", {f64({2, 3, 5, 4}), f64({4, 3, 3, 2}), f64({4})}},
          {"conv", {f64({2, 3, 7}), f64({2, 3, 3})}, windows({2}, {1}, {1, 1})},
          {"conv", {f64({2, 3, 8}), f64({2, 3, 3})}, windows({3}, {1}, {0, 0})},  // the last positions are not read
          {"conv", {f64({1, 2, 9}), f64({3, 2, 2})}, windows({2}, {3}, {2, 1})},
          {"conv", {f64({2, 4, 6, 5}), f64({6, 2, 3, 3})}, windows({2, 1}, {1, 2}, {1, 2, 0, 1}, 2)},
          {"conv", {f64({2, 3, 5, 5}), f64({3, 1, 3, 3}), f64({3})}, windows({1, 2}, {1, 1}, {1, 1, 1, 1}, 3)},
          {"conv", {f64({2, 3, 5}), f64({6, 1, 2})}, windows({1}, {1}, {0, 0}, 3)},
          {"conv", {f64({1, 2, 4, 3, 5}), f64({2, 2, 2, 1, 3})}, windows({1, 2, 2}, {2, 1, 1}, {1, 0, 1, 0, 0, 2})},
          {"conv", {f64({3, 4, 3, 2, 2}), f64({4, 2, 2, 1, 2})}, windows({1, 2, 1}, {1, 1, 1}, {1, 0, 0, 0, 0, 1}, 2)},
          {"conv", {f64({2, 2, 3}), f64({2, 2, 3})}},
          {"conv", {f64({2, 3, 4, 4}), f64({5, 3, 1, 1})}, windows({2, 2}, {1, 1}, {0, 0, 0, 0})}};
}

std::vector<Case> transposed_convolutions() {
  const auto transposed = [](Ints strides, Ints dilations, Ints pads, Ints more, int64_t group) {
    Attrs attrs = windows(std::move(strides), std::move(dilations), std::move(pads), group);
    attrs["output_padding"] = std::move(more);
    return attrs;
  };
  return {
      {"conv_transpose", {f64({2, 3, 4, 3}), f64({3, 2, 3, 2}), f64({2})}},
      {"conv_transpose", {f64({2, 3, 4}), f64({3, 2, 3})}, transposed({2}, {1}, {1, 0}, {1}, 1)},
      {"conv_transpose", {f64({1, 2, 3}), f64({2, 1, 2})}, transposed({3}, {2}, {0, 2}, {2}, 1)},
      {"conv_transpose", {f64({2, 4, 3, 2}), f64({4, 3, 2, 3})}, transposed({2, 1}, {1, 1}, {0, 1, 1, 0}, {0, 0}, 2)},
      {"conv_transpose", {f64({1, 2, 3, 2, 2}), f64({2, 2, 2, 2, 1})}},
      {"unfold", {f64({2, 3, 5, 4})}, {{"kernel_shape", Ints{3, 2}}, {"pads", Ints{1, 0, 1, 1}}}},
      {"unfold", {f64({1, 2, 7})}, {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"dilations", Ints{3}}}}};
}

std::vector<Case> pooling() {
  std::vector<Case> cases;
  for (const std::string op : {"max_pool", "avg_pool", "lp_pool"}) {
    const Range range = op == "lp_pool" ? Range{0.3, 2} : Range{-2, 2};
    cases.push_back({op, {f64({2, 3, 5, 4})}, {{"kernel_shape", Ints{2, 2}}}, {range}});
    cases.push_back({op, {f64({2, 3, 5, 4})}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}, {range}});
    cases.push_back({op,
                     {f64({1, 2, 7, 6})},
                     {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 1, 1, 0}}},
                     {range}});
    cases.push_back({op,
                     {f64({2, 1, 9})},
                     {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"dilations", Ints{2}}, {"pads", Ints{1, 2}}},
                     {range}});
    cases.push_back(
        {op, {f64({1, 2, 6})}, {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"ceil_mode", int64_t{1}}}, {range}});
    cases.push_back({op, {f64({1, 2, 8})}, {{"kernel_shape", Ints{2}}, {"strides", Ints{3}}}, {range}});
    cases.push_back({"global_" + op, {f64({2, 3, 4, 3})}, {}, {range}});
  }
  const Attrs padded{{"kernel_shape", Ints{3}},
                     {"pads", Ints{2, 1}},
                     {"strides", Ints{2}},
                     {"ceil_mode", int64_t{1}},
                     {"count_include_pad", int64_t{1}}};
  cases.push_back({"avg_pool", {f64({2, 3, 7})}, padded});
  for (const int64_t p : {1, 3}) {
    cases.push_back({"lp_pool", {f64({2, 1, 5})}, {{"kernel_shape", Ints{2}}, {"p", p}}});
    cases.push_back({"global_lp_pool", {f64({2, 2, 5})}, {{"p", p}}});
  }
  for (const int64_t order : {0, 1})
    cases.push_back({"max_pool",
                     {f64({2, 2, 4, 5})},
                     {{"kernel_shape", Ints{2, 3}}, {"outputs", int64_t{2}}, {"storage_order", order}}});
  return cases;
}

std::vector<Case> normalizations() {
  const TensorType x = f64({2, 6, 3, 2}), c = f64({6});
  const auto axis = [](int64_t at, int64_t outputs) { return Attrs{{"axis", at}, {"outputs", outputs}}; };
  return {{"batch_norm", {x, c, c, c, c}, {}, {{-2, 2}, {-1, 1}, {-1.5, 1}, {-1, 1.5}, {0.3, 2}}},
          {"batch_norm", {f64({5, 3}), f64({3}), f64({3}), f64({3}), f64({3})}, {{"epsilon", 0.1}}, {{0.3, 2}}},
          {"instance_norm", {x, c, c}},
          {"group_norm", {x, c, c}, {{"num_groups", int64_t{3}}}},
          {"group_norm", {x, f64({2}), f64({2})}, {{"num_groups", int64_t{2}}, {"epsilon", 0.01}}},
          {"layer_norm", {f64({3, 5}), f64({5}), f64({5})}},
          {"layer_norm", {f64({3, 5}), f64({5})}, {{"epsilon", 0.1}}},
          {"layer_norm", {f64({2, 3, 5}), f64({3, 5}), absent()}, axis(1, 1)},
          {"layer_norm", {f64({2, 3, 5}), f64({1, 5}), f64({5})}, axis(-2, 2)},
          {"layer_norm", {f64({2, 3, 5}), f64({2, 1, 1}), f64({})}, axis(-1, 3)},
          {"rms_norm", {f64({3, 5}), f64({5})}},
          {"rms_norm", {f64({2, 3, 5}), f64({3, 1})}, {{"axis", int64_t{1}}, {"epsilon", 0.1}}},
          {"mean_variance_norm", {x}},
          {"mean_variance_norm", {f64({3, 5})}, {{"axes", Ints{1}}}},
          {"lrn", {f64({2, 5, 3})}, {{"size", int64_t{3}}, {"alpha", 0.5}}},
          {"lrn", {f64({2, 4, 2, 2})}, {{"size", int64_t{4}}, {"alpha", 0.3}, {"beta", 0.5}, {"bias", 2.0}}},
          {"lrn", {f64({1, 2, 3})}, {{"size", int64_t{7}}, {"alpha", 1.0}}},
          {"lp_norm", {f64({3, 5})}},
          {"lp_norm", {f64({3, 5, 2})}, {{"axis", int64_t{1}}, {"p", int64_t{1}}}}};
}

}  // namespace

std::vector<CaseSet> window_cases() {
  return {{"Convolutions", convolutions()},
          {"TransposedConvolutions", transposed_convolutions()},
          {"Pooling", pooling()},
          {"Normalizations", normalizations()}};
}

}  // namespace tw::testing
