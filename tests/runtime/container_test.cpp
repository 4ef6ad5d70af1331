// The .tw container: what was written is what is read, and nothing else is accepted.
#include "runtime/format/container.h"

#include <gtest/gtest.h>

#include <random>

#include "runtime/format/container_layout.h"
#include "runtime/format/error.h"
#include "tests/runtime/test_model.h"

namespace tw {
namespace {

using format::Artefact;
using format::Error;
using format::ErrorCode;

/// The error code with which `file` is refused, or nothing if it is accepted.
std::optional<ErrorCode> refusal(format::Bytes file) {
  // An exact copy on the heap: a read past the end is then a sanitizer's finding.
  const std::vector<uint8_t> copy(file.begin(), file.end());
  try {
    Artefact::parse(copy);
    return std::nullopt;
  } catch (const Error& error) {
    return error.code();
  }
}

TEST(Container, RoundTrip) {
  const test::TestArtefact made = test::sum_model({1, 7, 64});
  const std::vector<uint8_t> file = made.file();
  const Artefact read = Artefact::parse(file);
  EXPECT_EQ(read.manifest(), made.manifest);
  for (const format::Section& section : made.sections()) {
    const format::Bytes bytes = read.section(section.name);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), section.bytes.begin(), section.bytes.end())) << section.name;
    if (!bytes.empty()) {
      EXPECT_EQ((bytes.data() - file.data()) % 4096, 0) << section.name;
    }
  }
  EXPECT_TRUE(read.section("graph.0").empty());
}

TEST(Container, EqualInputsGiveEqualBytesInAnyOrder) {
  const test::TestArtefact made = test::sum_model({5});
  auto sections = made.sections();
  std::reverse(sections.begin(), sections.end());
  EXPECT_EQ(made.file(), format::serialize_artefact(made.manifest, sections));
  EXPECT_EQ(made.file(), test::sum_model({5}).file());
  EXPECT_NE(made.file(), test::sum_model({6}).file());
}

TEST(Container, RootHashCoversEverySection) {
  test::TestArtefact made = test::sum_model({5});
  const auto root_hash = [&] {
    const std::vector<uint8_t> file = made.file();
    return std::vector<uint8_t>(file.begin() + 64, file.begin() + 96);
  };
  const std::vector<uint8_t> before = root_hash();
  made.plan.back() ^= 1;
  EXPECT_NE(before, root_hash());
}

TEST(Container, EveryTruncationIsRefused) {
  const std::vector<uint8_t> file = test::sum_model({1, 7}).file();
  for (size_t size = 0; size < file.size(); size += size < 4200 ? 1 : 97) {
    EXPECT_EQ(refusal(format::Bytes(file).first(size)), ErrorCode::kDamaged) << size;
  }
  EXPECT_EQ(refusal(format::Bytes(file).first(file.size() - 1)), ErrorCode::kDamaged);
  EXPECT_EQ(refusal(file), std::nullopt);
}

TEST(Container, ExtensionIsRefused) {
  std::vector<uint8_t> file = test::sum_model({7}).file();
  file.push_back(0);
  EXPECT_EQ(refusal(file), ErrorCode::kDamaged);
}

/// Only the format version may be refused as another version instead of as damage.
void expect_flip_refused(std::vector<uint8_t>& file, size_t bit) {
  file[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  const auto version = format::load<uint32_t>(file, format::kVersionAt);
  const bool is_version = version < format::kOldestFormat || version > format::kFormatVersion;
  EXPECT_EQ(refusal(file), is_version ? ErrorCode::kIncompatible : ErrorCode::kDamaged) << "bit " << bit;
  file[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
}

TEST(Container, EveryBitFlipOfTheHeaderIsRefused) {
  std::vector<uint8_t> file = test::sum_model({7}).file();
  for (size_t bit = 0; bit < (format::kTableAt + 5 * format::kRowBytes) * 8; ++bit) expect_flip_refused(file, bit);
}

TEST(Container, RandomBitFlipsAreRefused) {
  std::vector<uint8_t> file = test::sum_model({1, 7, 64}).file();
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) expect_flip_refused(file, random() % (file.size() * 8));
}

/// Puts the right root hash over a changed header or table.
void seal(std::vector<uint8_t>& file) {
  const format::Bytes bytes = file;
  const auto count = format::load<uint32_t>(bytes, format::kSectionCountAt);
  const size_t table = std::min<size_t>(count * format::kRowBytes, file.size() - format::kTableAt);
  format::store(file, format::kRootHashAt,
                format::blake3({bytes.first(format::kHashedHeaderBytes), bytes.subspan(format::kTableAt, table)}));
}

TEST(Container, HostileTablesAreRefused) {
  const std::vector<uint8_t> good = test::sum_model({7}).file();
  const uint64_t hostile[] = {
      0, 1, 4095, 4096, 4097, uint64_t{1} << 32, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{4095}};
  for (size_t row = 0; row < 4; ++row) {
    for (const size_t field : {format::kRowOffsetAt, format::kRowSizeAt}) {
      for (const uint64_t value : hostile) {
        std::vector<uint8_t> file = good;
        const size_t at = format::kTableAt + row * format::kRowBytes + field;
        if (format::load<uint64_t>(file, at) == value) continue;
        format::store<uint64_t>(file, at, value);
        seal(file);
        EXPECT_EQ(refusal(file), ErrorCode::kDamaged) << "row " << row << " field " << field << " value " << value;
      }
    }
  }
}

TEST(Container, HostileCountsAreRefused) {
  const std::vector<uint8_t> good = test::sum_model({7}).file();
  for (const uint32_t count : {0u, 1u, 4u, 6u, 4096u, 4097u, 0x80000000u, 0xffffffffu}) {
    std::vector<uint8_t> file = good;
    format::store<uint32_t>(file, format::kSectionCountAt, count);
    seal(file);
    EXPECT_EQ(refusal(file), ErrorCode::kDamaged) << count;
  }
}

TEST(Container, UnknownAndUnsortedSectionsAreRefused) {
  const std::vector<uint8_t> good = test::sum_model({7}).file();
  std::vector<uint8_t> file = good;
  file[format::kTableAt] = 'x';  // "code" -> "xode"
  seal(file);
  EXPECT_EQ(refusal(file), ErrorCode::kDamaged);
  file = good;  // two rows swapped
  std::swap_ranges(file.begin() + format::kTableAt, file.begin() + format::kTableAt + format::kRowBytes,
                   file.begin() + format::kTableAt + format::kRowBytes);
  seal(file);
  EXPECT_EQ(refusal(file), ErrorCode::kDamaged);
}

TEST(Container, NonZeroPaddingIsRefused) {
  std::vector<uint8_t> file = test::sum_model({7}).file();
  file[4095] = 1;
  EXPECT_EQ(refusal(file), ErrorCode::kDamaged);
}

TEST(Container, WriterRefusesWhatTheReaderWould) {
  const test::TestArtefact made = test::sum_model({7});
  const std::vector<uint8_t> bytes = {1};
  const auto write = [&](const std::string& name) {
    auto sections = made.sections();
    sections.push_back({name, bytes});
    format::serialize_artefact(made.manifest, sections);
  };
  EXPECT_NO_THROW(write("cubin.0"));
  for (const char* name : {"", "manifest", "cubin.", "cubin.x", "cubin.1234567", "code", "secret"}) {
    EXPECT_THROW(write(name), Error) << name;
  }
}

}  // namespace
}  // namespace tw
