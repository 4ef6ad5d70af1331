#include "driver/machine/sampling.h"

#include <sys/resource.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <limits>
#include <thread>

namespace tw::driver::machine {
namespace {

constexpr double kOverlap = 0.8;  // of each thread's time that all threads must run at once

struct alignas(64) Part {
  double amount = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  bool preempted = false;
  double rate() const { return amount / static_cast<double>(end_ns - begin_ns); }
};

// Involuntary context switches of the calling thread.
long preemptions() {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

Part repeat(const Work& work, int64_t min_ns) {
  Part part;
  part.begin_ns = now_ns();
  do {
    part.amount += work();
    part.end_ns = now_ns();
  } while (part.end_ns - part.begin_ns < min_ns);
  return part;
}

// One part for each work, each on a thread of its own: those of the runtime's pool would take each other's work.
std::vector<Part> run_together(std::span<const Work> works, int64_t min_ns) {
  std::vector<Part> parts(works.size());
  std::barrier start(static_cast<std::ptrdiff_t>(works.size()));
  std::vector<std::jthread> threads;
  for (size_t t = 0; t < works.size(); ++t) {
    threads.emplace_back([&, t] {
      works[t]();  // brings caches and clocks into the state that is to be measured
      start.arrive_and_wait();
      const long before = preemptions();
      parts[t] = repeat(works[t], min_ns);
      parts[t].preempted = preemptions() != before;
    });
  }
  for (std::jthread& thread : threads) thread.join();
  return parts;
}

}  // namespace

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double rate_alone(const Work& work, int64_t min_ns) {
  work();
  return repeat(work, min_ns).rate();
}

double rate_together(std::span<const Work> works, int64_t min_ns) {
  const std::vector<Part> parts = run_together(works, min_ns);
  int64_t all_begin = 0, all_end = std::numeric_limits<int64_t>::max();
  for (const Part& part : parts) {
    all_begin = std::max(all_begin, part.begin_ns);
    all_end = std::min(all_end, part.end_ns);
  }
  double rate = 0;
  for (const Part& part : parts) {
    const auto needed = static_cast<int64_t>(kOverlap * static_cast<double>(part.end_ns - part.begin_ns));
    if (part.preempted || all_end - all_begin < needed) return 0;
    rate += part.rate();
  }
  return rate;
}

double best_decile(std::vector<double> samples, Better better) {
  std::erase(samples, 0);
  if (samples.empty()) return 0;
  if (better == Better::kHigher) {
    std::ranges::sort(samples, std::greater());
  } else {
    std::ranges::sort(samples);
  }
  return samples[samples.size() / 10];
}

size_t Rounds::add(std::function<double()> sample, Better better) {
  quantities_.push_back({std::move(sample), better, {}});
  return quantities_.size() - 1;
}

void Rounds::run(int64_t budget_ns, int min, int max) {
  const int64_t until = now_ns() + budget_ns;
  for (; rounds_ < max && (rounds_ < min || now_ns() < until); ++rounds_) {
    for (Quantity& quantity : quantities_) quantity.values.push_back(quantity.sample());
  }
}

double Rounds::best(size_t quantity) const {
  return best_decile(quantities_[quantity].values, quantities_[quantity].better);
}

}  // namespace tw::driver::machine
