// Ed25519 of OpenSSL's libcrypto 3, opened when it is asked for: nothing is linked, and who trusts everybody needs
// none.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "runtime/format/signature.h"

namespace tw::format {

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
