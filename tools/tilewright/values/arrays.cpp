#include "tilewright/values/arrays.h"

#include <zip.h>

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
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

std::vector<std::byte> read_member(zip_t* archive, zip_int64_t index, const std::string& path) {
  zip_stat_t stat{};
  const std::unique_ptr<zip_file_t, ZipCloser> file(zip_fopen_index(archive, static_cast<zip_uint64_t>(index), 0));
  if (file == nullptr || zip_stat_index(archive, static_cast<zip_uint64_t>(index), 0, &stat) != 0) {
    throw UsageError(fmt::format("'{}': a member cannot be read", path));
  }
  std::vector<std::byte> bytes(stat.size);
  if (zip_fread(file.get(), bytes.data(), bytes.size()) != static_cast<zip_int64_t>(bytes.size())) {
    throw UsageError(fmt::format("'{}': '{}' is truncated", path, stat.name));
  }
  return bytes;
}

}  // namespace

std::map<std::string, artefact::Array> read_npz(const std::string& path) {
  int error = 0;
  const std::unique_ptr<zip_t, ZipCloser> archive(zip_open(path.c_str(), ZIP_RDONLY, &error));
  if (archive == nullptr) {
    const Result<MappedFile> file = MappedFile::open(path);
    throw UsageError("{}", file ? fmt::format("'{}' is not a .npz archive", path) : file.reason());
  }
  std::map<std::string, artefact::Array> arrays;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive.get(), 0); ++i) {
    std::string name = zip_get_name(archive.get(), static_cast<zip_uint64_t>(i), 0);
    const std::vector<std::byte> bytes = read_member(archive.get(), i, path);
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
