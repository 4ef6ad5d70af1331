#include "te/join_outputs.h"

#include <algorithm>

#include "te/reads.h"

namespace tw::te {
namespace {

class Joiner {
 public:
  explicit Joiner(const Program& program) : old_(program) {}

  Program run() {
    find_members();
    if (members_.size() < 2 || sums_leave_beside_members()) return old_;
    out_.name = old_.name;
    out_.inputs = old_.inputs;
    out_.outputs = old_.outputs;
    for (size_t c = 0; c < old_.computes.size(); ++c) {
      const Compute& compute = old_.computes[c];
      if (!is_member(c)) {
        out_.computes.push_back(reading_twins(compute));
      } else if (has_twin(c)) {
        Compute twin = reading_twins(compute);
        twin.outputs[0].name = twin_of(compute.name());
        out_.computes.push_back(std::move(twin));
      }
    }
    out_.computes.push_back(joint());
    verify(out_);
    return std::move(out_);
  }

 private:
  const Compute& compute(size_t c) const { return old_.computes[c]; }
  const Compute& owner() const { return compute(members_.back()); }
  bool is_member(size_t c) const { return std::ranges::find(members_, c) != members_.end(); }

  bool leaves_alone(const Compute& c) const { return c.outputs.size() == 1 && old_.is_output(c.name()); }

  bool sums_leave_beside_members() const {
    for (size_t c = 0; c < old_.computes.size(); ++c) {
      if (!is_member(c) && sums_columns(compute(c)) && old_.is_output(compute(c).name())) return true;
    }
    return false;
  }

  // Outputs of the largest shape, up to the last one that is element-wise: the owner.
  void find_members() {
    int64_t largest = -1;
    const Shape* space = nullptr;
    for (const Compute& c : old_.computes) {
      if (!leaves_alone(c) || c.is_reduction() || num_elements(c.outputs[0].shape) < largest) continue;
      largest = num_elements(c.outputs[0].shape);
      space = &c.outputs[0].shape;
    }
    for (size_t c = 0; space != nullptr && c < old_.computes.size(); ++c) {
      if (leaves_alone(compute(c)) && compute(c).outputs[0].shape == *space) members_.push_back(c);
    }
    while (!members_.empty() && owner().is_reduction()) members_.pop_back();
  }

  std::vector<const Compute*> readers(const std::string& tensor) const {
    std::vector<const Compute*> found;
    for (const Compute& c : old_.computes) {
      if (count_reads(c, tensor) > 0) found.push_back(&c);
    }
    return found;
  }

  bool has_twin(size_t c) const {
    const std::vector<const Compute*> all = readers(compute(c).name());
    if (compute(c).is_reduction()) return true;
    if (all.empty()) return false;
    const bool only_owner = all.size() == 1 && all[0] == &owner();
    return !only_owner || !readers(owner().name()).empty() || !reads_own_point(owner(), compute(c).name());
  }

  std::string twin_of(const std::string& name) const {
    std::string twin = name + "_kept";
    const auto taken = [&](const Tensor& t) { return t.name == twin; };
    while (std::ranges::any_of(all_tensors(old_), taken)) twin += '_';
    return twin;
  }

  Compute reading_twins(Compute c) const {
    for (Expr& body : c.body) {
      body = rewrite(body, [&](const Expr& e) -> Expr {
        if (e.op() != Op::kLoad) return {};
        for (const size_t m : members_) {
          if (e->name == compute(m).name() && has_twin(m)) return read_from(e, twin_of(e->name));
        }
        return {};
      });
    }
    return c;
  }

  // Of member `c` at the owner's point.
  Expr value_of(size_t c) const {
    const Compute& member = compute(c);
    const std::vector<Expr> point = variables(owner().axes);
    if (has_twin(c)) return Tensor{twin_of(member.name()), member.outputs[0].type, member.outputs[0].shape}(point);
    VarMap values;
    for (size_t d = 0; d < point.size(); ++d) values.emplace(member.axes[d].name, point[d]);
    return substitute(reading_twins(member).body[0], values);
  }

  // What the owner reads at its own point of members without a twin is what they are.
  Compute joint() const {
    Compute all{.outputs = {}, .axes = owner().axes, .reduce_axes = {}, .body = {}, .combiner = {}};
    std::map<std::string, Expr> values;
    for (const size_t m : members_) {
      Expr value = rewrite(value_of(m), [&](const Expr& e) -> Expr {
        const auto found = e.op() == Op::kLoad && !e->predicated ? values.find(e->name) : values.end();
        return found == values.end() ? Expr() : found->second;
      });
      all.outputs.push_back(compute(m).outputs[0]);
      if (!has_twin(m)) values.emplace(compute(m).name(), value);
      all.body.push_back(std::move(value));
    }
    return all;
  }

  const Program& old_;
  std::vector<size_t> members_;  // in order, the owner last
  Program out_;
};

}  // namespace

Program join_outputs(const Program& program) { return Joiner(program).run(); }

}  // namespace tw::te
