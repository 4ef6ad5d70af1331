#include "support/join.h"
#include "te/merge_axes.h"
#include "te/reads.h"

namespace tw::te {
namespace {

// The inner extent into which each dim of a tensor is cut; 0 where it stays whole.
using Cuts = std::map<std::string, std::vector<int64_t>>;

class CutFinder {
 public:
  explicit CutFinder(const Program& program) : program_(program) {
    for (const Tensor& t : all_tensors(program)) cuts_[t.name].resize(t.shape.size());
  }

  /// Nothing when one dim would be cut in two ways.
  std::optional<Cuts> run() {
    for (const Compute& c : program_.computes) {
      if (c.is_reduction()) take_divisions(c);
    }
    while (changed_ && !conflict_) {
      changed_ = false;
      for (const Compute& c : program_.computes) spread(c);
    }
    return conflict_ ? std::nullopt : std::optional(cuts_);
  }

 private:
  static int axis_number(const Compute& c, const Expr& index) {
    return index.is_var() ? static_cast<int>(index_of(c.axes, index->name, &Axis::name)) : -1;
  }

  void cut(const std::string& tensor, size_t dim, int64_t inner) {
    int64_t& known = cuts_[tensor][dim];
    conflict_ = conflict_ || (known != 0 && known != inner);
    changed_ = changed_ || known == 0;
    known = inner;
  }

  void take_divisions(const Compute& c) {
    for (const Expr& body : c.body) {
      visit(body, [&](const Expr& e) {
        if (e.op() != Op::kFloorDiv && e.op() != Op::kFloorMod) return;
        const int axis = axis_number(c, e.arg(0));
        if (axis < 0 || e.arg(1).op() != Op::kIntImm) return;
        const int64_t inner = e.arg(1)->value;
        if (inner > 1 && inner < c.axes[axis].extent && c.axes[axis].extent % inner == 0) cut(c.name(), axis, inner);
      });
    }
  }

  // Between a compute's axes and the dims that it writes and reads along them.
  void spread(const Compute& c) {
    for (size_t k = 0; k < c.axes.size(); ++k) {
      for (const Tensor& t : c.outputs) share(t.name, k, c.name(), k);
    }
    visit_reads(c, [&](const Expr& load) {
      const Shape& shape = program_.tensor(load->name).shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        const int k = axis_number(c, load.arg(d));
        if (k >= 0 && shape[d] == c.axes[k].extent) share(load->name, d, c.name(), k);
      }
    });
  }

  void share(const std::string& a, size_t a_dim, const std::string& b, size_t b_dim) {
    if (const int64_t inner = cuts_[a][a_dim]; inner != 0) cut(b, b_dim, inner);
    if (const int64_t inner = cuts_[b][b_dim]; inner != 0) cut(a, a_dim, inner);
  }

  const Program& program_;
  Cuts cuts_;
  bool changed_ = false;
  bool conflict_ = false;
};

}  // namespace

std::map<std::string, Layout> divided_axes(const Program& program) {
  std::map<std::string, Layout> layouts;
  const std::optional<Cuts> cuts = CutFinder(program).run();
  if (!cuts) return layouts;
  for (const auto& [tensor, inner] : *cuts) {
    const Shape& shape = program.tensor(tensor).shape;
    Layout layout;
    // From the back, so that earlier dims keep their numbers.
    for (size_t d = inner.size(); d-- > 0;) {
      if (inner[d] != 0) layout = layout.split(static_cast<int>(d), {shape[d] / inner[d], inner[d]});
    }
    if (!layout.is_identity()) layouts[tensor] = layout;
  }
  return layouts;
}

}  // namespace tw::te
