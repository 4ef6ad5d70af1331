#include "driver/code/cubins.h"

#include <semaphore.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "runtime/format/atomic_file.h"
#include "support/hash.h"
#include "support/mapped_file.h"
#include "support/memory.h"
#ifdef TW_HAVE_CUDA
#include "codegen/cuda/cubin_worker.h"
#include "codegen/cuda/nvrtc.h"
#endif

namespace tw::driver {

#ifdef TW_HAVE_CUDA
namespace {

namespace fs = std::filesystem;
using codegen::CubinReply;
using codegen::CubinWorker;
using Outcome = CubinReply::Outcome;

// Of a process: NVRTC takes 0.1 GB for kernels that we emit, five times as much for templates of the usual libraries.
constexpr int64_t kBytesOfProcess = int64_t{512} << 20;
constexpr size_t kHashDigits = 64;  // ahead of the cubin in its file: its content_hash

}  // namespace

/// Workers that live as long as the compilation; each serves one thread at a time.
class Cubins::Pool {
 public:
  explicit Pool(const CubinOptions& options) : options_(options) {
    const int64_t seats = options.processes > 0 ? options.processes : processes_that_fit(kBytesOfProcess);
    sem_init(&seats_, 0, static_cast<unsigned>(seats));
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { sem_destroy(&seats_); }

  CubinReply compile(const std::string& source, const std::string& architecture) {
    if (options_.worker.empty()) return compile_here(source, architecture);
    Seat seat(*this);
    if (options_.stop && options_.stop()) throw Stopped();
    if (!seat.worker) {
      Result<CubinWorker> started = CubinWorker::start(options_.worker);
      if (!started.ok()) throw ResourceError("CUDA code generation: {}", started.reason());
      seat.worker = std::move(started).value();
    }
    CubinReply reply = seat.worker->compile(source, architecture, options_.seconds, options_.stop);
    if (reply.outcome != Outcome::kCompiled && reply.outcome != Outcome::kRejected) seat.worker.reset();
    if (reply.outcome == Outcome::kTimedOut && options_.stop && options_.stop()) throw Stopped();
    return reply;
  }

  // Threads speak one after the other.
  void tell(const std::string& notice) {
    const std::lock_guard lock(mutex_);
    if (options_.notice) options_.notice(notice);
  }
  // That nothing can be stored: once.
  void tell_of_disk(const std::string& reason) {
    if (!told_of_disk_.exchange(true)) tell(fmt::format("kernels are not cached: {}", reason));
  }

 private:
  /// The right to have a worker, with an idle one if there is any.
  struct Seat {
    explicit Seat(Pool& from) : pool(from) {
      while (sem_wait(&pool.seats_) != 0) {  // a signal came
      }
      const std::lock_guard lock(pool.mutex_);
      if (pool.idle_.empty()) return;
      worker = std::move(pool.idle_.back());
      pool.idle_.pop_back();
    }
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    ~Seat() {
      {
        const std::lock_guard lock(pool.mutex_);
        if (worker) pool.idle_.push_back(*std::move(worker));
      }
      sem_post(&pool.seats_);
    }
    Pool& pool;
    std::optional<CubinWorker> worker;
  };

  static CubinReply compile_here(const std::string& source, const std::string& architecture) {
    try {
      return {Outcome::kCompiled, codegen::compile_cubin(source, architecture), ""};
    } catch (const InternalError& error) {
      return {Outcome::kRejected, {}, error.what()};
    }
  }

  const CubinOptions& options_;
  sem_t seats_;  // of the C library: that of libstdc++ 12 may sleep on though a seat is free (its defect 104928)
  std::mutex mutex_;
  std::atomic<bool> told_of_disk_ = false;
  std::vector<CubinWorker> idle_;
};

std::vector<std::byte> Cubins::get(const std::string& name, const std::string& source, const std::string& architecture,
                                   std::atomic<int64_t>* compilations) {
  const std::string key = content_hash(fmt::format("{}\n{}", codegen::describe_compilation(architecture), source));
  if (std::optional<std::vector<std::byte>> known = find(key)) return *std::move(known);
  if (compilations != nullptr) ++*compilations;
  std::vector<std::byte> cubin = compile(name, source, architecture);
  store(key, cubin);
  return cubin;
}

std::vector<std::byte> Cubins::compile(const std::string& name, const std::string& source,
                                       const std::string& architecture) {
  CubinReply reply = pool_->compile(source, architecture);
  // Memory may have been short for a moment; it is needed once, and not beside as many others.
  if (reply.outcome == Outcome::kKilled) reply = pool_->compile(source, architecture);
  if (reply.outcome == Outcome::kCompiled) return std::move(reply.cubin);
  const std::string what = fmt::format("kernel '{}' for {}: {}", name, architecture, reply.reason);
  if (reply.outcome == Outcome::kKilled) throw ResourceError("{}; is there memory enough?", what);
  throw InternalError(what);
}

std::string Cubins::path(const std::string& key) const {
  return fmt::format("{}/{}{}", options_.folder, key, kCubinEnding);
}

std::optional<std::vector<std::byte>> Cubins::find(const std::string& key) const {
  if (options_.folder.empty()) return std::nullopt;
  const Result<MappedFile> file = MappedFile::open(path(key));
  if (!file.ok()) return std::nullopt;
  std::error_code ignored;
  const std::span<const std::byte> bytes = std::as_bytes(file->bytes());
  if (bytes.size() > kHashDigits) {
    const std::span<const std::byte> cubin = bytes.subspan(kHashDigits);
    const std::string hash = content_hash(cubin);
    if (std::ranges::equal(std::as_bytes(std::span(hash)), bytes.first(kHashDigits))) {
      fs::last_write_time(path(key), fs::file_time_type::clock::now(), ignored);
      return std::vector<std::byte>(cubin.begin(), cubin.end());
    }
  }
  fs::remove(path(key), ignored);
  pool_->tell(fmt::format("a damaged kernel of the cache was removed: {}", path(key)));
  return std::nullopt;
}

void Cubins::store(const std::string& key, const std::vector<std::byte>& cubin) {
  if (options_.folder.empty()) return;
  const std::string hash = content_hash(cubin);
  const auto put_all = [&](const format::PutBytes& put) {
    put(0, format::bytes_of(hash));
    put(hash.size(), format::bytes_of(cubin));
  };
  try {
    fs::create_directories(options_.folder);
    format::write_file_atomically(path(key), put_all, format::Durability::kCached);
  } catch (const std::runtime_error& error) {  // of folders and of files
    pool_->tell_of_disk(error.what());
  }
}

#else

class Cubins::Pool {
 public:
  explicit Pool(const CubinOptions&) {}
};

std::vector<std::byte> Cubins::get(const std::string&, const std::string&, const std::string& architecture,
                                   std::atomic<int64_t>*) {
  throw Unsupported("cubins for {}: this build has no CUDA (TW_CUDA=OFF)", architecture);
}

#endif

Cubins::Cubins(CubinOptions options) : options_(std::move(options)), pool_(std::make_unique<Pool>(options_)) {}

Cubins::~Cubins() = default;

}  // namespace tw::driver
