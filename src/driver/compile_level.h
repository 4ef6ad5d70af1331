// All entries of one artefact for one of its targets: transformed, planned, lowered, and their machine code.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "driver/compile_entry.h"
#include "driver/function_graph.h"

namespace tw::driver {

/// What is compiled for each target of an artefact.
struct LevelInput {
  const CompileOptions& options;
  const targets::Target& target;
  const std::vector<FunctionGraph>& sources;  // one for each function and combination of input shapes
  std::span<const plan::EntryPlan> replay;    // one for each source; empty: decide
  StateLayouts& states;
};

/// Where groups round more than their operators: what they round of f32 to multiply it (--precision fast), and
/// algorithms with larger errors.
struct Rounded {
  int64_t to_bf16 = 0;   // activations
  int64_t to_tf32 = 0;   // operands of products
  int64_t winograd = 0;  // groups

  Rounded& operator+=(const Rounded& more) {
    to_bf16 += more.to_bf16;
    to_tf32 += more.to_tf32;
    winograd += more.winograd;
    return *this;
  }
};
/// In a graph of groups, and in the bodies of its loops.
Rounded count_rounded(const graph::Graph& groups);

/// Nothing when options.stop_after ended the passes before. Adds pass times and warnings to `out`, and clears
/// out.complete where something was not measured that should have been.
std::optional<LevelCode> compile_level(const LevelInput& in, Dumper& dumper, Compiled& out);

}  // namespace tw::driver
