// The groups of an artefact as an ONNX file, for Netron.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tw::artefact {

/// Bytes of an ONNX model with a node for each group of the first entry: of the type of its family, with "time" (as it
/// was measured when the model was compiled), "predicted", "operators" and, for each output, "layout NAME" as metadata.
/// Throws what read_graph throws.
std::string groups_as_onnx(const std::vector<uint8_t>& artefact);

}  // namespace tw::artefact
