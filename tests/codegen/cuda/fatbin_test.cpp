// Fatbins: the container byte by byte as NVIDIA's own program writes it, and blocks that an LZ4 reader understands.
#include "codegen/cuda/fatbin.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "codegen/cuda/nvrtc.h"

namespace tw::codegen {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(const std::string& text) {
  const auto all = std::as_bytes(std::span(text));
  return {all.begin(), all.end()};
}

// A reader of LZ4 blocks that trusts nobody, after the format's description; empty where a block is none.
std::string decompress(const Bytes& block) {
  std::string out;
  size_t at = 0;
  const auto byte = [&] { return at < block.size() ? std::to_integer<size_t>(block[at++]) : SIZE_MAX; };
  const auto count = [&](size_t nibble) {
    size_t total = nibble;
    for (size_t more = nibble == 15 ? 255 : 0; more == 255; total += more) more = byte();
    return total;
  };
  while (at < block.size()) {
    const size_t token = byte(), literals = count(token >> 4);
    if (literals > block.size() - at) return "";
    for (size_t i = 0; i < literals; ++i) out.push_back(static_cast<char>(byte()));
    if (at == block.size()) return out;
    const size_t low = byte(), distance = low + (byte() << 8), length = count(token & 15) + 4;
    if (distance == 0 || distance > out.size()) return "";
    for (size_t i = 0; i < length; ++i) out.push_back(out[out.size() - distance]);
  }
  return "";
}

TEST(Lz4, BlocksHoldWhatWasPutIn) {
  std::mt19937 random(7);
  std::vector<std::string> texts = {
      "", "a", "abcdabcdabcd", std::string(12, 'x'), std::string(13, 'x'), std::string(100'000, 'x')};
  for (const unsigned letters : {1U, 2U, 5U, 256U}) {
    for (const size_t size : {14, 33, 270, 4'099, 200'000}) {  // the last one is longer than distances reach
      std::string text(size, ' ');
      for (char& c : text) c = static_cast<char>(random() % letters);
      texts.push_back(text);
      texts.push_back(text + text);
    }
  }
  for (const std::string& text : texts) EXPECT_EQ(decompress(compress_lz4(bytes_of(text))), text) << text.size();
  EXPECT_LT(compress_lz4(bytes_of(texts[5])).size(), 500U);
}

TEST(Lz4, TheEndIsLiterals) {
  // Five literals at least are last, and no match begins in the last twelve bytes.
  for (size_t size = 16; size < 64; ++size) {
    const Bytes block = compress_lz4(bytes_of(std::string(size, 'x')));
    ASSERT_GE(block.size(), 6U);
    const std::string end(reinterpret_cast<const char*>(&block[block.size() - 5]), 5);
    EXPECT_EQ(end, "xxxxx");
    EXPECT_GE(std::to_integer<size_t>(block[block.size() - 6]) >> 4, 5U);
  }
}

template <typename T>
T value_at(const Bytes& bytes, size_t at) {
  T value{};
  std::memcpy(&value, &bytes.at(at), sizeof(T));
  return value;
}

TEST(Fatbin, HasTheCubinAndThePtx) {
  EXPECT_TRUE(is_portable("sm_80"));
  EXPECT_FALSE(is_portable("sm_90a"));
  EXPECT_FALSE(is_portable("sm_100f"));
  const Bytes cubin = bytes_of(
      "\x7f"
      "ELF\2\1\1\x41\x08, 13");
  ASSERT_NE(cubin.size() % 8, 0U);
  std::string ptx = "//\n.version 8.4\n.target sm_80\n";
  for (int i = 0; i < 100; ++i) ptx += "mov.u32 r1, r2;\n";
  const Bytes made = make_fatbin(cubin, ptx, "sm_80");
  EXPECT_EQ(value_at<uint32_t>(made, 0), 0xBA55ED50U);
  EXPECT_EQ(value_at<uint64_t>(made, 8), made.size() - 16);
  // Offsets of the fields as `fatbinary` of CUDA 13 writes them.
  EXPECT_EQ(value_at<uint32_t>(made, 16), 0x01010002U);
  EXPECT_EQ(value_at<uint32_t>(made, 20), 64U);
  EXPECT_EQ(value_at<uint64_t>(made, 24), 16U);  // 13, padded
  EXPECT_EQ(value_at<uint32_t>(made, 40), 0x00010008U);
  EXPECT_EQ(value_at<uint32_t>(made, 44), 80U);
  EXPECT_EQ(value_at<uint64_t>(made, 56), 0x11U);
  EXPECT_EQ(std::memcmp(&made[80], cubin.data(), cubin.size()), 0);
  const size_t text = 80 + 16;
  EXPECT_EQ(value_at<uint32_t>(made, text), 0x01010001U);
  EXPECT_EQ(value_at<uint32_t>(made, text + 4), 80U);
  const auto stored = value_at<uint32_t>(made, text + 16);
  EXPECT_EQ(value_at<uint64_t>(made, text + 8), (stored + 7) / 8 * 8);
  EXPECT_EQ(value_at<uint32_t>(made, text + 20), 64U);
  EXPECT_EQ(value_at<uint32_t>(made, text + 24), 0x00080004U);
  EXPECT_EQ(value_at<uint32_t>(made, text + 28), 80U);
  EXPECT_EQ(value_at<uint64_t>(made, text + 40), 0x2011U);
  EXPECT_EQ(value_at<uint64_t>(made, text + 56), ptx.size() + 1);
  EXPECT_EQ(value_at<uint32_t>(made, text + 64), 72U);
  const size_t begin = text + 80;
  ASSERT_EQ(made.size(), begin + (stored + 7) / 8 * 8);
  const Bytes block(made.begin() + static_cast<ptrdiff_t>(begin),
                    made.begin() + static_cast<ptrdiff_t>(begin + stored));
  EXPECT_EQ(decompress(block), ptx + '\0');
  EXPECT_LT(stored, ptx.size() / 10);
}

TEST(Fatbin, IsWhatKernelsForPortableArchitecturesCompileTo) {
  if (!nvrtc_available().ok()) GTEST_SKIP() << "not run: no NVRTC";
  const std::string source = "extern \"C\" __global__ void k(float* p) { p[threadIdx.x] *= 3; }";
  const Bytes one = compile_cubin(source, "sm_90a"), all = compile_cubin(source, "sm_80");
  EXPECT_EQ(value_at<uint32_t>(one, 0), 0x464C457FU);
  EXPECT_EQ(value_at<uint32_t>(all, 0), 0xBA55ED50U);
  EXPECT_NE(describe_compilation("sm_80").find("PTX"), std::string::npos);
  EXPECT_EQ(describe_compilation("sm_90a").find("PTX"), std::string::npos);
}

}  // namespace
}  // namespace tw::codegen
