#include "driver/replay.h"

#include "support/hash.h"

namespace tw::driver {
namespace {

constexpr size_t kHashDigits = 16;
constexpr size_t kMaxNames = 8;  // in a message

std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i)
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", names[i]);
  if (names.size() > kMaxNames) text += fmt::format(" and {} more", names.size() - kMaxNames);
  return text;
}

// A plan of that content, of that name if there is one; a plan without content has the name only.
const plan::GroupPlan* find(const plan::EntryPlan& plan, const std::string& content, const std::string& name) {
  const plan::GroupPlan* found = nullptr;
  for (const plan::GroupPlan& g : plan.groups) {
    if (!plan::has_code(g)) continue;
    const bool is_named = g.name == name;
    if (g.content.empty() ? !is_named : g.content != content) continue;
    if (found == nullptr || is_named) found = &g;
    if (is_named) break;
  }
  return found;
}

std::string describe(const std::string& entry, size_t groups, const std::vector<std::string>& anew,
                     const std::vector<std::string>& unused) {
  std::string text;
  if (!anew.empty())
    text = fmt::format("{} of {} groups of '{}' {} not in it and decided by prediction: {}", anew.size(), groups, entry,
                       anew.size() == 1 ? "is" : "are", some_of(anew));
  if (!unused.empty())
    text += fmt::format("{}{} of its groups {} not in the model: {}", text.empty() ? "" : "; ", unused.size(),
                        unused.size() == 1 ? "is" : "are", some_of(unused));
  return text;
}

}  // namespace

std::string content_of(const std::string& text) { return content_hash(text).substr(0, kHashDigits); }

std::string find_other_layouts(const plan::EntryPlan& plan, const ValueLayouts& chosen, const graph::Graph& groups) {
  std::vector<std::string> names;
  for (const auto& [name, layout] : plan.between.values) {
    const graph::ValueId id = groups.find_value(name);
    if (id == graph::kAbsent || groups.value(id).layout != layout) names.push_back(name);
  }
  for (const auto& [name, layout] : plan.layouts.values) {
    const auto found = chosen.values.find(name);
    if (found != chosen.values.end() && found->second != layout) names.push_back(name);
  }
  if (names.empty()) return "";
  return fmt::format("{} of its layouts {} of '{}': {}", names.size(),
                     names.size() == 1 ? "is none of a value" : "are none of values", plan.name, some_of(names));
}

Replay find_groups(const plan::EntryPlan& plan, const EntryGroups& groups, const std::string& graph_hash) {
  Replay out;
  size_t count = 0;
  std::vector<std::string> anew, unused;
  std::set<const plan::GroupPlan*> used;
  std::set<std::string> contents;
  for (size_t i = 0; i < groups.te.size(); ++i) {
    out.plans.push_back(nullptr);
    if (!groups.has_code(i)) continue;
    ++count;
    const std::string content = content_of(groups.text(i));
    const std::string& name = groups.graph.nodes[i].name;
    out.plans[i] = find(plan, content, name);
    used.insert(out.plans[i]);
    contents.insert(content);
    if (out.plans[i] == nullptr) anew.push_back(name);
  }
  const size_t found = count - anew.size();
  if (plan.graph_hash != graph_hash && 2 * found < count)
    throw UsageError("--plan was made for another model: it has {} of the {} groups of '{}'", found, count, plan.name);
  if (found == 0 && count > 0 && !plan.groups.empty())
    throw UsageError("--plan has none of the {} groups of '{}': it was made with other options", count, plan.name);
  for (const plan::GroupPlan& g : plan.groups) {
    if (plan::has_code(g) && !used.contains(&g) && !contents.contains(g.content)) unused.push_back(g.name);
  }
  out.missing = describe(plan.name, count, anew, unused);
  return out;
}

}  // namespace tw::driver
