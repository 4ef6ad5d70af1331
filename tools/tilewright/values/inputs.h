// Which arrays a model is run on: --input, --random, --function, --entry.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "artefact/session.h"

namespace tw::cli {

/// Seeded values for an input: floats uniform in [-1, 1), integers and bools 0 or 1 (which are indices of any axis of
/// two or more); the same on every machine.
artefact::Array random_array(const TensorType& type, uint64_t seed);

/// What --input, --random, --entry and --function say.
struct InputOptions {
  std::vector<std::string> inputs;  // NAME=@FILE[:KEY], FILE (.npy, .npz, .safetensors) or a test_data_set folder
  std::string random;               // "seed=N" or empty
  std::string entry;                // name of an entry, or empty: the first that fits the inputs
  std::string function = {};        // name of a function, or empty: the first; verify: all
};

/// Inputs in the order of the model, for one entry of `session`. UsageError names a missing, unknown or ill-typed input
/// with what the model expects.
std::vector<artefact::Array> gather_inputs(const InputOptions& options, const artefact::Session& session);

/// The shapes of the arrays that are given, by input; `names` are the model's inputs in order.
std::map<std::string, Shape> given_shapes(const InputOptions& options, const std::vector<std::string>& names);

}  // namespace tw::cli
