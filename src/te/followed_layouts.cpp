#include <algorithm>

#include "support/join.h"
#include "te/rewrite.h"

namespace tw::te {
namespace {

bool only_reorders(const Layout& layout) {
  return std::ranges::all_of(layout.primitives(), [](const LayoutPrimitive& p) { return p.op == LayoutOp::kReorder; });
}

}  // namespace

std::map<std::string, Layout> followed_layouts(const Program& program, const std::map<std::string, Layout>& layouts) {
  const auto outputs = mapped(program.outputs, [&](const std::string& name) { return program.tensor(name); });
  const auto leaders =
      joined(outputs, filtered(program.inputs, [&](const Tensor& t) { return layouts.contains(t.name); }));
  std::map<std::string, Layout> followed;
  for (const Compute& c : program.computes) {
    const Shape& shape = c.outputs[0].shape;
    const int64_t same = index_of(leaders, shape, &Tensor::shape);
    const int64_t leader =
        same >= 0 ? same : index_of(outputs, shape.size(), [](const Tensor& t) { return t.shape.size(); });
    const Layout layout = leader < 0 ? Layout() : value_or(layouts, leaders[leader].name, Layout());
    if (layout.is_identity() || (same < 0 ? !only_reorders(layout) : layout.expands())) continue;
    for (const Tensor& t : c.outputs) {
      if (!program.is_output(t.name)) followed[t.name] = layout;
    }
  }
  return followed;
}

}  // namespace tw::te
