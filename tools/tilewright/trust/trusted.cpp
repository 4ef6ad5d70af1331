#include "tilewright/trust/trusted.h"

#include <fmt/format.h>

#include <cstdlib>

#include "runtime/format/error.h"
#include "runtime/format/signature.h"
#include "support/join.h"

namespace tw::cli {

void check_signature(const std::string& model, std::span<const uint8_t> artefact,
                     const std::vector<std::string>& given) {
  if (given.size() == 1 && given.front() == kAnyone) return;
  std::vector<format::PublicKey> trusted = mapped(given, format::read_public_key);
  const char* list = std::getenv(format::kTrustedKeys);
  if (trusted.empty() && list != nullptr) trusted = format::read_public_keys(list);
  if (trusted.empty()) return;
  try {
    format::require_signature(artefact, trusted);
  } catch (const format::Error& error) {
    throw format::Error(error.code(), fmt::format("'{}': {}", model, error.what()));
  }
}

}  // namespace tw::cli
