// Signatures of artefacts: who made one. Ed25519 (RFC 8032) by OpenSSL's libcrypto 3, which is opened when a signature
// is made or checked.
//
// Section "signature" has the public key (32 bytes) and the signature (64 bytes) of: the text "tilewright artefact",
// the format version (u32), and name (32 bytes, zero padded), size (u64) and BLAKE3 hash of each other section in their
// order. Where sections lie follows from these, so that no byte of the file may change.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/format/container.h"
#include "runtime/format/crypto.h"

namespace tw::format {

inline constexpr std::string_view kSignatureSection = "signature";
/// Environment variable: public keys whose artefacts alone are loaded, as read_public_keys() takes them.
inline constexpr const char* kTrustedKeys = "TILEWRIGHT_TRUSTED_KEYS";

/// 64 hexadecimal digits.
std::string to_text(const PublicKey& key);
/// Of such text, or of a PEM file as `openssl pkey -pubout` writes it, whose name `key` is. Error(kInvalidArgument).
PublicKey read_public_key(const std::string& key);
/// Of each item of a list with ':' between them; none of an empty one.
std::vector<PublicKey> read_public_keys(const std::string& list);

/// What an artefact's signature signs. Throws Error(kDamaged) as Artefact::parse does; hashes are not compared.
std::vector<uint8_t> signed_bytes(Bytes file);

/// By the Ed25519 key in the PEM file `key`, as `openssl genpkey -algorithm ed25519` writes it.
/// Error(kInvalidArgument).
Signature sign(Bytes file, const std::string& key);
/// The section's bytes.
std::vector<uint8_t> to_bytes(const Signature& signature);

/// That of a file; none where it has none. Error(kDamaged) where the section is cut.
std::optional<Signature> signature_of(Bytes file);
/// Whether it is one of this file's by the owner of its key. Hashes of sections are not compared.
bool holds(Bytes file, const Signature& signature);

/// Error(kDamaged) unless the file has a signature that holds, of one of `trusted`.
void require_signature(Bytes file, std::span<const PublicKey> trusted);

}  // namespace tw::format
