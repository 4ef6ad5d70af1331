#include "driver/stored_constants.h"

namespace tw::driver {

std::string StoredConstants::key(const graph::Value& constant) {
  return fmt::format("{} {}", hashes_.of(constant.constant), to_string(constant.type));
}

void StoredConstants::add(const graph::Value& constant, const Layout& layout) {
  std::vector<Layout>& known = layouts_[key(constant)];
  if (std::ranges::find(known, layout) == known.end()) known.push_back(layout);
}

std::map<std::string, std::vector<Layout>> StoredConstants::inputs_of(const GroupTe& te, const graph::Graph& graph) {
  std::map<std::string, std::vector<Layout>> inputs;
  if (layouts_.empty()) return inputs;
  for (const auto& [input, so_far] : te.kept) {
    const graph::Value& value = graph.value(te.values.at(input));
    const auto found = value.is_constant() ? layouts_.find(key(value)) : layouts_.end();
    if (found == layouts_.end()) continue;
    for (const Layout& layout : found->second) {
      const auto &before = so_far.primitives(), &all = layout.primitives();
      const auto [rest, behind] = std::ranges::mismatch(all, before);
      if (behind == before.end()) inputs[input].push_back(Layout({rest, all.end()}));
    }
  }
  return inputs;
}

void StoredConstants::share_elements(graph::Graph& graph) {
  hashes_.add(graph);
  for (graph::Value& value : graph.values) {
    if (!value.is_constant()) continue;
    const std::string hash = hashes_.of(value.constant);
    value.constant = elements_.try_emplace(hash, value.constant).first->second;
  }
}

void StoredConstants::end_entry() { hashes_ = {}; }

}  // namespace tw::driver
