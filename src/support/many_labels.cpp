#include "support/many_labels.h"

#include <algorithm>
#include <set>

namespace tw {
namespace {

/// Places in a table as the labels of other variables, the last of which vary fastest, go on one by one.
class Walk {
 public:
  Walk(const std::vector<int>& of, const std::vector<int>& through, const std::vector<int>& labels) {
    for (const int v : through) {
      int64_t step = 0, below = 1;
      for (size_t i = of.size(); i-- > 0; below *= labels[static_cast<size_t>(of[i])]) {
        if (of[i] == v) step = below;
      }
      steps_.push_back(step);
    }
  }
  size_t place() const { return static_cast<size_t>(place_); }
  void move(size_t i, int by) { place_ += steps_[i] * by; }

 private:
  std::vector<int64_t> steps_;
  int64_t place_ = 0;
};

}  // namespace

class ManyLabels::Elimination {
 public:
  Elimination(const ManyLabels& problem, int64_t most_entries)
      : labels_(problem.labels_), open_(problem.costs_), most_entries_(most_entries), neighbours_(labels_.size()) {
    for (const Table& t : open_) connect(t.variables);
  }

  Result<Solution> run() {
    std::set<int> left;
    for (int v = 0; v < std::ssize(labels_); ++v) left.insert(v);
    while (!left.empty()) {
      const auto [v, entries] = next_of(left);
      if (entries > static_cast<double>(most_entries_))
        return declined("the variables that are left need a table of {:.3g} costs at least, {} may be", entries,
                        most_entries_);
      eliminate(v);
      left.erase(v);
    }
    Solution solution{std::vector<int>(labels_.size()), 0};
    for (const Table& constant : open_) solution.cost += constant.costs.front();
    if (solution.cost == kNever) return declined("no labels may occur together");
    for (size_t i = steps_.size(); i-- > 0;) {
      const Step& step = steps_[i];
      size_t place = 0;
      for (const int v : step.rest) place = place * labels(v) + static_cast<size_t>(solution.labels[index(v)]);
      solution.labels[index(step.variable)] = step.best[place];
    }
    return solution;
  }

 private:
  // The label of a variable for each labelling of the rest of those that it shares costs with.
  struct Step {
    int variable;
    std::vector<int> rest;
    std::vector<int> best;
  };

  static size_t index(int v) { return static_cast<size_t>(v); }
  size_t labels(int v) const { return static_cast<size_t>(labels_[index(v)]); }

  void connect(const std::vector<int>& variables) {
    for (const int v : variables) {
      neighbours_[index(v)].insert(variables.begin(), variables.end());
      neighbours_[index(v)].erase(v);
    }
  }

  // The one whose table is the smallest; the size as a double, which does not overflow.
  std::pair<int, double> next_of(const std::set<int>& left) const {
    std::pair<int, double> best{-1, 0};
    for (const int v : left) {
      auto entries = static_cast<double>(labels(v));
      for (const int n : neighbours_[index(v)]) entries *= static_cast<double>(labels(n));
      if (best.first < 0 || entries < best.second) best = {v, entries};
    }
    return best;
  }

  void eliminate(int v) {
    Step step{v, {neighbours_[index(v)].begin(), neighbours_[index(v)].end()}, {}};
    for (const int n : step.rest) neighbours_[index(n)].erase(v);
    connect(step.rest);
    std::vector<Table> with;
    std::erase_if(open_, [&](Table& t) {
      const bool has = std::ranges::count(t.variables, v) > 0;
      if (has) with.push_back(std::move(t));
      return has;
    });
    open_.push_back(least_of(with, step));
    steps_.push_back(std::move(step));
  }

  // The least of the sum over the step's variable, which comes last in the walk.
  Table least_of(const std::vector<Table>& with, Step& step) const {
    std::vector<int> through = step.rest;
    through.push_back(step.variable);
    std::vector<Walk> walks;
    for (const Table& t : with) walks.emplace_back(t.variables, through, labels_);
    Table least{step.rest, {}};
    std::vector<int> at(through.size());
    do {
      double cost = 0;
      for (size_t t = 0; t < with.size(); ++t) cost += with[t].costs[walks[t].place()];
      if (at.back() == 0 || cost < least.costs.back()) {
        if (at.back() == 0) least.costs.emplace_back(), step.best.emplace_back();
        least.costs.back() = cost;
        step.best.back() = at.back();
      }
    } while (advance(at, through, walks));
    return least;
  }

  bool advance(std::vector<int>& at, const std::vector<int>& through, std::vector<Walk>& walks) const {
    for (size_t i = at.size(); i-- > 0;) {
      const bool is_over = at[i] + 1 == labels_[index(through[i])];
      const int by = is_over ? -at[i] : 1;
      at[i] += by;
      for (Walk& walk : walks) walk.move(i, by);
      if (!is_over) return true;
    }
    return false;
  }

  const std::vector<int>& labels_;
  std::vector<Table> open_;  // costs of variables that are not eliminated
  int64_t most_entries_;
  std::vector<std::set<int>> neighbours_;  // those that share costs, of variables that are not eliminated
  std::vector<Step> steps_;
};

int ManyLabels::add(int labels) {
  TW_CHECK(labels > 0, "labels: a variable of {} labels", labels);
  labels_.push_back(labels);
  return size() - 1;
}

void ManyLabels::add_cost(std::vector<int> variables, std::vector<double> costs) {
  int64_t entries = 1;
  for (const int v : variables) entries *= labels(v);
  TW_CHECK(std::set(variables.begin(), variables.end()).size() == variables.size(),
           "labels: a variable is there twice");
  TW_CHECK(entries == std::ssize(costs), "labels: {} costs of {} labellings", costs.size(), entries);
  costs_.push_back({std::move(variables), std::move(costs)});
}

double ManyLabels::cost_of(const std::vector<int>& labels) const {
  double sum = 0;
  for (const Table& t : costs_) {
    size_t place = 0;
    for (const int v : t.variables)
      place = place * static_cast<size_t>(labels_[static_cast<size_t>(v)]) + static_cast<size_t>(labels.at(v));
    sum += t.costs[place];
  }
  return sum;
}

Result<ManyLabels::Solution> ManyLabels::solve(int64_t most_entries) const {
  return Elimination(*this, most_entries).run();
}

}  // namespace tw
