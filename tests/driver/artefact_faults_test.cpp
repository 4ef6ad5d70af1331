// A damaged artefact of a real model is refused with exit code 5.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "artefact/session.h"
#include "tests/driver/small_model.h"

namespace tw::driver::test {
namespace {

// The exit code with which the bytes are refused, 0 when they load.
int exit_code(const std::vector<uint8_t>& bytes) {
  try {
    artefact::Session::load_memory(bytes, {1, false});
  } catch (const artefact::RuntimeFailure& failure) {
    return failure.exit_code();
  }
  return 0;
}

const std::vector<uint8_t>& artefact() {
  static const std::vector<uint8_t> kBytes = artefact_bytes(compile_graph(small_model(), {}));
  return kBytes;
}

TEST(ArtefactFaults, TheWholeFileLoads) { EXPECT_EQ(exit_code(artefact()), 0); }

TEST(ArtefactFaults, EveryTruncationOfTheFirstPageIsRefused) {
  ASSERT_GT(artefact().size(), 4096u);
  for (std::ptrdiff_t size = 0; size <= 4096; ++size) {
    ASSERT_EQ(exit_code({artefact().begin(), artefact().begin() + size}), 5) << size << " bytes";
  }
  EXPECT_EQ(exit_code({artefact().begin(), artefact().end() - 1}), 5);
}

TEST(ArtefactFaults, TenThousandFlippedBitsAreRefused) {
  std::mt19937_64 random(1);
  std::vector<uint8_t> bytes = artefact();
  for (int i = 0; i < 10'000; ++i) {
    const size_t bit = random() % (bytes.size() * 8);
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    ASSERT_EQ(exit_code(bytes), 5) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
  }
}

}  // namespace
}  // namespace tw::driver::test
