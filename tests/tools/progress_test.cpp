// The live line of progress: what it says, and that it never is longer than the terminal.
#include "tilewright/progress.h"

#include <gtest/gtest.h>

#include "support/text.h"

namespace tw::cli {
namespace {

constexpr PhaseState kMeasuring = {.phase = "measure",
                                   .done = 4,
                                   .total = 16,
                                   .seconds = 14,
                                   .phase_seconds = 8,
                                   .group = "/layer1/layer1.0/conv1/Conv",
                                   .best_seconds = 123.4e-6};

TEST(ProgressLine, SaysWhatIsDoneAndWhatIsLeft) {
  EXPECT_EQ(progress_line(kMeasuring, 200),
            "measure [####............] 4/16  14 s, about 24 s left  /layer1/layer1.0/conv1/Conv 123 us");
  EXPECT_EQ(progress_line({.phase = "lower", .done = 1, .total = 1, .seconds = 2}, 80), "lower 1/1  2 s");
}

TEST(ProgressLine, FitsEveryTerminal) {
  for (size_t columns = 0; columns < 120; ++columns)
    EXPECT_LE(columns_of(progress_line(kMeasuring, columns)), columns) << columns;
}

TEST(ProgressLine, NamesLoseTheirMiddleFirstAndThenTheLineItsParts) {
  EXPECT_EQ(progress_line(kMeasuring, 80),
            "measure [####............] 4/16  14 s, about 24 s left  /layer1..nv1/Conv 123 us");
  EXPECT_EQ(progress_line(kMeasuring, 56), "measure [####............] 4/16  14 s, about 24 s left");
  EXPECT_EQ(progress_line(kMeasuring, 40), "measure 4/16  14 s, about 24 s left");
  EXPECT_EQ(progress_line(kMeasuring, 20), "measure 4/16");
  EXPECT_EQ(progress_line(kMeasuring, 9), "mea..4/16");
}

TEST(ProgressLine, NoForecastFromNothing) {
  EXPECT_EQ(progress_line({.phase = "code", .done = 0, .total = 4, .seconds = 3, .phase_seconds = 3}, 80),
            "code [................] 0/4  3 s");
  EXPECT_EQ(progress_line({.phase = "code", .done = 1, .total = 4, .seconds = 3, .phase_seconds = 0.5}, 80),
            "code [####............] 1/4  3 s");
}

}  // namespace
}  // namespace tw::cli
