// Element-wise operators, reductions and products: broadcasting, every attribute that changes the formula.
#include <set>

#include "tests/transform/train/rule_cases.h"

namespace tw::testing {
namespace {

using Ints = std::vector<int64_t>;

std::vector<Case> unary() {
  const std::set<std::string> positive = {"log", "sqrt"}, over_one = {"acosh"}, below_one = {"asin", "acos", "atanh"};
  std::vector<Case> cases;
  for (const std::string op : {"exp",        "log",
                               "sqrt",       "sin",
                               "cos",        "tan",
                               "asin",       "acos",
                               "atan",       "sinh",
                               "cosh",       "asinh",
                               "acosh",      "atanh",
                               "erf",        "tanh",
                               "sigmoid",    "softplus",
                               "gelu",       "gelu_tanh",
                               "reciprocal", "softsign",
                               "mish",       "silu",
                               "identity",   "hard_swish",
                               "elu",        "celu",
                               "selu",       "hard_sigmoid",
                               "relu",       "leaky_relu",
                               "neg",        "abs",
                               "shrink",     "nan_to_zero",
                               "clip",       "thresholded_relu"}) {
    const Range range = positive.count(op)    ? Range{0.2, 3}
                        : over_one.count(op)  ? Range{1.2, 4}
                        : below_one.count(op) ? Range{-0.9, 0.9}
                        : op == "tan"         ? Range{-1, 1}
                        : op == "reciprocal"  ? Range{0.5, 3}
                                              : Range{-4, 4};
    cases.push_back({op, {f64({3, 7})}, {}, {range}});
  }
  return cases;
}

std::vector<Case> unary_attributes() {
  const TensorType x = f64({2, 3, 5});
  return {{"elu", {x}, {{"alpha", 0.3}}},
          {"celu", {x}, {{"alpha", 1.7}}},
          {"selu", {x}, {{"alpha", 1.2}, {"gamma", 0.7}}},
          {"leaky_relu", {x}, {{"alpha", 0.3}}},
          {"leaky_relu", {x}, {{"alpha", 0.0}}},
          {"leaky_relu", {x}, {{"alpha", -0.5}}},
          {"elu", {x}, {{"alpha", -0.5}}},
          {"selu", {x}, {{"alpha", 0.5}, {"gamma", -1.5}}},
          {"thresholded_relu", {x}, {{"alpha", -0.5}}},
          {"silu", {x}, {{"alpha", 1.702}}},
          {"thresholded_relu", {x}, {{"alpha", 0.25}}},
          {"hard_sigmoid", {x}, {{"alpha", 0.4}, {"beta", 0.1}}},
          {"shrink", {x}, {{"lambd", 0.7}, {"bias", 0.2}}},
          {"clip", {x}, {{"min", -0.5}}},
          {"clip", {x}, {{"max", int64_t{1}}}},
          {"clip", {x}, {{"min", -0.5}, {"max", 0.75}}}};
}

std::vector<Case> binary() {
  std::vector<Case> cases;
  for (const std::string op : {"add", "sub", "mul", "div", "min", "max", "fmod", "prelu", "pow"}) {
    const Range range = op == "div" || op == "pow" || op == "fmod" ? Range{0.4, 2.5} : Range{};
    for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{
             {{3, 5}, {3, 5}}, {{3, 5}, {5}}, {{3, 1}, {2, 1, 5}}, {{}, {4}}, {{1, 3}, {3, 1}}, {{2, 1, 1}, {1}}})
      cases.push_back({op, {f64(a), f64(b)}, {}, {range}});
  }
  cases.push_back({"pow", {f64({5}), i64({5})}, {}, {{0.5, 2}, {-2, 3}}});
  cases.push_back({"where", {boolean({3, 1}), f64({3, 5}), f64({2, 1, 5})}});
  cases.push_back({"where", {boolean({3, 5}), f64({3, 5}), f64({3, 5})}});
  cases.push_back({"band", {f64({2, 4, 5})}, {{"upper", int64_t{0}}, {"fill", -3.0}}});
  cases.push_back({"band", {f64({4, 5})}, {{"lower", int64_t{-1}}, {"upper", int64_t{2}}, {"fill", 0.5}}});
  for (const Shape& x : {Shape{3, 5}, Shape{3, 1}, Shape{}})
    cases.push_back({"pick", {i64({3, 1}), f64(x)}, {{"axis", int64_t{1}}, {"extent", int64_t{5}}}, {{-1, 5}, {}}});
  cases.push_back({"dropout", {f64({4, 5})}, {{"ratio", 0.5}}});
  for (const double ratio : {0.0, 0.4, 1.0})
    cases.push_back({"dropout", {f64({3, 5}), i64({}), i64({})}, {{"ratio", ratio}, {"stream", int64_t{2}}}});
  for (const std::string op : {"noise_uniform", "noise_normal"}) {
    cases.push_back({op, {f64({4, 5})}});
    cases.push_back({op, {f64({3, 5}), i64({}), i64({})}, {{"scale", 0.5}, {"span", 2.0}, {"stream", int64_t{2}}}});
  }
  cases.push_back({"cast", {f64({7})}, {{"to", std::string("f64")}}});
  return cases;
}

std::vector<Case> reductions() {
  std::vector<Case> cases;
  for (const std::string op :
       {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_l1", "reduce_l2",
        "reduce_sum_square", "reduce_log_sum", "reduce_log_sum_exp", "mean_variance"}) {
    const Range range = op == "reduce_log_sum" ? Range{0.3, 2} : Range{};
    cases.push_back({op, {f64({3, 4, 5})}, {}, {range}});
    for (const int64_t keep : {0, 1}) {
      cases.push_back({op, {f64({3, 4, 5})}, {{"axes", Ints{-1, 0}}, {"keepdims", keep}}, {range}});
      cases.push_back({op, {f64({3, 1, 2})}, {{"axes", Ints{1}}, {"keepdims", keep}}, {range}});
    }
    cases.push_back({op, {f64({3})}, {{"axes", Ints{}}}, {range}});
  }
  for (const std::string op : {"softmax", "log_softmax"}) {
    cases.push_back({op, {f64({3, 4, 5})}});
    cases.push_back({op, {f64({3, 4, 5})}, {{"axis", int64_t{1}}}});
    cases.push_back({op, {f64({3, 1})}});
  }
  return cases;
}

std::vector<Case> matmul() {
  std::vector<Case> cases;
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{3, 4}, {4, 5}},
                                                                 {{3, 3}, {3, 3}},
                                                                 {{2, 3, 4}, {4, 5}},
                                                                 {{2, 3, 4}, {1, 4, 5}},
                                                                 {{3, 4}, {2, 4, 5}},
                                                                 {{2, 1, 3, 4}, {3, 4, 2}},
                                                                 {{1, 3, 4}, {2, 1, 4, 2}},
                                                                 {{2, 2, 3}, {2, 3, 2}},
                                                                 {{4}, {4}},
                                                                 {{4}, {4, 3}},
                                                                 {{4}, {2, 4, 3}},
                                                                 {{3, 4}, {4}},
                                                                 {{2, 3, 4}, {4}},
                                                                 {{3, 4}, {1, 1, 4, 2}}})
    cases.push_back({"matmul", {f64(a), f64(b)}});
  return cases;
}

}  // namespace

std::vector<CaseSet> element_cases() {
  return {{"Unary", unary()},
          {"UnaryAttributes", unary_attributes()},
          {"Binary", binary()},
          {"Reductions", reductions()},
          {"MatMul", matmul()}};
}

}  // namespace tw::testing
