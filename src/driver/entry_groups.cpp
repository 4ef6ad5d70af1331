#include "driver/entry_groups.h"

#include <numeric>

#include "transform/storage_order.h"

namespace tw::driver {
namespace {

using graph::ValueId;

std::map<ValueId, ValueId> find_aliases(const graph::Graph& graph, const std::vector<transform::StateNames>& states) {
  std::map<ValueId, ValueId> aliases;
  std::set<ValueId> leaving;  // storages that hold a graph output already
  const auto root = [&](ValueId id) {
    while (aliases.count(id) != 0) id = aliases[id];
    return id;
  };
  for (const ValueId id : graph.outputs) leaving.insert(id);
  for (const graph::Node& node : graph.nodes) {
    if (!transform::is_view(graph, node)) continue;
    const ValueId out = node.outputs[0];
    const ValueId in = root(node.inputs[0]);
    const bool is_next =
        std::ranges::find(states, graph.value(out).name, &transform::StateNames::after) != states.end();
    const bool fixed = graph.producer(in) < 0 || is_next;
    if (graph.is_output(out) && (fixed || !leaving.insert(in).second)) continue;
    aliases[out] = node.inputs[0];
  }
  return aliases;
}

// What a graph's nodes compute, of which shapes.
std::vector<std::string> outline(const graph::Graph& graph) {
  std::vector<std::string> lines;
  for (const graph::Node& node : graph.nodes) {
    std::string line = node.op;
    for (const auto* ids : {&node.inputs, &node.outputs}) {
      for (const ValueId id : *ids)
        line += id == graph::kAbsent ? " none" : fmt::format(" {}", to_string(graph.value(id).type.shape));
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

EntryGroups entry_groups(graph::Graph graph, const graph::OpTable& ops, const targets::Target& target,
                         const std::vector<transform::StateNames>& states, WorkWatch* watch) {
  EntryGroups out{std::move(graph)};
  out.aliases = find_aliases(out.graph, states);
  const size_t count = out.graph.nodes.size();
  out.te.resize(count);
  out.texts.resize(count);
  out.first.resize(count);
  std::unordered_map<std::string, size_t> by_key, by_text;
  for (size_t i = 0; i < count; ++i) {
    check_limits(watch, "maths of groups", static_cast<int64_t>(i), static_cast<int64_t>(count));
    out.first[i] = i;
    if (!out.has_code(i)) continue;
    const graph::Node& group = out.graph.nodes[i];
    const GroupInputs in = {out.graph, group, ops, target, states};
    const auto [same, is_new] = by_key.try_emplace(te_key(in), i);
    if (!is_new) {
      out.first[i] = out.first[same->second];
      out.te[i] = te_like(out.te[same->second], out.graph.nodes[same->second], group);
      continue;
    }
    out.te[i] = build_te(in);
    std::string text = text_of(out.te[i]);
    const auto [known, fresh] = by_text.try_emplace(text, i);
    out.first[i] = known->second;
    if (fresh) {
      out.texts[i] = std::move(text);
    } else {
      out.te[i].program = {};
    }
  }
  return out;
}

bool is_alike(const graph::Graph& a, const graph::Graph& b) { return outline(a) == outline(b); }

VariantComparison::VariantComparison(plan::PassVariant variant, const EntryGroups& usual, const EntryGroups& other,
                                     Planner& planner)
    : variant_(std::move(variant)) {
  for (const EntryGroups* side : {&usual, &other}) {
    for (size_t i = 0; i < side->te.size(); ++i) {
      if (!side->has_code(i)) continue;
      Surplus& group = groups_[side->text(i)];
      group.name = side->graph.nodes[i].name;
      group.te = side->te[side->first[i]];
      group.uses += side == &usual ? 1 : -1;
    }
  }
  std::erase_if(groups_, [](const auto& group) { return group.second.uses == 0; });
  for (const auto& [text, group] : groups_) planner.add_timed(group.name, group.te);
}

std::optional<plan::PassVariant> VariantComparison::times(const Planner& planner) const {
  plan::PassVariant variant = variant_;
  for (const auto& [text, group] : groups_) {
    const double us = planner.plan(group.name, group.te).microseconds;
    if (us == 0) return std::nullopt;
    (group.uses > 0 ? variant.usual_us : variant.us) += us * static_cast<double>(std::abs(group.uses));
  }
  if (groups_.empty()) return std::nullopt;
  return variant;
}

std::set<std::string> VariantComparison::replaced() const {
  std::set<std::string> texts;
  for (const auto& [text, group] : groups_) {
    if (group.uses > 0) texts.insert(text);
  }
  return texts;
}

void choose_variants(std::vector<plan::PassVariant>& variants, const std::vector<std::set<std::string>>& replaced) {
  constexpr double kNoise = 0.02;
  const auto saved = [&](size_t v) { return variants[v].usual_us - variants[v].us; };
  std::vector<size_t> order(variants.size()), chosen;
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), saved);
  for (const size_t v : order) {
    const auto excludes = [&](size_t other) {
      const auto is_shared = [&](const std::string& text) { return replaced[other].contains(text); };
      return variants[other].pass == variants[v].pass || std::ranges::any_of(replaced[v], is_shared);
    };
    variants[v].is_chosen =
        variants[v].us < (1 - kNoise) * variants[v].usual_us && std::ranges::none_of(chosen, excludes);
    if (variants[v].is_chosen) chosen.push_back(v);
  }
}

}  // namespace tw::driver
