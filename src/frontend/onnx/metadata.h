// What a model says of itself.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace tw::frontend {

/// Of the ONNX model in `bytes`, whose weights may be missing: a JSON object with "producer_name", "producer_version",
/// "domain", "description", "graph_name", "graph_description" (texts), "version" (a number) and "custom_metadata_map"
/// (texts by name). Bytes that are not UTF-8 are replaced. Throws NotAModel.
std::string metadata_of(std::span<const std::byte> bytes);

}  // namespace tw::frontend
