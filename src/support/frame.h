// Messages between the compiler and a worker process on a stream socket: length, checksum, payload. Whatever does not
// look like a message of ours is garbage: the other side can no longer be trusted.
#pragma once
#include <cstdint>
#include <vector>

namespace tw {

using Payload = std::vector<uint8_t>;

enum class Delivery : uint8_t {
  kDone,
  kClosed,    // the other side has gone
  kTimedOut,  // nothing, or not all, by the deadline
  kGarbage,   // wrong mark, impossible length, or a checksum that does not fit
};

/// Sends one message. `seconds` < 0: waits as long as it takes.
Delivery send_frame(int channel, const Payload& payload, double seconds);
/// Receives one message into `payload`.
Delivery receive_frame(int channel, Payload& payload, double seconds);

}  // namespace tw
