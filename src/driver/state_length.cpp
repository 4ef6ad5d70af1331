#include "driver/state_length.h"

#include <algorithm>

#include "driver/other_extents.h"
#include "driver/states.h"
#include "support/error.h"
#include "transform/rewrite/append_states.h"

namespace tw::driver {
namespace {

using graph::ValueId;

// Extents that become one more: of states before and after a run.
using Extents = std::vector<int64_t>;

frontend::ImportOptions one_longer(const frontend::ImportOptions& import, const Extents& growing) {
  frontend::ImportOptions longer = import;
  const auto grow = [&](int64_t& extent) { extent += std::ranges::count(growing, extent) > 0 ? 1 : 0; };
  for (auto& [name, extent] : longer.dims) grow(extent);
  for (auto& [name, shape] : longer.shapes) std::ranges::for_each(shape, grow);
  return longer;
}

}  // namespace

void check_lengths(const frontend::ImportResult& model, const frontend::ImportOptions& import,
                   std::span<const StatePair> states) {
  Extents growing;
  for (const transform::StateNames& names : names_of(states)) {
    const ValueId before = model.graph.find_value(names.before), after = model.graph.find_value(names.after);
    if (before == graph::kAbsent || after == graph::kAbsent || !transform::grows(model.graph, names)) continue;
    const Shape &from = model.graph.value(before).type.shape, &to = model.graph.value(after).type.shape;
    const size_t dim = static_cast<size_t>(std::ranges::mismatch(from, to).in1 - from.begin());
    growing.insert(growing.end(), {from[dim], to[dim]});
  }
  if (growing.empty() || model.skeleton.empty()) return;
  frontend::ImportOptions longer = one_longer(import, growing);
  const frontend::ImportResult other = import_again(model, longer);
  for (const transform::StateNames& names : names_of(states)) {
    const ValueId before = model.graph.find_value(names.before);
    if (!transform::grows(model.graph, names)) continue;
    if (other.graph.value(other.graph.find_value(names.before)).type == model.graph.value(before).type)
      throw Unsupported("state '{}' grows, and its length is not a dimension that --dim or --shape gives",
                        names.before);
  }
  if (const std::string what = difference_in_extents(model.graph, other.graph); !what.empty())
    throw Unsupported(
        "a state grows, and the model computes with its length: {} is another one for a longer state. Positions and "
        "masks have to be inputs",
        what);
}

}  // namespace tw::driver
