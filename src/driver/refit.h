// Other weights for a compiled model: its constants are computed and stored anew, its code and plan stay (ADR 0026).
#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "frontend/onnx/import.h"
#include "runtime/format/container.h"
#include "support/large_array.h"

namespace tw::driver {

/// The parts of the new artefact. What did not change is a view of the old one, which must outlive it.
struct Refitted {
  format::Manifest manifest;
  std::map<std::string, LargeArray> made;  // sections
  std::vector<format::Section> kept;
  std::vector<frontend::ImportResult> sources;  // the model with these weights, one for each combination of shapes
  std::vector<format::Section> sections() const;
};

using RefitProgress = std::function<void(std::string_view phase, int64_t done, int64_t total)>;

/// The artefact in `artefact`, which was made from an ONNX model, with `weights` instead of its own: byte for byte what
/// a compilation of the model with them gives by the same build, options and plan. They are initializers of the model
/// by name: all of those that the artefact does not hold itself, no others.
///
/// Throws UsageError naming every weight that is missing, unknown, of another type or shape, a NaN, or infinite where
/// the old one was not; Unsupported where what passes decided by the old elements does not hold for these, or where the
/// artefact was not made from a model file; format::Error for a damaged artefact.
Refitted refit(std::span<const uint8_t> artefact, std::shared_ptr<const frontend::Weights> weights,
               const RefitProgress& progress = {});

/// The tensors of a .safetensors file, or the initializers of an ONNX model. Throws UsageError for a file that is
/// neither.
std::shared_ptr<const frontend::Weights> read_weights(const std::string& path);

}  // namespace tw::driver
