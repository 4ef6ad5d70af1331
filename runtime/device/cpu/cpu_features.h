// Which instruction set extensions this machine has, by the names that LLVM and the artefact's manifest use.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/format/manifest.h"

namespace tw::runtime {

/// Those of `required` that the host lacks or that this runtime does not know.
std::vector<std::string> missing_cpu_features(const std::vector<std::string>& required);

/// Which of an artefact's targets this machine takes: the first one that it has all features of, or the one named
/// `level` unless that is empty. Throws Error(kIncompatible) with what is missing where the machine cannot run it,
/// Error(kInvalidArgument) naming all where there is no target `level`.
size_t choose_cpu_target(std::span<const format::ManifestTarget> targets, const std::string& level);

}  // namespace tw::runtime
