// Why a graph was cut into its groups as it was, and why its values are stored as they are: what `explain --why` shows.
#pragma once
#include <string>
#include <vector>

#include "support/why.h"

namespace tw::plan {

/// A value on its way from the operator that computes it to one that reads it.
struct EdgeReason {
  std::string value;
  std::string from, to;              // names of the operators; several operators may have one
  std::string to_value;              // what the reader computes, the first of it: no two edges have both values
  std::string from_group, to_group;  // of these names; several groups may have one
  bool is_fused = false;
  Why why;
  friend bool operator==(const EdgeReason&, const EdgeReason&) = default;
};

/// Why a value between groups has its layout.
struct ValueReason {
  std::string value;
  Why why;
  friend bool operator==(const ValueReason&, const ValueReason&) = default;
};

/// Why a product that reads dequantized numbers multiplies them, or floats.
struct ProductReason {
  std::string node;
  Why why;
  friend bool operator==(const ProductReason&, const ProductReason&) = default;
};

struct Reasons {
  std::vector<EdgeReason> edges;
  std::vector<ValueReason> values;
  std::vector<ProductReason> products;
  friend bool operator==(const Reasons&, const Reasons&) = default;
};

/// One line each: "edge VALUE FROM TO TO_VALUE FROM_GROUP TO_GROUP fused RULE NUMBER="1.5" .. : TEXT", "why VALUE
/// RULE .. : TEXT", "product NODE RULE .. : TEXT".
std::string to_string(const Reasons& reasons);
/// Whether `line` is one of those; then it is added to `reasons`. UserError where it only begins like one.
bool take_line(const std::string& line, Reasons& reasons);

}  // namespace tw::plan
