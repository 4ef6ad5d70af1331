// One entry of the manifest: where each of its values lives, and its steps.
#pragma once
#include "driver/artefact/code_store.h"

namespace tw::driver {

struct PlacedEntry {
  format::Entry entry;
  graph::Graph graph;           // of groups; the layout of a large constant is that of the buffer of its name
  std::vector<Layout> layouts;  // of the constants in the buffers that lie in the weights, in their order
};

/// The last inputs of the graph, and as many outputs, are those of `states`.
struct PlaceOptions {
  std::span<const format::State> states;
  Branches branches = Branches::kNone;
};

/// Values go to the caller's tensors or the arena (with reuse), constants to `weights`.
PlacedEntry place_entry(DeviceKind device, const EntryCode& code, const CodeStore& kernels, WeightStore& weights,
                        const PlaceOptions& options);

}  // namespace tw::driver
