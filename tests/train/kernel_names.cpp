#include "tests/train/kernel_names.h"

#include <algorithm>
#include <map>
#include <set>

#include "transform/storage_order.h"

namespace tw::train {
namespace {

using graph::Graph;
using graph::Node;
using Parts = std::set<std::string>;

// Rows of the paper's table III and of its list of kernels.
const std::map<Parts, std::string> kNames = {
    {{"bias"}, "aib"},
    {{"scale", "softmax", "dropout"}, "sm"},
    {{"bias", "relu", "dropout"}, "brd"},
    {{"bias", "dropout", "residual", "norm"}, "bdrln"},
    {{"bias-gradient", "scale-gradient"}, "bsb"},
    {{"norm-gradient", "dropout"}, "blnrd"},
    {{"bias-gradient", "dropout", "relu-gradient"}, "bdrb"},
    {{"residual", "bias-gradient", "scale-gradient"}, "ebsb"},
    {{"softmax-gradient", "dropout", "scale"}, "bs"},
    {{"bias-gradient"}, "baob"},
    {{"bias-gradient", "join"}, "baib"},
    {{"residual"}, "bei"},
};

bool is_row(const Shape& shape) { return !shape.empty() && num_elements(shape) == shape.back() && shape.back() > 1; }

// What a sum or product of two values is: with a number, with one value for each column, with as many as there are.
std::string of_two(const Graph& body, const Node& node, const char* number, const char* row, const char* all) {
  const Shape &a = body.value(node.inputs[0]).type.shape, &b = body.value(node.inputs[1]).type.shape;
  const Shape& made = body.value(node.outputs[0]).type.shape;
  if (made.empty() || made.back() == 1 || is_row(made)) return "";  // of statistics, or behind sums of columns
  if (num_elements(a) == 1 || num_elements(b) == 1) return number;
  if (is_row(a) || is_row(b)) return row;
  return a == b ? all : "";
}

// Along the rows, or along the columns of products or of what they are.
std::string of_sum(const Graph& body, const Node& node) {
  const Shape &from = body.value(node.inputs[0]).type.shape, &to = body.value(node.outputs[0]).type.shape;
  if (num_elements(to) == 1) return "";
  if (num_elements(to) != from.back()) return node.op == "reduce_sum" ? "softmax-gradient" : "norm-gradient";
  const int product = body.producer(node.inputs[0]);
  return product >= 0 && body.nodes[static_cast<size_t>(product)].op == "mul" ? "scale-gradient" : "bias-gradient";
}

std::string part_of(const Graph& body, const Node& node) {
  if (node.op == "softmax" || node.op == "relu") return node.op;
  if (node.op == "dropout_bits") return "";  // drawn apart, read by others
  if (node.op.starts_with("dropout")) return "dropout";
  if (node.op == "layer_norm") return "norm";
  if (node.op == "where") return "relu-gradient";
  if (node.op == "add") return of_two(body, node, "", "bias", "residual");
  if (node.op == "mul") return of_two(body, node, "scale", "", "");
  return node.op.starts_with("reduce") ? of_sum(body, node) : "";
}

bool has_op(const Node& group, std::string_view op) {
  return std::ranges::any_of(group.body->nodes, [&](const Node& node) { return node.op == op; });
}

// Whether it reads gradients of several values as one, joined in its group or before.
bool reads_joined(const Graph& graph, const Node& group) {
  if (has_op(group, "concat")) return true;
  return std::ranges::any_of(group.inputs, [&](graph::ValueId in) {
    const int n = graph.producer(in);
    if (n < 0) return false;
    const Node& before = graph.nodes[static_cast<size_t>(n)];
    return has_op(before, "concat") || (transform::is_view(graph, before) && reads_joined(graph, before));
  });
}

}  // namespace

std::string kernel_name(const Graph& graph, const Node& group) {
  Parts parts;
  for (const Node& node : group.body->nodes) {
    if (node.op == "matmul") return "";
    parts.insert(part_of(*group.body, node));
  }
  parts.erase("");
  if (parts.contains("norm")) parts.erase("norm-gradient");  // means and deviations that the gradient will read
  if (parts.contains("bias-gradient") && reads_joined(graph, group)) parts.insert("join");
  if (const auto known = kNames.find(parts); known != kNames.end()) return known->second;
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : "+") + part;
  return all;
}

}  // namespace tw::train
