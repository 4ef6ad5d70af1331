// Ed25519 of OpenSSL's libcrypto 3, opened when it is asked for: nothing is linked, and who trusts everybody needs
// none.
#pragma once
#include <array>
#include <optional>
#include <string>

#include "runtime/format/hash.h"

namespace tw::format {

using PublicKey = std::array<uint8_t, 32>;

struct Signature {
  PublicKey key = {};
  std::array<uint8_t, 64> bytes = {};
};

class Crypto {
 public:
  /// Throws Error(kIncompatible) where the library cannot be opened or is too old.
  static const Crypto& open();

  /// Nothing where the text is no such key.
  std::optional<PublicKey> public_key(const std::string& pem) const;
  std::optional<Signature> sign(Bytes message, const std::string& private_pem) const;
  bool holds(Bytes message, const Signature& signature) const;

 private:
  Crypto();
  struct Functions;
  const Functions* functions_;
};

}  // namespace tw::format
