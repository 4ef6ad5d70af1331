#include "artefact/sum_errors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "support/random.h"

namespace tw::artefact {
namespace {

using graph::Node;
using graph::RefTensor;

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double x : values) largest = std::max(largest, std::fabs(x));
  return largest;
}

double growth_of_row(std::vector<double> terms, double u) {
  std::erase_if(terms, [](double x) { return !std::isfinite(x); });
  const double spacing = 2 * u * static_cast<double>(terms.size()) * largest_of(terms);
  return error_growth(std::move(terms), spacing);
}

// Rows that a normalization has the statistics of, and the scale of each element.
struct Rows {
  int64_t length = 0;  // 0: the operator has none
  int64_t block = 1;   // neighbours of one scale, of which there are..
  int64_t scales = 1;  // ..so many, one behind the other
  bool is_centred = true;
};
Rows rows_of(const Node& node, const std::vector<RefTensor>& inputs) {
  const Shape& shape = inputs[0].type.shape;
  const auto elements = [&](size_t from) {
    return num_elements(Shape(shape.begin() + static_cast<std::ptrdiff_t>(from), shape.end()));
  };
  const int64_t scales = inputs.size() > 1 ? std::max<int64_t>(1, inputs[1].type.elements()) : 1;
  if (node.op == "layer_norm" || node.op == "rms_norm") {
    const int64_t axis = node.int_attr_or("axis", -1);
    const int64_t length = elements(static_cast<size_t>(axis < 0 ? axis + std::ssize(shape) : axis));
    return {length, 1, scales, node.op == "layer_norm"};
  }
  if (node.op == "instance_norm") return {elements(2), elements(2), scales};
  if (node.op == "group_norm") return {elements(1) / node.int_attr("num_groups"), elements(1) / scales, scales};
  return {};
}

// One step of a product of matrices: a column of A and a row of B, neither of zeros alone where it adds anything.
struct Step {
  uint64_t hash = 0;
  bool has_a = false;
  bool has_b = false;
};

uint64_t mixed(uint64_t hash, double x) { return split_mix(hash * kSplitMixStep + std::bit_cast<uint64_t>(x)); }

}  // namespace

double error_growth(std::vector<double> terms, double spacing) {
  std::erase(terms, 0.0);
  std::ranges::sort(terms);
  if (terms.empty()) return 1;
  const auto count = static_cast<double>(terms.size());
  if (terms.back() - terms.front() <= spacing) return count;
  double squares = 0;
  for (auto begin = terms.begin(); begin != terms.end();) {
    const auto end = std::upper_bound(begin, terms.end(), *begin);
    squares += std::pow(static_cast<double>(end - begin), 2);
    begin = end;
  }
  return std::max(std::sqrt(squares), std::sqrt(count));
}

std::vector<double> error_growth_of_reduction(const Node& reduction, const RefTensor& in, double u) {
  const Shape& shape = in.type.shape;
  std::vector<bool> is_summed(shape.size(), !reduction.has_attr("axes"));
  for (const int64_t axis : reduction.ints_attr_or("axes", {}))
    is_summed[static_cast<size_t>(axis < 0 ? axis + std::ssize(shape) : axis)] = true;
  Shape kept = shape;
  for (size_t d = 0; d < kept.size(); ++d) kept[d] = is_summed[d] ? 1 : kept[d];
  const Shape strides = row_major_strides(shape), to = row_major_strides(kept);
  std::vector<std::vector<double>> terms(static_cast<size_t>(num_elements(kept)));
  for (size_t i = 0; i < in.floats.size(); ++i) {
    int64_t at = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      at += is_summed[d] ? 0 : static_cast<int64_t>(i) / strides[d] % shape[d] * to[d];
    terms[static_cast<size_t>(at)].push_back(in.floats[i]);
  }
  std::vector<double> growth;
  for (std::vector<double>& one : terms) growth.push_back(growth_of_row(std::move(one), u));
  return growth;
}

double error_growth_of_product(const RefTensor& a, const RefTensor& b) {
  if (a.floats.empty() || b.floats.empty()) return 1;
  const Shape& of_b = b.type.shape;
  const auto steps = static_cast<size_t>(a.type.shape.back());
  const auto columns = static_cast<size_t>(of_b.size() < 2 ? 1 : of_b.back());
  std::vector<Step> all(steps);
  for (size_t i = 0; i < a.floats.size(); ++i) {
    Step& step = all[i % steps];
    step.hash = mixed(step.hash, a.floats[i]);
    step.has_a |= a.floats[i] != 0;
  }
  for (size_t i = 0; i < b.floats.size(); ++i) {
    Step& step = all[i / columns % steps];
    step.hash = mixed(step.hash, b.floats[i]);
    step.has_b |= b.floats[i] != 0;
  }
  std::map<uint64_t, double> equal;
  for (const Step& step : all) equal[step.hash] += step.has_a && step.has_b ? 1 : 0;
  double squares = 0;
  for (const auto& [hash, count] : equal) squares += count * count;
  return std::sqrt(squares);
}

std::vector<double> error_of_statistics(const Node& node, const std::vector<RefTensor>& inputs, double u) {
  const Rows rows = rows_of(node, inputs);
  const std::vector<double>& x = inputs[0].floats;
  std::vector<double> error(x.size(), 0.0);
  if (rows.length == 0) return error;
  const double epsilon = node.float_attr_or("epsilon", 1e-5);
  const auto length = static_cast<size_t>(rows.length);
  for (size_t first = 0; first + length <= x.size(); first += length) {
    std::vector<double> row(x.begin() + static_cast<std::ptrdiff_t>(first),
                            x.begin() + static_cast<std::ptrdiff_t>(first + length));
    double mean = 0, size = 0, variance = 0;
    for (const double v : row) mean += v / static_cast<double>(length);
    for (const double v : row) size += std::fabs(v) / static_cast<double>(length);
    if (!rows.is_centred) mean = size = 0;
    const double of_mean = u * growth_of_row(row, u) * size;
    for (double& v : row) v = (v - mean) * (v - mean);  // the terms of the variance, where a zero of x is one of them
    for (const double v : row) variance += v / static_cast<double>(length);
    const double spread = variance + epsilon;
    const double of_root = (u * growth_of_row(row, u) + of_mean * of_mean / spread) / 2;
    for (size_t i = first; i < first + length; ++i) {
      const size_t s = i / static_cast<size_t>(rows.block) % static_cast<size_t>(rows.scales);
      const double scale = inputs.size() > 1 && !inputs[1].floats.empty() ? std::fabs(inputs[1].floats[s]) : 1;
      error[i] = scale * (of_mean + std::fabs(x[i] - mean) * of_root) / std::sqrt(spread);
    }
  }
  return error;
}

}  // namespace tw::artefact
