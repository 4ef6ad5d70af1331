#include <algorithm>

#include "te/rewrite.h"

namespace tw::te {
namespace {

bool only_reorders(const Layout& layout) {
  return std::ranges::all_of(layout.primitives(), [](const LayoutPrimitive& p) { return p.op == LayoutOp::kReorder; });
}

}  // namespace

std::map<std::string, Layout> followed_layouts(const Program& program, const std::map<std::string, Layout>& layouts) {
  const auto layout_of = [&](const std::string& tensor) {
    const auto found = layouts.find(tensor);
    return found == layouts.end() ? Layout() : found->second;
  };
  const auto leader_of = [&](const Shape& shape) -> std::optional<Layout> {
    std::optional<Layout> of_rank;
    for (const std::string& output : program.outputs) {
      const Shape& own = program.tensor(output).shape;
      if (own == shape) return layout_of(output);
      if (own.size() == shape.size() && !of_rank) of_rank = layout_of(output);
    }
    for (const Tensor& input : program.inputs) {
      if (input.shape == shape && layouts.contains(input.name)) return layout_of(input.name);
    }
    return of_rank;
  };
  std::map<std::string, Layout> followed;
  for (const Compute& c : program.computes) {
    const std::optional<Layout> leader = leader_of(c.outputs[0].shape);
    if (!leader || leader->is_identity() || !only_reorders(*leader)) continue;
    for (const Tensor& t : c.outputs) {
      if (!program.is_output(t.name)) followed[t.name] = *leader;
    }
  }
  return followed;
}

}  // namespace tw::te
