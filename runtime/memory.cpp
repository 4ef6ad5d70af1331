#include "runtime/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/format/error.h"
#include "runtime/host/limits.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

namespace tw::runtime {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kWorthALook = size_t{1} << 20;  // bytes; less is had anywhere, and limits are read from files

size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

/// Linux promises more memory than there is and ends the process later; refuse what cannot work at once. Of a machine
/// that is all its memory, since other processes may leave theirs; in a control group most of what is used is ours.
void check_possible(size_t bytes, const char* purpose) {
  if (bytes < kWorthALook) return;
  const auto wanted = static_cast<int64_t>(std::min<size_t>(bytes, INT64_MAX));
  const host::MemoryLimit machine = host::machine_memory(), group = host::group_memory();
  if (wanted > machine.bytes) {
    format::fail(format::ErrorCode::kOutOfMemory, purpose, " needs ", bytes, " bytes; ", machine.owner, " has ",
                 machine.bytes);
  }
  if (wanted > group.available) {
    format::fail(format::ErrorCode::kOutOfMemory, purpose, " needs ", bytes, " bytes; ", group.owner, " has ",
                 group.available, " left of its ", group.bytes);
  }
}

[[noreturn]] void fail_no_memory(size_t bytes, const char* purpose) {
  format::fail(format::ErrorCode::kOutOfMemory, "no memory for ", purpose, " of ", bytes, " bytes");
}

using format::ErrorCode;

class File {
 public:
  explicit File(const std::string& path) : path_(path), fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) {
      const int error = errno;
      if (error == ENOENT || error == ENOTDIR)
        format::fail(ErrorCode::kInvalidArgument, "there is no file '", path, "'");
      if (error == EACCES) format::fail(ErrorCode::kInvalidArgument, "'", path, "' may not be read");
      format::fail_errno(error, "cannot open '" + path + "'");
    }
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(fd_); }

  size_t size() const {
    struct stat status {};
    if (fstat(fd_, &status) != 0) format::fail_errno(errno, "cannot read '" + path_ + "'");
    if (!S_ISREG(status.st_mode)) format::fail(ErrorCode::kInvalidArgument, "'", path_, "' is not a regular file");
    return static_cast<size_t>(status.st_size);
  }

  void read(uint8_t* to, size_t bytes) {
    while (bytes > 0) {
      const ssize_t got = ::read(fd_, to, std::min(bytes, size_t{1} << 30));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) format::fail_errno(errno, "cannot read '" + path_ + "'");
      if (got == 0) format::fail(ErrorCode::kDamaged, "'", path_, "' became shorter while it was read");
      to += got;
      bytes -= static_cast<size_t>(got);
    }
  }

 private:
  std::string path_;
  int fd_;
};

}  // namespace

Memory Memory::map(size_t bytes, const char* purpose) {
  Memory memory;
  if (bytes == 0) return memory;
  check_possible(bytes, purpose);
  const bool huge = bytes >= kHugePageBytes;
  const size_t wanted = round_up(bytes, kPageBytes);
  const size_t slack = huge ? kHugePageBytes : 0;
  void* mapped = mmap(nullptr, wanted + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) fail_no_memory(bytes, purpose);
  auto* start = static_cast<uint8_t*>(mapped);
  if (huge) {
    const size_t before =
        round_up(reinterpret_cast<uintptr_t>(start), kHugePageBytes) - reinterpret_cast<uintptr_t>(start);
    if (before != 0) munmap(start, before);
    start += before;
    if (slack != before) munmap(start + wanted, slack - before);
    madvise(start, wanted, MADV_HUGEPAGE);  // a wish: without huge pages everything works, slower
  }
  memory.data_ = {start, ReleaseMemory{bytes, wanted, {}}};
  return memory;
}

Memory Memory::allocate(size_t bytes, const Allocator& allocator, const char* purpose) {
  if (allocator.allocate == nullptr || bytes == 0) return map(bytes, purpose);
  void* data = allocator.allocate(allocator.user, bytes, kPageBytes);
  if (data == nullptr) fail_no_memory(bytes, purpose);
  Memory memory;
  memory.data_ = {static_cast<uint8_t*>(data), ReleaseMemory{bytes, 0, allocator}};
  if (reinterpret_cast<uintptr_t>(data) % kPageBytes != 0) {
    format::fail(format::ErrorCode::kInvalidArgument, "the allocator returned memory that is not aligned as asked");
  }
  std::memset(data, 0, bytes);
  return memory;
}

void ReleaseMemory::operator()(uint8_t* data) const {
  if (mapped != 0) {
    munmap(data, mapped);
  } else {
    allocator.deallocate(allocator.user, data, size);
  }
}

void Memory::populate() {
  if (mapped() == 0) return;  // the caller's memory was zeroed, hence touched
  if (madvise(data(), mapped(), MADV_POPULATE_WRITE) == 0) return;
  for (size_t at = 0; at < size(); at += kPageBytes) static_cast<volatile uint8_t*>(data())[at] = 0;
}

void Memory::make_read_only() {
  if (mapped() != 0 && mprotect(data(), mapped(), PROT_READ) != 0) format::fail_errno(errno, "cannot protect memory");
}

void Memory::make_executable() {
  if (mapped() == 0) return;
  if (mprotect(data(), mapped(), PROT_READ | PROT_EXEC) != 0) format::fail_errno(errno, "cannot map code");
  __builtin___clear_cache(reinterpret_cast<char*>(data()), reinterpret_cast<char*>(data() + mapped()));
}

Memory read_file(const std::string& path) {
  File file(path);
  Memory bytes = Memory::map(file.size(), "a file");
  file.read(bytes.data(), bytes.size());
  return bytes;
}

}  // namespace tw::runtime
