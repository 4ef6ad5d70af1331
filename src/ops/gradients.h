// How gradients pass the operators of the table: one function a family of rules (gradient/), as families.h has one a
// family of operators. all_ops joins the two by name.
#pragma once
#include <string_view>
#include <vector>

#include "graph/gradient.h"

namespace tw::ops {

struct GradientRow {
  std::string_view op;
  graph::Gradient gradient;
};

/// A row whose gradient is a formula; zero by definition; refused.
constexpr GradientRow by_rule(std::string_view op, graph::GradientRule rule) {
  return {op, {graph::Gradient::Kind::kRule, rule, {}}};
}
constexpr GradientRow is_zero(std::string_view op, std::string_view why) {
  return {op, {graph::Gradient::Kind::kZero, nullptr, why}};
}
constexpr GradientRow is_refused(std::string_view op, std::string_view why) {
  return {op, {graph::Gradient::Kind::kRefused, nullptr, why}};
}

std::vector<GradientRow> unary_gradients();
std::vector<GradientRow> binary_gradients();
std::vector<GradientRow> reduce_gradients();
std::vector<GradientRow> softmax_gradients();
std::vector<GradientRow> normalization_gradients();
std::vector<GradientRow> matmul_gradients();
std::vector<GradientRow> convolution_gradients();
std::vector<GradientRow> pool_gradients();
std::vector<GradientRow> movement_gradients();
std::vector<GradientRow> gather_gradients();
std::vector<GradientRow> dropout_gradients();
std::vector<GradientRow> noise_gradients();

}  // namespace tw::ops
