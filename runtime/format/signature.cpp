#include "runtime/format/signature.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "runtime/format/container_layout.h"
#include "runtime/format/error.h"

namespace tw::format {
namespace {

constexpr char kDigits[] = "0123456789abcdef";
constexpr size_t kMaxKeyFile = 64 << 10;  // bytes: PEM files of keys have some hundred

std::string read_key_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::kInvalidArgument, "cannot read the key '", path, "'");
  std::string text(kMaxKeyFile, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

std::optional<PublicKey> from_text(std::string_view text) {
  PublicKey key;
  if (text.size() != 2 * key.size()) return std::nullopt;
  for (size_t i = 0; i < text.size(); ++i) {
    const char* digit = std::strchr(kDigits, text[i]);
    if (digit == nullptr || *digit == '\0') return std::nullopt;
    const auto value = static_cast<uint8_t>(digit - kDigits);
    key[i / 2] = static_cast<uint8_t>(i % 2 == 0 ? value << 4 : key[i / 2] | value);
  }
  return key;
}

}  // namespace

std::string to_text(const PublicKey& key) {
  std::string text;
  for (const uint8_t byte : key) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

PublicKey read_public_key(const std::string& key) {
  if (const std::optional<PublicKey> known = from_text(key)) return *known;
  const std::optional<PublicKey> read = Crypto::open().public_key(read_key_file(key));
  if (!read) {
    fail(ErrorCode::kInvalidArgument, "'", key,
         "' is no public Ed25519 key in PEM: make one with \"openssl pkey -in KEY.pem -pubout\"");
  }
  return *read;
}

std::vector<PublicKey> read_public_keys(const std::string& list) {
  std::vector<PublicKey> keys;
  if (list.empty()) return keys;
  std::istringstream items(list + ":");
  for (std::string item; std::getline(items, item, ':');) {
    if (item.empty()) fail(ErrorCode::kInvalidArgument, "the list of keys '", list, "' has an empty one");
    keys.push_back(read_public_key(item));
  }
  return keys;
}

std::vector<uint8_t> signed_bytes(Bytes file) {
  constexpr std::string_view kSignedText = "tilewright artefact";
  const std::vector<Section> sections = read_sections(file);
  std::vector<uint8_t> message(kSignedText.begin(), kSignedText.end());
  const auto add = [&](Bytes bytes) { message.insert(message.end(), bytes.begin(), bytes.end()); };
  add(file.subspan(kVersionAt, sizeof(uint32_t)));
  for (size_t i = 0; i < sections.size(); ++i) {
    if (sections[i].name == kSignatureSection) continue;
    const Bytes row = file.subspan(kTableAt + i * kRowBytes, kRowBytes);
    add(row.first(kNameBytes));
    add(row.subspan(kRowSizeAt));  // and its hash
  }
  return message;
}

Signature sign(Bytes file, const std::string& key) {
  const std::optional<Signature> made = Crypto::open().sign(signed_bytes(file), read_key_file(key));
  if (!made) {
    fail(ErrorCode::kInvalidArgument, "'", key,
         "' is no private Ed25519 key in PEM without a password: make one with \"openssl genpkey -algorithm ed25519\"");
  }
  return *made;
}

std::vector<uint8_t> to_bytes(const Signature& signature) {
  std::vector<uint8_t> bytes(signature.key.begin(), signature.key.end());
  bytes.insert(bytes.end(), signature.bytes.begin(), signature.bytes.end());
  return bytes;
}

std::optional<Signature> signature_of(Bytes file) {
  const std::vector<Section> sections = read_sections(file);
  const auto found = std::ranges::find(sections, kSignatureSection, &Section::name);
  if (found == sections.end()) return std::nullopt;
  const Bytes bytes = found->bytes;
  Signature signature;
  if (bytes.size() != signature.key.size() + signature.bytes.size())
    fail(ErrorCode::kDamaged, "the artefact's signature has ", bytes.size(), " bytes");
  std::copy_n(bytes.begin(), signature.key.size(), signature.key.begin());
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(signature.key.size()), signature.bytes.size(),
              signature.bytes.begin());
  return signature;
}

bool holds(Bytes file, const Signature& signature) { return Crypto::open().holds(signed_bytes(file), signature); }

void require_signature(Bytes file, std::span<const PublicKey> trusted) {
  const std::optional<Signature> signature = signature_of(file);
  if (!signature) {
    fail(ErrorCode::kDamaged,
         "the artefact is not signed, and only signed ones are trusted here: \"tilewright sign\" signs one");
  }
  if (std::ranges::find(trusted, signature->key) == trusted.end())
    fail(ErrorCode::kDamaged, "the artefact is signed with the key ", to_text(signature->key),
         ", which is not trusted");
  if (!holds(file, *signature))
    fail(ErrorCode::kDamaged, "the artefact's signature is not one of these bytes: it was changed after it was signed");
}

}  // namespace tw::format
