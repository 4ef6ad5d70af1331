// run allocates nothing after the first run of an entry: every allocation of the process is counted.
#include <fstream>

#include "tests/harness/allocations/counter.h"
#include "tests/runtime/api_harness.h"

namespace tw {
namespace {

/// Pages of address space, so that mappings are seen too.
int64_t mapped_pages() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages;
}

TEST(Allocation, TenThousandRunsAllocateNothing) {
  if (!testing::kCountsAllocations) GTEST_SKIP() << "a sanitizer's allocator is in use";
  ASSERT_EQ(testing::allocations_of_a_vector(), 2);
  const auto model = test::load(test::sum_model({7, 301}).file());
  for (const int threads : {1, 0}) {
    for (const int profile : {0, 1}) {
      const auto context = test::make_context(model.get(), test::options_with(threads, profile));
      test::SumCase small(7), large(301);
      const DLTensor small_in[] = {small.a.view(), small.b.view()}, large_in[] = {large.a.view(), large.b.view()};
      const DLTensor small_out = small.y.view(), large_out = large.y.view();
      const auto run = [&](int i) {
        return i % 2 == 0 ? test::api().run(context.get(), small_in, 2, &small_out, 1)
                          : test::api().run(context.get(), large_in, 2, &large_out, 1);
      };
      for (int i = 0; i < 4; ++i) EXPECT_OK(run(i));
      const int64_t pages = mapped_pages();
      const int64_t before = testing::allocation_count();
      int failed = 0;
      for (int i = 0; i < 10'000; ++i) failed += run(i) != nullptr;
      const int64_t during = testing::allocation_count() - before;
      EXPECT_EQ(failed, 0);
      EXPECT_EQ(during, 0) << threads << " threads, profile " << profile;
      EXPECT_EQ(mapped_pages(), pages);
      EXPECT_EQ(large.y.data, large.expected());
    }
  }
}

}  // namespace
}  // namespace tw
