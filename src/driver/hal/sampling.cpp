#include "driver/hal/sampling.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>

namespace tw::driver::hal {
namespace {

struct alignas(64) Part {
  double amount = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

Part repeat(const Work& work, int64_t least_ns) {
  Part part;
  part.begin_ns = now_ns();
  do {
    part.amount += work();
    part.end_ns = now_ns();
  } while (part.end_ns - part.begin_ns < least_ns);
  return part;
}

}  // namespace

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double rate_alone(const Work& work, int64_t least_ns) {
  work();
  const Part part = repeat(work, least_ns);
  return part.amount / static_cast<double>(part.end_ns - part.begin_ns);
}

double rate_together(std::span<const Work> works, int64_t least_ns) {
  if (works.empty()) return 0;
  // Threads of their own: those of the runtime's pool would take each other's work.
  std::vector<Part> parts(works.size());
  std::barrier start(static_cast<std::ptrdiff_t>(works.size()));
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < works.size(); ++t) {
      threads.emplace_back([&, t] {
        works[t]();  // brings caches and clocks into the state that is to be measured
        start.arrive_and_wait();
        parts[t] = repeat(works[t], least_ns);
      });
    }
  }
  int64_t begin = parts[0].begin_ns, end = parts[0].end_ns;
  double amount = 0;
  for (const Part& part : parts) {
    begin = std::min(begin, part.begin_ns);
    end = std::max(end, part.end_ns);
    amount += part.amount;
  }
  return amount / static_cast<double>(end - begin);
}

double best_decile(std::vector<double> samples, Better better) {
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

void Rounds::run(int64_t budget_ns, int least, int most) {
  const int64_t until = now_ns() + budget_ns;
  for (; rounds_ < most && (rounds_ < least || now_ns() < until); ++rounds_) {
    for (Quantity& quantity : quantities_) quantity.values.push_back(quantity.sample());
  }
}

double Rounds::best(size_t quantity) const {
  return best_decile(quantities_[quantity].values, quantities_[quantity].better);
}

}  // namespace tw::driver::hal
