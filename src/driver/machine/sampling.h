// Sampling on machines that others use too: many short samples of every quantity, all quantities in turn, best decile.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tw::driver::machine {

/// Does some microseconds of work and returns how much that was (bytes, flop, calls).
using Work = std::function<double()>;

/// Steady clock, ns.
int64_t now_ns();

/// Amount per ns of `work`, repeated for at least `min_ns`.
double rate_alone(const Work& work, int64_t min_ns);

/// Amount per ns of all works at once, one on each of as many threads: the sum of their rates. 0, no sample, when they
/// did not run at the same time nearly all the time: a thread was preempted or came late, as happens while other
/// programs use the CPUs.
double rate_together(std::span<const Work> works, int64_t min_ns);

enum class Better : uint8_t { kHigher, kLower };

/// The value that a tenth of the samples (at least the best one) reach; 0 without samples. A sample of 0 is none.
double best_decile(std::vector<double> samples, Better better);

/// Quantities that are sampled in turn, so that a disturbance hits a few samples of each and no quantity whole.
class Rounds {
 public:
  /// Returns the quantity's number.
  size_t add(std::function<double()> sample, Better better = Better::kHigher);
  /// Samples all of them in turn: at least `min` times, then until `budget_ns` are over or `max` rounds are done.
  void run(int64_t budget_ns, int min, int max);
  double best(size_t quantity) const;
  int rounds() const { return rounds_; }

 private:
  struct Quantity {
    std::function<double()> sample;
    Better better;
    std::vector<double> values;
  };
  std::vector<Quantity> quantities_;
  int rounds_ = 0;
};

}  // namespace tw::driver::machine
