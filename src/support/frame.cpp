#include "support/frame.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

#include "support/hash.h"

namespace tw {
namespace {

constexpr uint64_t kMark = 0x31776d7372757461;  // any number that other output is unlikely to begin with
constexpr uint64_t kMaxBytes = uint64_t{1} << 32;

struct Header {
  uint64_t mark;
  uint64_t bytes;
  char checksum[16];
};

// The first digits of the content's hash: enough against accidents.
Header header_of(const Payload& payload) {
  Header header = {kMark, payload.size(), {}};
  const std::string hash = content_hash(std::as_bytes(std::span(payload)));
  std::memcpy(header.checksum, hash.data(), sizeof(header.checksum));
  return header;
}

class Deadline {
 public:
  explicit Deadline(double seconds) : forever_(seconds < 0), end_(Clock::now() + to_duration(seconds)) {}
  /// For poll(): -1 forever, otherwise milliseconds, rounded up.
  int milliseconds() const {
    if (forever_) return -1;
    const double left = std::chrono::duration<double, std::milli>(end_ - Clock::now()).count();
    return static_cast<int>(std::clamp(std::ceil(left), 0.0, 1e9));
  }

 private:
  using Clock = std::chrono::steady_clock;
  static Clock::duration to_duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e6)));
  }
  bool forever_;
  Clock::time_point end_;
};

Delivery wait_for(int channel, short event, const Deadline& deadline) {
  for (;;) {
    pollfd wanted = {channel, event, 0};
    const int left = deadline.milliseconds();
    const int ready = poll(&wanted, 1, left);
    if (ready > 0) return Delivery::kDone;
    if (ready == 0 && left >= 0) return Delivery::kTimedOut;
    if (ready < 0 && errno != EINTR) return Delivery::kClosed;
  }
}

// Moves `size` bytes with `step(bytes, size)`, which is send() or recv().
template <typename Step>
Delivery move_all(int channel, short event, size_t size, const Deadline& deadline, const Step& step) {
  for (size_t done = 0; done < size;) {
    const Delivery waited = wait_for(channel, event, deadline);
    if (waited != Delivery::kDone) return waited;
    const ssize_t moved = step(done, size - done);
    if (moved > 0) {
      done += static_cast<size_t>(moved);
    } else if (moved == 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)) {
      return Delivery::kClosed;
    }
  }
  return Delivery::kDone;
}

Delivery send_all(int channel, const void* data, size_t size, const Deadline& deadline) {
  return move_all(channel, POLLOUT, size, deadline, [&](size_t at, size_t left) {
    return send(channel, static_cast<const uint8_t*>(data) + at, left, MSG_NOSIGNAL);
  });
}

Delivery receive_all(int channel, void* data, size_t size, const Deadline& deadline) {
  return move_all(channel, POLLIN, size, deadline,
                  [&](size_t at, size_t left) { return recv(channel, static_cast<uint8_t*>(data) + at, left, 0); });
}

}  // namespace

Delivery send_frame(int channel, const Payload& payload, double seconds) {
  const Deadline deadline(seconds);
  const Header header = header_of(payload);
  const Delivery sent = send_all(channel, &header, sizeof(header), deadline);
  return sent == Delivery::kDone ? send_all(channel, payload.data(), payload.size(), deadline) : sent;
}

Delivery receive_frame(int channel, Payload& payload, double seconds) {
  const Deadline deadline(seconds);
  Header header = {};
  // Whatever comes first is looked at before a whole header is waited for.
  const Delivery marked = receive_all(channel, &header.mark, sizeof(header.mark), deadline);
  if (marked != Delivery::kDone) return marked;
  if (header.mark != kMark) return Delivery::kGarbage;
  const Delivery rest = receive_all(channel, &header.bytes, sizeof(header) - sizeof(header.mark), deadline);
  if (rest != Delivery::kDone) return rest;
  if (header.bytes > kMaxBytes) return Delivery::kGarbage;
  payload.resize(header.bytes);
  const Delivery received = receive_all(channel, payload.data(), payload.size(), deadline);
  if (received != Delivery::kDone) return received;
  const Header wanted = header_of(payload);
  const bool intact = std::memcmp(wanted.checksum, header.checksum, sizeof(header.checksum)) == 0;
  return intact ? Delivery::kDone : Delivery::kGarbage;
}

}  // namespace tw
