#include "dataflow/axis_classes.h"

#include <algorithm>

#include "support/join.h"
#include "te/reads.h"

namespace tw::dataflow {
namespace {

// Union-find over axes of computes and dims of tensors.
class Unifier {
 public:
  explicit Unifier(const te::Program& program) : program_(program) {
    for (size_t c = 0; c < program.computes.size(); ++c) {
      for (const te::Tensor& out : program.computes[c].outputs) producers_[out.name] = static_cast<int>(c);
    }
    for (size_t c = 0; c < program.computes.size(); ++c) add(c);
  }

  int axis(size_t compute, const std::string& name) {
    const auto [found, fresh] = axes_.try_emplace({compute, name}, static_cast<int>(parents_.size()));
    if (fresh) make({compute});
    return root(found->second);
  }

 private:
  void make(std::vector<size_t> computes) {
    parents_.push_back(static_cast<int>(parents_.size()));
    computes_.push_back(std::move(computes));
  }

  int dim(const std::string& tensor, size_t d) {
    const auto [found, fresh] = dims_.try_emplace({tensor, d}, static_cast<int>(parents_.size()));
    if (fresh) make({});
    return root(found->second);
  }

  int root(int node) const {
    while (parents_[static_cast<size_t>(node)] != node) node = parents_[static_cast<size_t>(node)];
    return node;
  }

  void join(int a, int b) {
    if (a == b) return;
    std::vector<size_t>&mine = computes_[static_cast<size_t>(a)], &others = computes_[static_cast<size_t>(b)];
    if (std::ranges::find_first_of(mine, others) != mine.end()) return;
    mine.insert(mine.end(), others.begin(), others.end());
    parents_[static_cast<size_t>(b)] = a;
  }

  // Of what is read, the latest results first: where y = x w is added to x, the sum's axes are those of y.
  std::vector<Expr> reads_of(const te::Compute& compute) const {
    std::vector<Expr> reads;
    te::visit_reads(compute, [&](const Expr& load) { reads.push_back(load); });
    std::ranges::stable_sort(reads, std::greater<>(),
                             [&](const Expr& load) { return value_or(producers_, load->name, -1); });
    return reads;
  }

  void add(size_t c) {
    const te::Compute& compute = program_.computes[c];
    std::map<std::string, int64_t> extents;
    for (const auto* axes : {&compute.axes, &compute.reduce_axes}) {
      for (const te::Axis& a : *axes) extents[a.name] = a.extent, axis(c, a.name);
    }
    for (const te::Tensor& out : compute.outputs) {
      for (size_t d = 0; d < out.shape.size(); ++d) join(axis(c, compute.axes[d].name), dim(out.name, d));
    }
    for (const Expr& load : reads_of(compute)) {
      const Shape& shape = program_.tensor(load->name).shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        const auto found = load.arg(d).is_var() ? extents.find(load.arg(d)->name) : extents.end();
        if (found != extents.end() && found->second == shape[d]) join(dim(load->name, d), axis(c, found->first));
      }
    }
  }

  const te::Program& program_;
  std::map<std::string, int> producers_;
  std::map<std::pair<size_t, std::string>, int> axes_;
  std::map<std::pair<std::string, size_t>, int> dims_;
  std::vector<int> parents_;
  std::vector<std::vector<size_t>> computes_;  // of a root: those that have an axis in its class
};

}  // namespace

AxisClasses::AxisClasses(const te::Program& program) {
  Unifier unifier(program);
  std::map<int, int> numbers;
  for (size_t c = 0; c < program.computes.size(); ++c) {
    const te::Compute& compute = program.computes[c];
    for (const auto* axes : {&compute.axes, &compute.reduce_axes}) {
      for (const te::Axis& a : *axes) {
        const auto [found, fresh] = numbers.try_emplace(unifier.axis(c, a.name), count());
        if (fresh) extents_.push_back(a.extent);
        classes_[{c, a.name}] = found->second;
      }
    }
  }
}

int AxisClasses::of(size_t compute, const std::string& axis) const {
  return value_or(classes_, std::pair(compute, axis), -1);
}

}  // namespace tw::dataflow
