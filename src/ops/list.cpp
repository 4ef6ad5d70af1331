#include "ops/list.h"

#include "ops/families.h"

namespace tw::ops {

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
  };
  std::vector<graph::OpDef> rows;
  for (const Family family : kFamilies) {
    for (const graph::OpDef& row : family()) rows.push_back(row);
  }
  return graph::OpTable(std::move(rows));
}

}  // namespace tw::ops
