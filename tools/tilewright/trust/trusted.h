// Whose artefacts the command runs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tw::cli {

/// format::Error, which names the model, unless one of the keys `given` (--trust) has signed the artefact; without any,
/// one of $TILEWRIGHT_TRUSTED_KEYS; where that is not set, anybody's artefact will do.
void check_signature(const std::string& model, const std::vector<uint8_t>& artefact,
                     const std::vector<std::string>& given);

}  // namespace tw::cli
