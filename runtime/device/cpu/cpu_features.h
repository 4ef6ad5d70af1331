// Which instruction set extensions this machine has, by the names that LLVM and the artefact's manifest use.
#pragma once
#include <string>
#include <vector>

namespace tw::runtime {

/// "x86_64" or "aarch64".
std::string host_architecture();

/// The known features that CPU and operating system support, in the order of the table.
std::vector<std::string> host_cpu_features();

/// Those of `required` that the host lacks or that this runtime does not know.
std::vector<std::string> missing_cpu_features(const std::vector<std::string>& required);

/// The features that an architecture name implies ("x86-64-v3"). Throws Error(kIncompatible) if the name belongs to
/// another architecture than the host's or is unknown.
std::vector<std::string> features_of_arch(const std::string& arch);

}  // namespace tw::runtime
