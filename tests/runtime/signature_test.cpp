// Signatures: by keys of RFC 8032, section 7.1 (tests 1 and 2), which everybody knows: never sign anything with them.
#include "runtime/format/signature.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/format/container_layout.h"
#include "runtime/format/crypto.h"
#include "runtime/format/error.h"
#include "tests/runtime/api_harness.h"

namespace tw {
namespace {

using format::Error;
using format::PublicKey;
using format::Signature;
using test::api;

constexpr const char* kPrivate = "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g";
constexpr const char* kPublic = "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
constexpr const char* kOtherPrivate = "MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7";
constexpr const char* kPublicText = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
constexpr const char* kOtherText = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";

std::string pem(const std::string& kind, const std::string& text) {
  return "-----BEGIN " + kind + " KEY-----\n" + text + "\n-----END " + kind + " KEY-----\n";
}

class SignatureTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      format::Crypto::open();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    folder_ = std::filesystem::temp_directory_path() / ("tw-signature-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    write("key.pem", pem("PRIVATE", kPrivate));
    write("other.pem", pem("PRIVATE", kOtherPrivate));
    write("public.pem", pem("PUBLIC", kPublic));
    unsetenv(format::kTrustedKeys);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    unsetenv(format::kTrustedKeys);
  }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return path(name);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::vector<uint8_t> signed_file(const std::string& key) const {
    const test::TestArtefact made = test::sum_model({7});
    const std::vector<uint8_t> bytes = format::to_bytes(format::sign(made.file(), path(key)));
    std::vector<format::Section> sections = made.sections();
    sections.push_back({std::string(format::kSignatureSection), bytes});
    return format::serialize_artefact(made.manifest, sections);
  }

  static std::string refusal(const std::vector<uint8_t>& file, const std::vector<PublicKey>& trusted) {
    try {
      format::require_signature(file, trusted);
      format::Artefact::parse(file);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  std::filesystem::path folder_;
};

TEST_F(SignatureTest, AreThoseOfTheStandard) {
  const auto made = format::Crypto::open().sign({}, pem("PRIVATE", kPrivate));
  ASSERT_TRUE(made);
  EXPECT_EQ(format::to_text(made->key), kPublicText);
  PublicKey first, second;
  std::copy_n(made->bytes.begin(), 32, first.begin());
  std::copy_n(made->bytes.begin() + 32, 32, second.begin());
  EXPECT_EQ(format::to_text(first), "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155");
  EXPECT_EQ(format::to_text(second), "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b");
}

TEST_F(SignatureTest, OfAKeyThatIsTrustedIsLoaded) {
  const std::vector<uint8_t> file = signed_file("key.pem");
  EXPECT_EQ(refusal(file, {format::read_public_key(path("public.pem"))}), "");
  EXPECT_EQ(refusal(file, format::read_public_keys(std::string(kOtherText) + ":" + kPublicText)), "");
  EXPECT_EQ(format::to_text(format::signature_of(file)->key), kPublicText);
}

TEST_F(SignatureTest, MissingOfAnotherKeyOrOfOtherBytesAreRefused) {
  const std::vector<PublicKey> trusted = format::read_public_keys(kPublicText);
  EXPECT_NE(refusal(test::sum_model({7}).file(), trusted).find("is not signed"), std::string::npos);
  EXPECT_NE(refusal(signed_file("other.pem"), trusted).find("which is not trusted"), std::string::npos);
  // The signature of one file in another one, all hashes of which are right.
  const test::TestArtefact other = test::sum_model({8});
  std::vector<format::Section> sections = other.sections();
  const std::vector<uint8_t> bytes = format::to_bytes(*format::signature_of(signed_file("key.pem")));
  sections.push_back({std::string(format::kSignatureSection), bytes});
  const std::vector<uint8_t> moved = format::serialize_artefact(other.manifest, sections);
  EXPECT_NE(refusal(moved, trusted).find("changed after it was signed"), std::string::npos);
  // A key of ours beside a signature that is none of its.
  std::vector<uint8_t> forged = bytes;
  forged.back() ^= 1;
  sections.back().bytes = forged;
  EXPECT_NE(refusal(format::serialize_artefact(other.manifest, sections), trusted), "");
  sections.back().bytes = format::Bytes(bytes).first(50);
  EXPECT_NE(refusal(format::serialize_artefact(other.manifest, sections), trusted).find("has 50 bytes"),
            std::string::npos);
}

TEST_F(SignatureTest, NoByteOfTheFileMayChange) {
  const std::vector<uint8_t> file = signed_file("key.pem");
  const std::vector<PublicKey> trusted = format::read_public_keys(kPublicText);
  for (size_t at = 0; at < file.size(); at += at < 1024 ? 1 : 97) {
    std::vector<uint8_t> changed = file;
    changed[at] ^= 4;
    EXPECT_NE(refusal(changed, trusted), "") << "byte " << at;
  }
}

TEST_F(SignatureTest, KeysThatAreNoneAreNamed) {
  const auto fails = [&](const auto& read, const std::string& word) {
    try {
      read();
      ADD_FAILURE() << "accepted: " << word;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  fails([&] { format::read_public_key(path("nothing.pem")); }, "cannot read the key");
  fails([&] { format::read_public_key(path("key.pem")); }, "no public Ed25519 key");
  fails([&] { format::read_public_key(std::string(kPublicText).substr(1)); }, "cannot read the key");
  fails([&] { format::read_public_keys(":"); }, "has an empty one");
  fails([&] { format::read_public_keys(std::string(kPublicText) + ":"); }, "has an empty one");
  fails([&] { format::sign(test::sum_model({7}).file(), path("public.pem")); }, "no private Ed25519 key");
}

TEST_F(SignatureTest, TheInterfaceTakesAListOrThatOfTheEnvironment) {
  const std::vector<uint8_t> good = signed_file("key.pem"), unsigned_file = test::sum_model({7}).file();
  TwOptions options{};
  options.struct_size = sizeof(options);
  TwModel* model = nullptr;
  const auto load = [&](const std::vector<uint8_t>& file) {
    return api().model_load_memory(file.data(), file.size(), &options, &model);
  };
  const auto loads = [&](const std::vector<uint8_t>& file) {
    EXPECT_OK(load(file));
    api().model_free(model);
  };
  loads(unsigned_file);
  options.trusted_keys = kPublicText;
  loads(good);
  EXPECT_FAILS(load(unsigned_file), TW_ERROR_DAMAGED, "is not signed");
  setenv(format::kTrustedKeys, kOtherText, 1);
  loads(good);  // the caller's list counts
  options.trusted_keys = nullptr;
  EXPECT_FAILS(load(good), TW_ERROR_DAMAGED, "which is not trusted");
  EXPECT_FAILS(api().model_load_memory(good.data(), good.size(), nullptr, &model), TW_ERROR_DAMAGED, "not trusted");
  options.struct_size = offsetof(TwOptions, trusted_keys);  // of a caller of version 7
  EXPECT_FAILS(load(good), TW_ERROR_DAMAGED, "which is not trusted");
  options = {};
  options.struct_size = sizeof(options);
  options.trusted_keys = "";
  loads(unsigned_file);
  options.trusted_keys = "no/such/key.pem";
  EXPECT_FAILS(load(good), TW_ERROR_INVALID_ARGUMENT, "cannot read the key 'no/such/key.pem'");
}

}  // namespace
}  // namespace tw
