#include "runtime/format/crypto.h"

#include <dlfcn.h>

#include <memory>

#include "runtime/format/error.h"

namespace tw::format {
namespace {

constexpr const char* kLibrary = "libcrypto.so.3";
constexpr const char* kAlgorithm = "ED25519";
constexpr int kEd25519 = 1087;  // EVP_PKEY_ED25519 (OpenSSL, evp.h)

using PasswordFn = int (*)(char* buffer, int size, int for_writing, void* user);

// A key file with a password is refused: nobody is asked for it.
int no_password(char* /*buffer*/, int /*size*/, int /*for_writing*/, void* /*user*/) { return -1; }

template <typename Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr)
    fail(ErrorCode::kIncompatible, kLibrary, " (OpenSSL), which checks signatures, has no function ", name);
}

using Owned = std::unique_ptr<void, void (*)(void*)>;

/// What fails leaves nothing in the list of errors that a program which uses the same library looks at.
class OwnErrors {
 public:
  OwnErrors(int (*set_mark)(), int (*pop_to_mark)()) : pop_to_mark_(pop_to_mark) { set_mark(); }
  OwnErrors(const OwnErrors&) = delete;
  OwnErrors& operator=(const OwnErrors&) = delete;
  ~OwnErrors() { pop_to_mark_(); }

 private:
  int (*pop_to_mark_)();
};

}  // namespace

// As OpenSSL 3 declares them (man pages EVP_PKEY_new, EVP_DigestSign, EVP_DigestVerify, PEM_read_bio_PrivateKey); what
// they point to is nobody's business here.
struct Crypto::Functions {
  int (*ERR_set_mark)();
  int (*ERR_pop_to_mark)();
  void* (*BIO_new_mem_buf)(const void* bytes, int size);
  int (*BIO_free)(void* bio);
  void* (*PEM_read_bio_PUBKEY)(void* bio, void** key, PasswordFn password, void* user);
  void* (*PEM_read_bio_PrivateKey)(void* bio, void** key, PasswordFn password, void* user);
  void (*EVP_PKEY_free)(void* key);
  int (*EVP_PKEY_is_a)(const void* key, const char* name);
  int (*EVP_PKEY_get_raw_public_key)(const void* key, unsigned char* bytes, size_t* size);
  void* (*EVP_PKEY_new_raw_public_key)(int type, void* engine, const unsigned char* bytes, size_t size);
  void* (*EVP_MD_CTX_new)();
  void (*EVP_MD_CTX_free)(void* context);
  int (*EVP_DigestSignInit)(void* context, void** key_context, const void* digest, void* engine, void* key);
  int (*EVP_DigestSign)(void* context, unsigned char* signature, size_t* size, const unsigned char* message,
                        size_t message_size);
  int (*EVP_DigestVerifyInit)(void* context, void** key_context, const void* digest, void* engine, void* key);
  int (*EVP_DigestVerify)(void* context, const unsigned char* signature, size_t size, const unsigned char* message,
                          size_t message_size);
};

Crypto::Crypto() {
  static Functions functions;
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(ErrorCode::kIncompatible, "signatures are checked by OpenSSL 3, and ", kLibrary,
         " cannot be opened: install it (Debian: libssl3)");
  }
#define TW_FIND(name) find(library, #name, functions.name)
  TW_FIND(ERR_set_mark);
  TW_FIND(ERR_pop_to_mark);
  TW_FIND(BIO_new_mem_buf);
  TW_FIND(BIO_free);
  TW_FIND(PEM_read_bio_PUBKEY);
  TW_FIND(PEM_read_bio_PrivateKey);
  TW_FIND(EVP_PKEY_free);
  TW_FIND(EVP_PKEY_is_a);
  TW_FIND(EVP_PKEY_get_raw_public_key);
  TW_FIND(EVP_PKEY_new_raw_public_key);
  TW_FIND(EVP_MD_CTX_new);
  TW_FIND(EVP_MD_CTX_free);
  TW_FIND(EVP_DigestSignInit);
  TW_FIND(EVP_DigestSign);
  TW_FIND(EVP_DigestVerifyInit);
  TW_FIND(EVP_DigestVerify);
#undef TW_FIND
  functions_ = &functions;
}

const Crypto& Crypto::open() {
  static const Crypto crypto;  // made anew at the next call where this throws
  return crypto;
}

std::optional<PublicKey> Crypto::public_key(const std::string& pem) const {
  const OwnErrors errors(functions_->ERR_set_mark, functions_->ERR_pop_to_mark);
  void* bio = functions_->BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  const Owned key(functions_->PEM_read_bio_PUBKEY(bio, nullptr, no_password, nullptr), functions_->EVP_PKEY_free);
  functions_->BIO_free(bio);
  PublicKey bytes;
  size_t size = bytes.size();
  const bool is_one = key != nullptr && functions_->EVP_PKEY_is_a(key.get(), kAlgorithm) == 1 &&
                      functions_->EVP_PKEY_get_raw_public_key(key.get(), bytes.data(), &size) == 1;
  return is_one && size == bytes.size() ? std::optional(bytes) : std::nullopt;
}

std::optional<Signature> Crypto::sign(Bytes message, const std::string& private_pem) const {
  const OwnErrors errors(functions_->ERR_set_mark, functions_->ERR_pop_to_mark);
  void* bio = functions_->BIO_new_mem_buf(private_pem.data(), static_cast<int>(private_pem.size()));
  const Owned key(functions_->PEM_read_bio_PrivateKey(bio, nullptr, no_password, nullptr), functions_->EVP_PKEY_free);
  functions_->BIO_free(bio);
  if (key == nullptr || functions_->EVP_PKEY_is_a(key.get(), kAlgorithm) != 1) return std::nullopt;
  const Owned context(functions_->EVP_MD_CTX_new(), functions_->EVP_MD_CTX_free);
  Signature made;
  size_t key_size = made.key.size(), size = made.bytes.size();
  const bool is_signed =
      functions_->EVP_PKEY_get_raw_public_key(key.get(), made.key.data(), &key_size) == 1 &&
      functions_->EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
      functions_->EVP_DigestSign(context.get(), made.bytes.data(), &size, message.data(), message.size()) == 1;
  return is_signed ? std::optional(made) : std::nullopt;
}

bool Crypto::holds(Bytes message, const Signature& signature) const {
  const OwnErrors errors(functions_->ERR_set_mark, functions_->ERR_pop_to_mark);
  const Owned key(
      functions_->EVP_PKEY_new_raw_public_key(kEd25519, nullptr, signature.key.data(), signature.key.size()),
      functions_->EVP_PKEY_free);
  if (key == nullptr) return false;
  const Owned context(functions_->EVP_MD_CTX_new(), functions_->EVP_MD_CTX_free);
  return functions_->EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         functions_->EVP_DigestVerify(context.get(), signature.bytes.data(), signature.bytes.size(), message.data(),
                                      message.size()) == 1;
}

}  // namespace tw::format
