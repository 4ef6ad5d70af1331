#include "ops/list.h"

#include <algorithm>

#include "ops/families.h"
#include "ops/gradients.h"
#include "support/error.h"

namespace tw::ops {

namespace {

void add_gradients(std::vector<graph::OpDef>& rows) {
  using Family = std::vector<GradientRow> (*)();
  constexpr Family kFamilies[] = {unary_gradients,    binary_gradients,      reduce_gradients,        softmax_gradients,
                                  matmul_gradients,   convolution_gradients, normalization_gradients, pool_gradients,
                                  movement_gradients, gather_gradients,      dropout_gradients,       noise_gradients};
  for (const Family family : kFamilies) {
    for (const GradientRow& gradient : family()) {
      const auto row = std::ranges::find(rows, gradient.op, &graph::OpDef::name);
      TW_CHECK(row != rows.end(), "a gradient of '{}', which is no operator", gradient.op);
      TW_CHECK(row->gradient.kind == graph::Gradient::Kind::kUnstated, "two gradients of '{}'", gradient.op);
      row->gradient = gradient.gradient;
    }
  }
}

}  // namespace

graph::OpTable all_ops() {
  using Family = std::vector<graph::OpDef> (*)();
  constexpr Family kFamilies[] = {
      unary_ops,       binary_ops,         pow_ops,
      where_ops,       cast_ops,           reduce_ops,
      softmax_ops,     normalization_ops,  local_normalization_ops,
      conv_ops,        conv_transpose_ops, winograd_ops,
      conv_phases_ops, pool_ops,           matmul_ops,
      shape_ops,       movement_ops,       gather_ops,
      word_ops,        update_ops,         unfold_ops,
      scatter_ops,     unpool_ops,         dropout_ops,
      noise_ops,       repeat_ops,
  };
  std::vector<graph::OpDef> rows;
  for (const Family family : kFamilies) {
    for (const graph::OpDef& row : family()) rows.push_back(row);
  }
  add_gradients(rows);
  return graph::OpTable(std::move(rows));
}

}  // namespace tw::ops
