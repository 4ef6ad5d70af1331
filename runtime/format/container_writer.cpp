#include <algorithm>
#include <future>

#include "runtime/format/atomic_file.h"
#include "runtime/format/container.h"
#include "runtime/format/container_layout.h"
#include "runtime/format/error.h"
#include "runtime/format/kernel_use.h"
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
    const Manifest read = manifest_from_json(json);
    const auto bytes_of_section = [&](std::string_view name) {
      const auto found = std::find_if(all.begin(), all.end(), [&](const Section& s) { return s.name == name; });
      return found == all.end() ? Bytes() : found->bytes;
    };
    validate(read, [&](std::string_view name) { return static_cast<int64_t>(bytes_of_section(name).size()); });
    check_kernel_table(read, bytes_of_section("kernels"));
  } catch (const Error& error) {
    fail(ErrorCode::kInternal, "the compiler made an inconsistent artefact: ", error.what());
  }
  return all;
}

uint64_t table_end(const std::vector<Section>& sections) { return kTableAt + sections.size() * kRowBytes; }

/// Where each section begins, and the size of the file.
std::vector<uint64_t> offsets_of(const std::vector<Section>& sections) {
  std::vector<uint64_t> offsets;
  uint64_t end = table_end(sections);
  for (const Section& section : sections) {
    offsets.push_back(align_up(end));
    end = offsets.back() + section.bytes.size();
  }
  offsets.push_back(end);
  return offsets;
}

std::vector<Hash> hashes_of(const std::vector<Section>& sections) {
  std::vector<Hash> hashes;
  for (const Section& section : sections) hashes.push_back(blake3({section.bytes}));
  return hashes;
}

/// Header and section table.
std::vector<uint8_t> make_header(uint32_t version, const std::vector<Section>& sections,
                                 const std::vector<uint64_t>& offsets, const std::vector<Hash>& hashes) {
  std::vector<uint8_t> header(table_end(sections), 0);
  for (size_t i = 0; i < sections.size(); ++i) {
    const std::string& name = sections[i].name;
    const size_t row = kTableAt + i * kRowBytes;
    std::copy(name.begin(), name.end(), header.begin() + static_cast<std::ptrdiff_t>(row));
    store<uint64_t>(header, row + kRowOffsetAt, offsets[i]);
    store<uint64_t>(header, row + kRowSizeAt, sections[i].bytes.size());
    store(header, row + kRowHashAt, hashes[i]);
  }
  store(header, 0, kMagic);
  store<uint32_t>(header, kVersionAt, version);
  store<uint32_t>(header, kSectionCountAt, static_cast<uint32_t>(sections.size()));
  store<uint64_t>(header, kFileSizeAt, offsets.back());
  const Bytes bytes = header;
  store(header, kRootHashAt, blake3({bytes.first(kHashedHeaderBytes), bytes.subspan(kTableAt)}));
  return header;
}

/// Calls put(place, bytes) for all of the file that is not zeros. The header comes last: hashes are made while sections
/// are written.
void emit(uint32_t version, const std::vector<Section>& all, const std::vector<uint64_t>& offsets,
          const PutBytes& put) {
  std::future<std::vector<Hash>> hashes = std::async([&] { return hashes_of(all); });
  for (size_t i = 0; i < all.size(); ++i) put(offsets[i], all[i].bytes);
  put(0, make_header(version, all, offsets, hashes.get()));
}

}  // namespace

std::vector<uint8_t> serialize_artefact(const Manifest& manifest, const std::vector<Section>& sections) {
  const std::string json = to_json(manifest);
  const std::vector<Section> all = collect(json, sections);
  const std::vector<uint64_t> offsets = offsets_of(all);
  std::vector<uint8_t> file(offsets.back());
  emit(manifest.format_version, all, offsets, [&](uint64_t at, Bytes bytes) {
    std::copy(bytes.begin(), bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(at));
  });
  return file;
}

void write_artefact(const std::string& path, const Manifest& manifest, const std::vector<Section>& sections) {
  const std::string json = to_json(manifest);
  const std::vector<Section> all = collect(json, sections);
  write_file_atomically(path, [&](const PutBytes& put) { emit(manifest.format_version, all, offsets_of(all), put); });
}

}  // namespace tw::format
