#include "runtime/format/atomic_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <memory>

#include "runtime/format/error.h"

namespace tw::format {
namespace {

constexpr std::string_view kMark = ".tmp.";  // .NAME.tmp.PROCESS.NUMBER
constexpr int64_t kStaleSeconds = 600;       // without a write: a process elsewhere may have the same number and live

/// A file that is removed again unless it was renamed into place.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& directory, const std::string& base) {
    static std::atomic<unsigned> counter{0};
    const std::string name = join(".", base.substr(0, 100), kMark, getpid(), ".", counter.fetch_add(1));
    path_ = directory + "/" + name;
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0) {
      const int error = errno;
      if (error == ENOENT || error == ENOTDIR || error == EACCES || error == EROFS) {
        fail(ErrorCode::kInvalidArgument, "cannot write into '", directory, "': the directory is missing or read-only");
      }
      fail_errno(error, "cannot create '" + path_ + "'");
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (fd_ >= 0) close(fd_);
    if (!renamed_) unlink(path_.c_str());
  }

  void write(uint64_t at, Bytes bytes) {
    while (!bytes.empty()) {
      // Linux writes at most 2 GiB - 4 KiB at once.
      const size_t count = std::min<size_t>(bytes.size(), size_t{1} << 30);
      const ssize_t written = pwrite(fd_, bytes.data(), count, static_cast<off_t>(at));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_errno(errno, "cannot write '" + path_ + "'");
      bytes = bytes.subspan(static_cast<size_t>(written));
      at += static_cast<uint64_t>(written);
    }
  }

  void rename_to(const std::string& target, Durability durability) {
    if (durability == Durability::kSynced && fsync(fd_) != 0) fail_errno(errno, "cannot write '" + path_ + "'");
    const int fd = std::exchange(fd_, -1);
    if (close(fd) != 0) fail_errno(errno, "cannot write '" + path_ + "'");
    if (rename(path_.c_str(), target.c_str()) != 0) fail_errno(errno, "cannot write '" + target + "'");
    renamed_ = true;
  }

 private:
  std::string path_;
  int fd_ = -1;
  bool renamed_ = false;
};

/// The process that the name of a temporary file holds; 0 for other names.
pid_t writer_of(std::string_view name) {
  const size_t mark = name.rfind(kMark);
  if (mark == std::string_view::npos || mark == 0 || name[0] != '.') return 0;
  const char *from = name.data() + mark + kMark.size(), *end = name.data() + name.size();
  pid_t process = 0;
  unsigned number = 0;
  const auto [dot, bad_process] = std::from_chars(from, end, process);
  if (bad_process != std::errc() || process <= 0 || dot == end || *dot != '.') return 0;
  const auto [last, bad_number] = std::from_chars(dot + 1, end, number);
  return bad_number == std::errc() && last == end ? process : 0;
}

bool is_abandoned(const struct stat& file, pid_t writer) {
  if (!S_ISREG(file.st_mode) || file.st_uid != geteuid() || file.st_mtim.tv_sec > time(nullptr) - kStaleSeconds) {
    return false;
  }
  return kill(writer, 0) != 0 && errno == ESRCH;
}

void sync_directory(const std::string& directory) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return;  // a directory that may be written but not read: the rename happened, its time is up to the system
  const int failed = fsync(fd) != 0 ? errno : 0;
  close(fd);
  if (failed != 0 && failed != EINVAL && failed != EROFS) fail_errno(failed, "cannot write '" + directory + "'");
}

}  // namespace

void write_file_atomically(const std::string& path, const std::function<void(const PutBytes&)>& produce,
                           Durability durability) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const std::string base = slash == std::string::npos ? path : path.substr(slash + 1);
  if (base.empty()) fail(ErrorCode::kInvalidArgument, "'", path, "' is not the name of a file");
  struct stat existing {};
  if (stat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode)) {
    fail(ErrorCode::kInvalidArgument, "'", path, "' exists and is not a regular file");
  }
  if (durability == Durability::kSynced) remove_abandoned_files(directory);
  TemporaryFile file(directory, base);
  produce([&](uint64_t at, Bytes bytes) { file.write(at, bytes); });
  file.rename_to(path, durability);
  if (durability == Durability::kSynced) sync_directory(directory);
}

int64_t remove_abandoned_files(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> files(opendir(directory.c_str()), closedir);
  int64_t removed = 0;
  while (files != nullptr) {
    const dirent* const entry = readdir(files.get());
    if (entry == nullptr) break;
    const pid_t writer = writer_of(entry->d_name);
    struct stat file {};
    if (writer == 0 || fstatat(dirfd(files.get()), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (is_abandoned(file, writer) && unlinkat(dirfd(files.get()), entry->d_name, 0) == 0) ++removed;
  }
  return removed;
}

void write_file_atomically(const std::string& path, Bytes bytes, Durability durability) {
  write_file_atomically(
      path, [&](const PutBytes& put) { put(0, bytes); }, durability);
}

}  // namespace tw::format
