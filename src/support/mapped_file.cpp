#include "support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "support/hash.h"
#include "support/parallel.h"

namespace tw {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return declined("cannot read '{}': {}", path, std::strerror(errno));
  struct stat info = {};
  MappedFile file;
  const bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  void* mapped = nullptr;
  if (regular && info.st_size > 0)
    mapped = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (!regular) return declined("'{}' is not a regular file", path);
  if (mapped == MAP_FAILED) return declined("cannot map '{}': {}", path, std::strerror(errno));
  file.data_ = {static_cast<const uint8_t*>(mapped), Unmap{static_cast<size_t>(info.st_size)}};
  file.modified_ns_ = info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
  return file;
}

void Unmap::operator()(const uint8_t* data) const { munmap(const_cast<uint8_t*>(data), size); }

std::string hash_pieces(std::span<const uint8_t> bytes) {
  const size_t pieces = (bytes.size() + kPieceBytes - 1) / kPieceBytes;
  std::vector<std::string> hashes(pieces);
  parallel_for(pieces, 0, [&](size_t p) {
    const auto piece = bytes.subspan(p * kPieceBytes, std::min(kPieceBytes, bytes.size() - p * kPieceBytes));
    hashes[p] = content_hash(std::as_bytes(piece));
  });
  std::string all = fmt::format("{} bytes\n", bytes.size());
  for (const std::string& hash : hashes) all += hash;
  return content_hash(all);
}

}  // namespace tw
