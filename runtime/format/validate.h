// The last check before an artefact may be mapped: every number of the manifest is in range for the sections it refers
// to, so that the executor needs no checks of its own.
#pragma once
#include <functional>
#include <string_view>

#include "runtime/format/manifest.h"

namespace tw::format {

/// Size in bytes of the section of that name, 0 when there is none.
using SectionSize = std::function<int64_t(std::string_view name)>;

/// Throws Error(kDamaged) with the first inconsistency found.
void validate(const Manifest& manifest, const SectionSize& section_size);

/// True for the names that a section may have: code, weights, states, plan, source, manifest, graph.N, cubin.N.
bool is_section_name(std::string_view name);

}  // namespace tw::format
