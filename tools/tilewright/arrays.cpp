#include "tilewright/arrays.h"

#include <zip.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "frontend/onnx/import.h"
#include "support/error.h"

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
  if (archive == nullptr) throw UsageError(fmt::format("'{}' is no .npz archive", path));
  std::map<std::string, artefact::Array> arrays;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive.get(), 0); ++i) {
    std::string name = zip_get_name(archive.get(), static_cast<zip_uint64_t>(i), 0);
    const std::vector<std::byte> bytes = read_member(archive.get(), i, path);
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    arrays[name] = parse_npy(bytes, path + ":" + name);
  }
  return arrays;
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
