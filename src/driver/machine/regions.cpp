#include <atomic>

#include "driver/machine/measure.h"
#include "driver/machine/sampling.h"

namespace tw::driver::machine {
namespace {

constexpr int kLists = 64;
constexpr int64_t kTileNs = 1000;  // long against the time it takes a spinning thread to come

// Loops of one tile for each thread, which takes kTileNs. With shorter ones the caller would do all of them itself
// before another thread comes, and the cost of coming would not show.
class Tiles : public runtime::Loops {
 public:
  Tiles(int loops, int threads) : loops_(loops), threads_(threads) {}
  int count() const override { return loops_; }
  int64_t tiles(int) const override { return threads_; }
  void run(int, int64_t begin, int64_t end, int thread) override {
    if (begin != thread || end != thread + 1) helped_.store(true, std::memory_order_relaxed);
    const int64_t until = now_ns() + kTileNs * (end - begin);
    while (now_ns() < until) continue;
  }
  bool helped() const { return helped_.load(std::memory_order_relaxed); }

 private:
  int loops_;
  int threads_;
  std::atomic<bool> helped_{false};  // a thread did another one's tile, which had not come yet
};

}  // namespace

double region_ns(runtime::ThreadPool& pool, int loops) {
  std::vector<double> lists;
  for (int l = 0; l < kLists; ++l) {
    Tiles tiles(loops, pool.size());
    const int64_t begin = now_ns();
    pool.try_run(pool.size(), tiles);
    const int64_t elapsed = now_ns() - begin;
    if (!tiles.helped()) lists.push_back(static_cast<double>(elapsed - kTileNs * loops));
  }
  return best_decile(std::move(lists), Better::kLower);
}

}  // namespace tw::driver::machine
