// Whether a model treats a token alike wherever the ones before it end.
#pragma once
#include <span>

#include "driver/options.h"
#include "frontend/onnx/import.h"

namespace tw::driver {

/// States of `states` that grow (transform/rewrite/append_states.h) stand for shorter ones: the model, imported as
/// `import` says, must not compute with their length. Imports it with one row more and compares: the same nodes, other
/// extents, constants that only become longer. Throws Unsupported naming the first node or constant that differs.
/// Models without a skeleton are not compared.
void check_lengths(const frontend::ImportResult& model, const frontend::ImportOptions& import,
                   std::span<const StatePair> states);

}  // namespace tw::driver
