// One function a family: the rows it adds to the operator table (all_ops in list.cpp calls each once).
#pragma once
#include <vector>

#include "graph/op.h"

namespace tw::ops {

std::vector<graph::OpDef> unary_ops();
std::vector<graph::OpDef> binary_ops();
std::vector<graph::OpDef> pow_ops();
std::vector<graph::OpDef> where_ops();
std::vector<graph::OpDef> cast_ops();
std::vector<graph::OpDef> dropout_ops();
std::vector<graph::OpDef> noise_ops();
std::vector<graph::OpDef> reduce_ops();
std::vector<graph::OpDef> softmax_ops();
std::vector<graph::OpDef> normalization_ops();
std::vector<graph::OpDef> local_normalization_ops();
std::vector<graph::OpDef> conv_ops();
std::vector<graph::OpDef> conv_transpose_ops();
std::vector<graph::OpDef> conv_phases_ops();
std::vector<graph::OpDef> winograd_ops();
std::vector<graph::OpDef> pool_ops();
std::vector<graph::OpDef> matmul_ops();
std::vector<graph::OpDef> word_ops();
std::vector<graph::OpDef> shape_ops();
std::vector<graph::OpDef> unfold_ops();
std::vector<graph::OpDef> movement_ops();
std::vector<graph::OpDef> gather_ops();
std::vector<graph::OpDef> update_ops();
std::vector<graph::OpDef> scatter_ops();
std::vector<graph::OpDef> unpool_ops();
std::vector<graph::OpDef> repeat_ops();

}  // namespace tw::ops
