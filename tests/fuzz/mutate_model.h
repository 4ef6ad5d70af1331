// Mutated ONNX models: changes of bytes, and changes of protobuf fields that keep the message readable.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tw::fuzz {

/// The input of iteration `iteration` of the search `seed`: one of the seeds with one to eight changes.
std::string mutated_model(const std::vector<std::string>& seeds, uint64_t seed, uint64_t iteration);

/// A few small models for a search without files.
std::vector<std::string> built_in_seeds();

}  // namespace tw::fuzz
