// What an artefact remembers of how it was made, in its section "source", so that other weights can take the place of
// its own (ADR 0026): the model without them, what it was compiled with, and how each constant is stored.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/layout.h"
#include "core/precision.h"
#include "driver/options.h"
#include "frontend/onnx/imported.h"
#include "graph/graph.h"
#include "support/large_array.h"

namespace tw::driver {

/// Of one entry, in the order of Manifest::entries.
struct SourceEntry {
  std::string outline;          // graph::to_outline before groups were formed, and those of the bodies of its loops
  std::vector<Layout> layouts;  // of the buffers in place kWeights that do not move, in their order
  /// Constants whose name in the graph of groups is another than before. In bodies names begin with graph::body_prefix.
  std::map<std::string, std::string> renamed;
  friend bool operator==(const SourceEntry&, const SourceEntry&) = default;
};

struct Source {
  std::string skeleton;            // frontend::ImportResult::skeleton
  std::string model;               // model_hash of what its first entry was imported from; empty in older artefacts
  std::set<std::string> weights;   // frontend::ImportResult::weights
  std::set<std::string> infinite;  // those of them in which an element is infinite
  ModelOptions options;            // as bytes without weights, and initial values of states, which the artefact holds
  std::vector<SourceEntry> entries;
};

/// Of a graph that was `ungrouped` before it became one of `groups`: SourceEntry::renamed.
std::map<std::string, std::string> renamed_constants(const graph::Graph& ungrouped, const graph::Graph& groups);
/// The outline of an entry, of those of its graph and of bodies by the prefixes of their names.
std::string joined_outlines(const std::map<std::string, std::string>& outlines);

/// Equal for models that differ in nothing that an import reads. Equal models may have several: an import for other
/// shapes may look at the elements of other weights.
std::string model_hash(const frontend::ImportResult& model);

/// The options that passes were run with.
CompileOptions options_of(const Source& source);

LargeArray to_bytes(const Source& source);
/// Inverse of to_bytes; throws format::Error(kDamaged) for anything else.
Source parse_source(std::span<const uint8_t> bytes);

}  // namespace tw::driver
