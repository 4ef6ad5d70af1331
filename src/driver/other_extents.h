// A model at other extents than those that it was imported with: what of it stays the same.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "frontend/onnx/import.h"

namespace tw::driver {

/// The model once more with other options. Where its graph has no weight under its name any more, elements are others,
/// all different: the same for equal models. `model` must have a skeleton.
frontend::ImportResult import_again(const frontend::ImportResult& model, frontend::ImportOptions options);

/// Lets constants and weights of `to` that are equal to those of their names in `from` share their elements.
void share_elements(const frontend::ImportResult& from, frontend::ImportResult& to);

/// What the graph of larger extents computes otherwise than that of smaller ones: a node that differs in more than
/// shapes, or one of its constants, whose elements are others at the same indices. Empty: nothing. `extents` are what
/// differs, the smaller one and the larger: an index into batches of so many rows is the same where batch and row are.
std::string difference_in_extents(const graph::Graph& smaller, const graph::Graph& larger,
                                  std::pair<int64_t, int64_t> extents = {1, 1});

}  // namespace tw::driver
