// A compiled model allocates nothing after warm-up: every allocation of the process is counted.
#include <gtest/gtest.h>

#include "artefact/session.h"
#include "tests/driver/small_model.h"
#include "tests/harness/allocations/counter.h"

namespace tw::driver::test {
namespace {

using testing::allocation_count;

TEST(Allocation, TenThousandRunsOfAModelAllocateNothing) {
  if (!testing::kCountsAllocations) GTEST_SKIP() << "a sanitizer's allocator is in use";
  ASSERT_EQ(testing::allocations_of_a_vector(), 2);
  const graph::Graph model = small_model();
  const std::vector<uint8_t> artefact = artefact_bytes(compile_graph(model, {}));
  for (const int threads : {1, 2}) {
    artefact::Session session = artefact::Session::load_memory(artefact, {threads, false});
    session.bind(random_arrays(model, 3));
    for (int i = 0; i < 4; ++i) session.run_bound();
    const int64_t before = allocation_count();
    for (int i = 0; i < 10'000; ++i) session.run_bound();
    EXPECT_EQ(allocation_count() - before, 0) << threads << " threads";
  }
}

}  // namespace
}  // namespace tw::driver::test
