// The small versions of the project's networks (scripts/make_models.py), or any others of such names.
#pragma once
#include <string>
#include <vector>

namespace tw::testing {

/// Paths of *_small.onnx in the folder that TW_MODELS_DIR names, in order; empty without one.
std::vector<std::string> small_models();

}  // namespace tw::testing
