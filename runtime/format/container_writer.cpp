#include <algorithm>

#include "runtime/format/atomic_file.h"
#include "runtime/format/container.h"
#include "runtime/format/container_layout.h"
#include "runtime/format/error.h"
#include "runtime/format/validate.h"

namespace tw::format {
namespace {

/// The caller's sections and the manifest, sorted, checked as the reader will check them.
std::vector<Section> collect(const std::string& json, const std::vector<Section>& sections) {
  std::vector<Section> all;
  for (const Section& section : sections) {
    if (!is_section_name(section.name) || section.name == "manifest") {
      fail(ErrorCode::kInternal, "an artefact cannot hold a section '", section.name, "'");
    }
    if (!section.bytes.empty()) all.push_back(section);
  }
  all.push_back({"manifest", bytes_of(json)});
  std::sort(all.begin(), all.end(), [](const Section& a, const Section& b) { return a.name < b.name; });
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i - 1].name == all[i].name) fail(ErrorCode::kInternal, "section '", all[i].name, "' is given twice");
  }
  if (all.size() > kMaxSections) fail(ErrorCode::kInternal, "an artefact cannot hold ", all.size(), " sections");
  try {
    // What the reader will see: names that are not UTF-8 differ from the caller's manifest.
    validate(manifest_from_json(json), [&](std::string_view name) {
      const auto found = std::find_if(all.begin(), all.end(), [&](const Section& s) { return s.name == name; });
      return found == all.end() ? int64_t{0} : static_cast<int64_t>(found->bytes.size());
    });
  } catch (const Error& error) {
    fail(ErrorCode::kInternal, "the compiler made an inconsistent artefact: ", error.what());
  }
  return all;
}

/// Header and section table, padded to the first section.
std::vector<uint8_t> make_header(const std::vector<Section>& sections) {
  const size_t table_end = kTableAt + sections.size() * kRowBytes;
  std::vector<uint8_t> header(align_up(table_end), 0);
  uint64_t end = table_end;
  for (size_t i = 0; i < sections.size(); ++i) {
    const Section& section = sections[i];
    const size_t row = kTableAt + i * kRowBytes;
    const uint64_t offset = align_up(end);
    std::copy(section.name.begin(), section.name.end(), header.begin() + static_cast<std::ptrdiff_t>(row));
    store<uint64_t>(header, row + kRowOffsetAt, offset);
    store<uint64_t>(header, row + kRowSizeAt, section.bytes.size());
    store(header, row + kRowHashAt, blake3({section.bytes}));
    end = offset + section.bytes.size();
  }
  store(header, 0, kMagic);
  store<uint32_t>(header, kVersionAt, kFormatVersion);
  store<uint32_t>(header, kSectionCountAt, static_cast<uint32_t>(sections.size()));
  store<uint64_t>(header, kFileSizeAt, end);
  const Bytes bytes = header;
  store(header, kRootHashAt, blake3({bytes.first(kHashedHeaderBytes), bytes.subspan(kTableAt, table_end - kTableAt)}));
  return header;
}

/// Calls put(bytes) for consecutive pieces of the file.
template <typename Put>
void emit(const Manifest& manifest, const std::vector<Section>& sections, Put put) {
  static constexpr std::array<uint8_t, kSectionAlignment> kZeros{};
  const std::string json = to_json(manifest);
  const std::vector<Section> all = collect(json, sections);
  const std::vector<uint8_t> header = make_header(all);
  put(Bytes(header));
  uint64_t at = header.size();
  for (const Section& section : all) {
    put(Bytes(kZeros).first(align_up(at) - at));
    put(section.bytes);
    at = align_up(at) + section.bytes.size();
  }
}

}  // namespace

std::vector<uint8_t> serialize_artefact(const Manifest& manifest, const std::vector<Section>& sections) {
  std::vector<uint8_t> file;
  emit(manifest, sections, [&](Bytes bytes) { file.insert(file.end(), bytes.begin(), bytes.end()); });
  return file;
}

void write_artefact(const std::string& path, const Manifest& manifest, const std::vector<Section>& sections) {
  write_file_atomically(path, [&](const PutBytes& put) { emit(manifest, sections, put); });
}

}  // namespace tw::format
