// Decisions that somebody may ask about later: by which rule, why, and what was compared.
#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tw {

struct Why {
  std::string rule = {};                                     // a short name: "cycle"
  std::string text = {};                                     // a sentence without a final stop
  std::vector<std::pair<std::string, double>> numbers = {};  // what was compared; names end in the unit: "saved_ns"
  friend bool operator==(const Why&, const Why&) = default;
};

template <typename... Args>
Why because(std::string_view rule, fmt::format_string<Args...> format, Args&&... args) {
  return {std::string(rule), fmt::format(format, std::forward<Args>(args)...), {}};
}

/// The name of the rule that allows something, or why another one declines.
class [[nodiscard]] RuleResult {
 public:
  RuleResult(std::string_view rule) : state_(rule) {}  // a name that lives as long as the program
  RuleResult(Why why) : state_(std::move(why)) {}
  bool ok() const { return state_.index() == 0; }
  std::string_view operator*() const { return std::get<0>(state_); }
  const Why& why() const { return std::get<1>(state_); }

 private:
  std::variant<std::string_view, Why> state_;
};

}  // namespace tw
