#include "tilewright/values/arrays.h"

#include <minizip/unzip.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "frontend/onnx/import.h"
#include "runtime/format/error.h"
#include "runtime/format/safetensors.h"
#include "support/error.h"
#include "support/join.h"
#include "support/mapped_file.h"
#include "support/text.h"
#include "tilewright/command.h"

namespace tw::cli {
namespace {

struct ZipCloser {
  using pointer = unzFile;
  void operator()(unzFile archive) const { unzClose(archive); }
};

// The archive's current member, with its name.
std::pair<std::string, std::vector<std::byte>> read_member(unzFile archive, const std::string& path) {
  constexpr size_t kMaxName = 1 << 16, kMaxPart = 1 << 30;
  constexpr uint64_t kMostOfDeflate = 1032;  // times the compressed bytes
  unz_file_info64 info{};
  std::string name(kMaxName, '\0');
  const bool opens = unzGetCurrentFileInfo64(archive, &info, name.data(), kMaxName, nullptr, 0, nullptr, 0) == UNZ_OK &&
                     unzOpenCurrentFile(archive) == UNZ_OK &&
                     info.uncompressed_size / kMostOfDeflate <= info.compressed_size;
  if (!opens) throw UsageError(fmt::format("'{}': a member cannot be read", path));
  name.resize(info.size_filename);
  std::vector<std::byte> bytes(info.uncompressed_size);
  size_t got = 0;
  for (int part = 1; part > 0 && got < bytes.size(); got += static_cast<size_t>(std::max(part, 0)))
    part =
        unzReadCurrentFile(archive, bytes.data() + got, static_cast<unsigned>(std::min(bytes.size() - got, kMaxPart)));
  // Closing compares the checksum.
  if (unzCloseCurrentFile(archive) != UNZ_OK || got < bytes.size())
    throw UsageError(fmt::format("'{}': '{}' is truncated or damaged", path, name));
  return {name, std::move(bytes)};
}

}  // namespace

std::map<std::string, artefact::Array> read_npz(const std::string& path) {
  const std::unique_ptr<unzFile, ZipCloser> archive(unzOpen64(path.c_str()));
  if (archive == nullptr) {
    const Result<MappedFile> file = MappedFile::open(path);
    throw UsageError("{}", file ? fmt::format("'{}' is not a .npz archive", path) : file.reason());
  }
  unz_global_info64 all{};
  unzGetGlobalInfo64(archive.get(), &all);
  std::map<std::string, artefact::Array> arrays;
  for (uint64_t i = 0; i < all.number_entry; ++i) {
    const bool is_there = (i == 0 ? unzGoToFirstFile(archive.get()) : unzGoToNextFile(archive.get())) == UNZ_OK;
    if (!is_there) throw UsageError(fmt::format("'{}' is damaged: its list of members ends early", path));
    auto [name, bytes] = read_member(archive.get(), path);
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    arrays[name] = parse_npy(bytes, path + ":" + name);
  }
  return arrays;
}

std::map<std::string, artefact::Array> read_safetensors(const std::string& path) try {
  const std::vector<uint8_t> file = read_file(path);
  std::map<std::string, artefact::Array> arrays;
  for (const format::NamedTensor& tensor : format::parse_safetensors(file)) {
    const auto bytes = std::as_bytes(tensor.bytes);
    arrays[tensor.name] = {{*parse_data_type(format::name_of(tensor.dtype)), tensor.shape},
                           {bytes.begin(), bytes.end()}};
  }
  return arrays;
} catch (const format::Error& error) {
  throw UsageError(fmt::format("'{}': {}", path, error.what()));
}

std::map<std::string, artefact::Array> read_arrays(const std::string& path) {
  if (path.ends_with(".npy")) return {{"", read_npy(path)}};
  if (path.ends_with(".npz")) return read_npz(path);
  if (path.ends_with(".safetensors")) return read_safetensors(path);
  throw UsageError("'{}': expected a .npy, .npz or .safetensors file", path);
}

artefact::Array read_array(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string before = text.substr(0, colon);
  const bool has_key = colon != std::string::npos && (before.ends_with(".npz") || before.ends_with(".safetensors"));
  const std::string file = has_key ? before : text;
  std::map<std::string, artefact::Array> arrays = read_arrays(file);
  if (!has_key && arrays.size() == 1) return std::move(arrays.begin()->second);
  const std::string key = has_key ? text.substr(colon + 1) : "";
  if (const auto found = arrays.find(key); found != arrays.end()) return std::move(found->second);
  const auto keys = mapped(arrays, [](const auto& row) { return row.first; });
  if (has_key) throw UsageError("'{}' has no array '{}'{}", file, key, suggestion_or_all(key, keys));
  throw UsageError("'{}' has {}: choose one with {}:KEY{}", file, count_text(std::ssize(keys), "array"), file,
                   suggestion_or_all("", keys));
}

std::vector<artefact::Array> read_test_data(const std::string& folder, const std::string& stem) {
  std::vector<artefact::Array> arrays;
  for (int i = 0;; ++i) {
    std::ifstream file(fmt::format("{}/{}_{}.pb", folder, stem, i), std::ios::binary);
    if (!file) return arrays;
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    arrays.push_back(artefact::to_array(frontend::read_tensor_proto(std::as_bytes(std::span(text)))));
  }
}

}  // namespace tw::cli
