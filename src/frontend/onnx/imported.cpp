#include "frontend/onnx/imported.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/onnx/limits.h"

namespace tw::frontend {
namespace {

std::string first_nodes(const UnsupportedItem& item) {
  std::vector<std::string> names(item.nodes.begin(), item.nodes.begin() + std::min(item.nodes.size(), kMaxListedNodes));
  if (item.nodes.size() > kMaxListedNodes) names.push_back("...");
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string describe(const UnsupportedItem& item) {
  if (item.op.empty())
    return fmt::format("\n  {} (read by {})", item.reason, item.nodes.empty() ? "no node" : first_nodes(item));
  const std::string domain = item.domain.empty() ? "" : fmt::format("domain '{}', ", item.domain);
  const std::string version = item.opset > 0 ? fmt::format("opset {}", item.opset) : "not in opset_import";
  return fmt::format("\n  {} ({}{}), {} node{}: {}{}{}", item.op, domain, version, item.nodes.size(),
                     item.nodes.size() == 1 ? "" : "s", first_nodes(item), item.reason.empty() ? "" : ": ",
                     item.reason);
}

std::string describe(const std::vector<UnsupportedItem>& items) {
  std::string text = "the model needs what Tilewright does not support:";
  for (const UnsupportedItem& item : items) text += describe(item);
  return text;
}

}  // namespace

UnsupportedModel::UnsupportedModel(std::vector<UnsupportedItem> items, std::vector<std::string> bindable)
    : Unsupported(describe(items)), items_(std::move(items)), bindable_(std::move(bindable)) {
  std::ranges::sort(bindable_);
  bindable_.erase(std::unique(bindable_.begin(), bindable_.end()), bindable_.end());
}

}  // namespace tw::frontend
