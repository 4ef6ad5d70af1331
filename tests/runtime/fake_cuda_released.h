// What a test of the fake CUDA driver expects when it ends. Apart from fake_cuda.h, which programs without tests use
// too.
#pragma once
#ifdef TW_RUNTIME_CUDA
#include <gtest/gtest.h>

#include "tests/runtime/fake_cuda.h"

namespace tw::test {

/// Expects that `fake` got back all that it gave.
inline void expect_all_released() {
  EXPECT_TRUE(fake.memory.empty());
  EXPECT_EQ(fake.contexts_pushed, 0);
  EXPECT_EQ(fake.contexts_retained, 0);
  EXPECT_EQ(fake.modules, 0);
  EXPECT_EQ(fake.streams, 0);
  EXPECT_EQ(fake.events, 0);
  EXPECT_EQ(fake.graphs, 0);
  EXPECT_EQ(fake.executable_graphs, 0);
}

}  // namespace tw::test
#endif
