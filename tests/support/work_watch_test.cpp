// Work that takes too long or too much memory ends with a sentence that says which.
#include "support/work_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "support/error.h"

namespace tw {
namespace {

std::string refusal(WorkWatch& watch) {
  try {
    watch.check("lowering groups", 3, 10);
  } catch (const ResourceError& error) {
    return error.what();
  }
  return "";
}

void wait_ms(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

TEST(WorkWatch, WithoutLimitsWorkGoesOn) {
  WorkWatch watch({});
  EXPECT_EQ(refusal(watch), "");
  check_limits(&watch, "import");
  check_limits(nullptr, "import");
}

TEST(WorkWatch, TimeIsLimitedWithoutItsPauses) {
  WorkWatch watch({.seconds = 0.2});
  {
    const WorkWatch::Pause pause(&watch);
    const WorkWatch::Pause none(nullptr);
    wait_ms(300);
  }
  EXPECT_EQ(refusal(watch), "");
  wait_ms(300);
  const std::string message = refusal(watch);
  for (const char* part : {"lowering groups, 3 of 10", "0.2 are allowed", "--max-time"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(WorkWatch, MemoryIsLimited) {
  WorkWatch watch({.memory_bytes = 1});
  const std::string message = refusal(watch);
  for (const char* part : {"lowering groups, 3 of 10", "B of memory, 1 byte is allowed", "--max-memory"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(refusal(watch), "") << "it is looked at every few milliseconds";
  wait_ms(30);
  EXPECT_NE(refusal(watch), "");
}

}  // namespace
}  // namespace tw
