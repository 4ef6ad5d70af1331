// Whose artefacts the command runs.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tw::cli {

/// In place of a key: whoever made the artefact.
inline constexpr const char* kAnyone = "anyone";

/// format::Error, which names the model, unless one of the keys `given` (--trust) has signed the artefact; without any,
/// one of $TILEWRIGHT_TRUSTED_KEYS; where that is not set, or kAnyone is given, anybody's artefact will do.
void check_signature(const std::string& model, std::span<const uint8_t> artefact,
                     const std::vector<std::string>& given);

}  // namespace tw::cli
