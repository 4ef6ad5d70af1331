// What can be checked of an artefact without running it.
#pragma once
#include <cstdint>
#include <vector>

namespace tw::artefact {

/// Reads all of it: hashes, the manifest against itself and against what its kernels touch, plan and graphs; inputs,
/// outputs and states of each entry against its graph, and its steps against its groups. format::Error where something
/// disagrees. What kernels compute is verify's question.
void check_artefact(const std::vector<uint8_t>& artefact);

}  // namespace tw::artefact
