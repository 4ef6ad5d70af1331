#include <algorithm>

#include "runtime/format/container.h"
#include "runtime/format/container_layout.h"
#include "runtime/format/error.h"
#include "runtime/format/kernel_use.h"
#include "runtime/format/validate.h"

namespace tw::format {
namespace {

constexpr Require require{};

bool all_zero(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

void check_header(Bytes file) {
  require(begins_as_artefact(file), "this is not a Tilewright artefact");
  require(file.size() >= kTableAt, "the artefact is truncated: ", file.size(), " bytes");
  const auto version = load<uint32_t>(file, kVersionAt);
  require_readable("the artefact", version);
  const auto size = load<uint64_t>(file, kFileSizeAt);
  require(size == file.size(), "the artefact is truncated or extended: ", file.size(), " bytes instead of ", size);
  const auto count = load<uint32_t>(file, kSectionCountAt);
  require(count >= 1 && count <= kMaxSections && kTableAt + count * kRowBytes <= file.size(),
          "the artefact is damaged: ", count, " sections");
  const Bytes table = file.subspan(kTableAt, count * kRowBytes);
  const Hash root = blake3({file.first(kHashedHeaderBytes), table});
  require(std::equal(root.begin(), root.end(), file.begin() + kRootHashAt),
          "the artefact is damaged: its header has changed");
  require(all_zero(file.subspan(kFileSizeAt + 8, kHashedHeaderBytes - kFileSizeAt - 8)),
          "the artefact's header is damaged");
}

std::string read_name(Bytes row) {
  const Bytes field = row.first(kNameBytes);
  const auto end = std::find(field.begin(), field.end(), 0);
  require(all_zero(Bytes(end, field.end())), "the artefact's section table is damaged");
  return {field.begin(), end};
}

/// Checks order, names and layout; the offsets must be exactly where the writer puts them.
std::vector<Section> read_table(Bytes file) {
  const auto count = load<uint32_t>(file, kSectionCountAt);
  std::vector<Section> sections;
  uint64_t end = kTableAt + count * kRowBytes;
  for (uint32_t i = 0; i < count; ++i) {
    const Bytes row = file.subspan(kTableAt + i * kRowBytes, kRowBytes);
    std::string name = read_name(row);
    require(is_section_name(name), "the artefact has an unknown section '", name, "'");
    require(sections.empty() || sections.back().name < name, "the artefact's sections are not sorted");
    const auto offset = load<uint64_t>(row, kRowOffsetAt);
    const auto size = load<uint64_t>(row, kRowSizeAt);
    require(offset == align_up(end), "section '", name, "' is not where it should be");
    require(offset <= file.size() && size >= 1 && size <= file.size() - offset, "section '", name,
            "' exceeds the file");
    require(all_zero(file.subspan(end, offset - end)), "the artefact is damaged: the padding before '", name,
            "' has changed");
    sections.push_back({std::move(name), file.subspan(offset, size)});
    end = offset + size;
  }
  require(end == file.size(), "the artefact has bytes after its last section");
  return sections;
}

void check_hashes(Bytes file, const std::vector<Section>& sections, std::string_view unread) {
  for (size_t i = 0; i < sections.size(); ++i) {
    if (sections[i].name == unread) continue;
    const Hash hash = blake3({sections[i].bytes});
    const Bytes stored = file.subspan(kTableAt + i * kRowBytes + kRowHashAt, hash.size());
    require(std::equal(hash.begin(), hash.end(), stored.begin()), "the artefact is damaged: section '",
            sections[i].name, "' has changed");
  }
}

}  // namespace

bool begins_as_artefact(Bytes file) {
  return file.size() >= kMagic.size() && std::equal(kMagic.begin(), kMagic.end(), file.begin());
}

std::vector<Section> read_sections(Bytes file) {
  check_header(file);
  return read_table(file);
}

Artefact Artefact::parse(Bytes file, std::string_view unread) {
  Artefact artefact;
  artefact.sections_ = read_sections(file);
  check_hashes(file, artefact.sections_, unread);
  const Bytes text = artefact.section("manifest");
  artefact.manifest_ = manifest_from_json({reinterpret_cast<const char*>(text.data()), text.size()});
  validate(artefact.manifest_,
           [&](std::string_view name) { return static_cast<int64_t>(artefact.section(name).size()); });
  require(load<uint32_t>(file, kVersionAt) == artefact.manifest_.format_version,
          "the artefact has another format version than its manifest");
  check_kernel_table(artefact.manifest_, artefact.section("kernels"));
  return artefact;
}

Bytes Artefact::section(std::string_view name) const {
  for (const Section& section : sections_) {
    if (section.name == name) return section.bytes;
  }
  return {};
}

void Artefact::keep_target(size_t target) {
  manifest_.targets = {manifest_.targets[target]};
  std::erase_if(manifest_.entries, [&](const Entry& entry) { return static_cast<size_t>(entry.target) != target; });
  for (Entry& entry : manifest_.entries) entry.target = 0;
}

}  // namespace tw::format
