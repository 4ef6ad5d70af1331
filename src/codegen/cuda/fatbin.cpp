#include "codegen/cuda/fatbin.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "support/error.h"

namespace tw::codegen {
namespace {

using Bytes = std::vector<std::byte>;

// The container as nvcc's `fatbinary` writes it; little-endian, as all that it is for.
struct Header {
  uint32_t magic = 0xBA55ED50;
  uint16_t version = 1, bytes = 16;
  uint64_t images = 0;  // their bytes
};
static_assert(sizeof(Header) == 16);

constexpr uint16_t kPtx = 1, kElf = 2;
struct Image {
  uint16_t kind = 0, version = 0x0101;
  uint32_t header_bytes = 64;
  uint64_t bytes = 0;          // of what follows, padded
  uint32_t stored_bytes = 0;   // of compressed ones, without padding
  uint32_t options_field = 0;  // where the header says which options ptxas shall have
  uint16_t minor = 0, major = 0;
  uint32_t architecture = 0;
  uint64_t name = 0, flags = 0, reserved = 0, full_bytes = 0;  // full_bytes: of compressed ones before
};
static_assert(sizeof(Image) == 64);

// No options: where they would lie and how many bytes they have.
struct Options {
  uint32_t offset = sizeof(Image) + 8, bytes = 0;
  uint64_t text = 0;
};
static_assert(sizeof(Options) == 16);

constexpr uint64_t kOf64Bits = 0x11, kLz4 = 0x2000;
constexpr size_t kImageAlignment = 8;

template <typename T>
void put(Bytes& out, const T& value) {
  out.resize(out.size() + sizeof(T));
  std::memcpy(&out[out.size() - sizeof(T)], &value, sizeof(T));
}

void put_image(Bytes& out, std::span<const std::byte> image) {
  out.insert(out.end(), image.begin(), image.end());
  out.resize(out.size() + (kImageAlignment - image.size() % kImageAlignment) % kImageAlignment);
}

uint64_t padded(size_t bytes) { return (bytes + kImageAlignment - 1) / kImageAlignment * kImageAlignment; }

uint32_t number_of(std::string_view architecture) {
  uint32_t number = 0;
  const char* end = architecture.data() + architecture.size();
  const bool known = architecture.starts_with("sm_") && architecture.size() > 3;
  const auto read = std::from_chars(architecture.data() + (known ? 3 : 0), end, number);
  TW_CHECK(known && read.ec == std::errc() && read.ptr == end, "no GPU translates code for {}", architecture);
  return number;
}

// "9.0" in the PTX's ".version 9.0".
void read_version(const std::string& ptx, Image& image) {
  constexpr std::string_view kVersion = ".version ";
  const size_t at = ptx.find(kVersion);
  TW_CHECK(at != std::string::npos, "PTX without a version");
  const char *begin = ptx.data() + at + kVersion.size(), *end = ptx.data() + ptx.size();
  const auto major = std::from_chars(begin, end, image.major);
  if (major.ptr != end && *major.ptr == '.') std::from_chars(major.ptr + 1, end, image.minor);
}

// One LZ4 sequence: literals, then a match of `length` bytes (0: the last sequence, without one) `distance` back.
void put_sequence(Bytes& out, std::span<const std::byte> literals, size_t length, size_t distance) {
  constexpr size_t kMinMatch = 4, kNibble = 15, kByte = 255;
  const size_t extra = length > 0 ? length - kMinMatch : 0;
  out.push_back(static_cast<std::byte>(std::min(literals.size(), kNibble) << 4 | std::min(extra, kNibble)));
  const auto put_rest = [&](size_t count) {
    if (count < kNibble) return;
    for (count -= kNibble; count >= kByte; count -= kByte) out.push_back(std::byte{kByte});
    out.push_back(static_cast<std::byte>(count));
  };
  put_rest(literals.size());
  out.insert(out.end(), literals.begin(), literals.end());
  if (length == 0) return;
  out.push_back(static_cast<std::byte>(distance & kByte));
  out.push_back(static_cast<std::byte>(distance >> 8));
  put_rest(extra);
}

}  // namespace

bool is_portable(std::string_view architecture) { return !architecture.ends_with('a') && !architecture.ends_with('f'); }

// Greedy, by the last place of each hash of four bytes. The format wants the last five bytes as literals, and no match
// that begins in the last twelve.
std::vector<std::byte> compress_lz4(std::span<const std::byte> bytes) {
  constexpr size_t kHashBits = 14, kLastLiterals = 5, kNoMatch = 12, kFarthest = 65535, kWord = sizeof(uint32_t);
  constexpr uint32_t kNowhere = UINT32_MAX, kHashFactor = 2654435761U;
  std::vector<uint32_t> last(size_t{1} << kHashBits, kNowhere);
  Bytes out;
  size_t done = 0;  // bytes that sequences have
  for (size_t at = 0; at + kNoMatch < bytes.size(); ++at) {
    uint32_t word = 0;
    std::memcpy(&word, &bytes[at], kWord);
    uint32_t& place = last[word * kHashFactor >> (32 - kHashBits)];
    const size_t found = place;
    place = static_cast<uint32_t>(at);
    if (found == kNowhere || at - found > kFarthest || std::memcmp(&bytes[found], &word, kWord) != 0) continue;
    size_t length = kWord;
    while (at + length + kLastLiterals < bytes.size() && bytes[found + length] == bytes[at + length]) ++length;
    put_sequence(out, bytes.subspan(done, at - done), length, at - found);
    done = at + length;
    at = done - 1;
  }
  put_sequence(out, bytes.subspan(done), 0, 0);
  return out;
}

std::vector<std::byte> make_fatbin(std::span<const std::byte> cubin, const std::string& ptx,
                                   std::string_view architecture) {
  // Drivers want the text's end marked.
  const Bytes stored = compress_lz4(std::as_bytes(std::span(ptx.c_str(), ptx.size() + 1)));
  Image binary;
  constexpr size_t kAbiVersion = 8;  // place in an ELF header
  TW_CHECK(cubin.size() > kAbiVersion, "a cubin of {} bytes", cubin.size());
  binary.kind = kElf, binary.bytes = padded(cubin.size());
  binary.major = 1, binary.minor = static_cast<uint16_t>(cubin[kAbiVersion]);
  binary.architecture = number_of(architecture), binary.flags = kOf64Bits;
  Image text;
  text.kind = kPtx, text.header_bytes = sizeof(Image) + sizeof(Options), text.bytes = padded(stored.size());
  text.stored_bytes = static_cast<uint32_t>(stored.size()), text.options_field = sizeof(Image);
  text.architecture = binary.architecture, text.flags = kOf64Bits | kLz4, text.full_bytes = ptx.size() + 1;
  read_version(ptx, text);
  Header header;
  header.images = binary.header_bytes + binary.bytes + text.header_bytes + text.bytes;
  Bytes out;
  put(out, header);
  put(out, binary);
  put_image(out, cubin);
  put(out, text);
  put(out, Options());
  put_image(out, stored);
  return out;
}

}  // namespace tw::codegen
