#include "transform/roles.h"

#include <algorithm>
#include <array>

namespace tw::transform {
namespace {

using graph::OpClass;

template <size_t N>
bool is_one_of(const Node& node, const std::array<std::string_view, N>& names) {
  return std::ranges::find(names, node.op) != names.end();
}

constexpr std::array<std::string_view, 3> kIndexMaps = {"transpose", "slice", "expand"};
constexpr std::array<std::string_view, 1> kLookups = {"gather"};
constexpr std::array<std::string_view, 6> kWindows = {"max_pool", "avg_pool", "lp_pool", "lrn", "unpool", "max_places"};
constexpr std::array<std::string_view, 12> kSpatial = {
    "conv",     "conv_integer", "conv_words", "conv_transpose",  "winograd_conv",   "conv_phases",
    "max_pool", "avg_pool",     "lp_pool",    "global_max_pool", "global_avg_pool", "global_lp_pool"};
constexpr std::array<std::string_view, 11> kFollowers = {"concat",         "pad",        "resize",        "lrn",
                                                         "unpool",         "max_places", "instance_norm", "pack_words",
                                                         "space_to_depth", "unfold",     "update_slice"};

}  // namespace

Role role_of(const graph::OpTable& ops, const Node& node) {
  if (node.is_group()) return Role::kAlone;
  if (is_one_of(node, kIndexMaps)) return Role::kIndexMap;
  const bool pads = node.op == "pad" && node.string_attr_or("mode", "constant") == "constant";
  if (pads || node.op == "space_to_depth" || node.op == "unfold") return Role::kPad;
  if (node.op == "concat") return Role::kJoin;
  if (is_one_of(node, kLookups)) return Role::kLookup;
  if (node.op == "update_slice") return Role::kUpdate;
  if (is_one_of(node, kWindows) || node.op.starts_with("scatter_")) return Role::kWindow;
  const OpClass op_class = ops.at(node.op).op_class;
  if (op_class == OpClass::kElementwise) return Role::kElementwise;
  if (op_class == OpClass::kReduction) return Role::kReduction;
  return op_class == OpClass::kContraction ? Role::kContraction : Role::kAlone;
}

bool is_pointwise(const graph::OpTable& ops, const Node& node) {
  // Of channels, of diagonals, of the number of each element.
  const bool by_place = node.op == "batch_norm" || node.op == "band" || node.op == "pick" ||
                        node.op.starts_with("dropout") || node.op.starts_with("noise");
  return !node.is_group() && ops.at(node.op).op_class == OpClass::kElementwise && !by_place;
}

bool reads_a_part(const Node& node) { return node.op == "slice" || node.op.starts_with("gather"); }

bool is_layout_copy(const Node& node) {
  return node.op == "transpose" && std::ranges::is_sorted(node.ints_attr("perm"));
}

bool is_spatial(const Node& node) { return is_one_of(node, kSpatial); }

bool follows_layout(const graph::OpTable& ops, const Node& node) {
  return !node.is_group() && (ops.at(node.op).op_class == OpClass::kElementwise || is_one_of(node, kFollowers));
}

}  // namespace tw::transform
