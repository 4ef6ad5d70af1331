// The .tw file: header, section table, sections. All integers little-endian.
//
//   0    magic (8 bytes)            64   root hash (32 bytes): BLAKE3 of bytes [0, 64) and of the section table
//   8    u32 format version         96   section table: one row of 80 bytes for each section, sorted by name
//   12   u32 number of sections          name (32 bytes, zero padded), u64 offset, u64 size, BLAKE3 of its bytes
//   16   u64 file size
//   24   zeros
//
// Sections follow in the order of the table, each at the next multiple of 4 KiB, none empty; the gaps between them are
// zero; the file ends with the last byte of the last section. Layout is thus a function of names and sizes, and every
// byte of the file is either hashed or checked to be zero.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/format/hash.h"
#include "runtime/format/manifest.h"

namespace tw::format {

inline constexpr size_t kSectionAlignment = 4096;

struct Section {
  std::string name;
  Bytes bytes;
};

/// Whether the file begins as artefacts do; it may still be damaged.
bool begins_as_artefact(Bytes file);

/// In the order of the table. Header and table are checked as Artefact::parse does it, hashes of sections are not.
std::vector<Section> read_sections(Bytes file);

/// A verified artefact: views of the file's bytes, which must outlive it.
class Artefact {
 public:
  /// Verifies in this order: size, header, table, layout and padding, hashes, manifest schema, manifest semantics.
  /// Throws Error: kDamaged, or kIncompatible for another format version. Reads nothing outside of `file`.
  /// The bytes of the section `unread` are not looked at: its hash is not compared.
  static Artefact parse(Bytes file, std::string_view unread = {});
  const Manifest& manifest() const { return manifest_; }
  const std::vector<Section>& sections() const { return sections_; }
  /// The section's bytes; empty when there is none of that name.
  Bytes section(std::string_view name) const;
  /// From now on manifest() has this target and its entries alone. Pre: target < manifest().targets.size().
  void keep_target(size_t target);

 private:
  Manifest manifest_;
  std::vector<Section> sections_;
};

/// The bytes of an artefact with `manifest` and `sections` ("code", "kernels", "weights", "states", "plan", "source",
/// "metadata", "signature", "graph.N", "cubin.N", any order; empty ones are left out): a function of its arguments
/// alone. Throws Error(kInternal) if Artefact::parse would refuse them.
std::vector<uint8_t> serialize_artefact(const Manifest& manifest, const std::vector<Section>& sections);

/// Writes the same bytes to `path` through write_file_atomically, without a copy of the sections.
void write_artefact(const std::string& path, const Manifest& manifest, const std::vector<Section>& sections);

}  // namespace tw::format
