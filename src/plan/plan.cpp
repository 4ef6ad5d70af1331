#include "plan/plan.h"

#include <charconv>
#include <sstream>

#include "support/error.h"

namespace tw::plan {
namespace {

constexpr std::string_view kHeader = "tilewright plan 1", kChosen = "chosen";

void print_group(std::string& out, const GroupPlan& g) {
  out += fmt::format("group \"{}\" {}\n", g.name, g.family);
  if (g.microseconds > 0) out += fmt::format("  time {}\n", g.microseconds);
  if (g.predicted_us > 0) out += fmt::format("  predicted {}\n", g.predicted_us);
  for (const std::string& line : g.trace) out += fmt::format("  trace {}\n", line);
  for (const auto& [tensor, layout] : g.layouts) out += fmt::format("  layout {} {}\n", tensor, to_string(layout));
  std::istringstream schedule(schedule::to_string(g.schedule));
  for (std::string line; std::getline(schedule, line);) out += fmt::format("  do {}\n", line);
  for (const Rival& r : g.rivals) out += fmt::format("  rival {} {}\n", r.family, r.reason);
}

class Parser {
 public:
  explicit Parser(std::string_view text) : lines_(std::string(text)) {}

  Plan run() {
    next();
    if (line_ != kHeader) fail("expected '" + std::string(kHeader) + "'");
    while (next()) {
      if (starts("target "))
        target_ = rest("target ");  // of the entries that follow
      else if (starts("entry "))
        open_entry();
      else if (starts("graph ") && !plan_.entries.empty())
        plan_.entries.back().graph_hash = rest("graph ");
      else if (starts("pass ") && !plan_.entries.empty())
        plan_.entries.back().passes.push_back(pass_race());
      else if (starts("group \"") && !plan_.entries.empty())
        open_group();
      else if (starts("  ") && in_group())
        group_line();
      else
        fail("unknown line");
    }
    close_group();
    return std::move(plan_);
  }

 private:
  bool next() {
    ++number_;
    return static_cast<bool>(std::getline(lines_, line_));
  }
  bool starts(std::string_view prefix) const { return line_.compare(0, prefix.size(), prefix) == 0; }
  std::string rest(std::string_view prefix) const { return line_.substr(prefix.size()); }
  [[noreturn]] void fail(const std::string& why) const {
    throw UserError("plan line {}: {}: '{}'", number_, why, line_);
  }

  bool in_group() const { return !plan_.entries.empty() && !plan_.entries.back().groups.empty(); }
  GroupPlan& group() { return plan_.entries.back().groups.back(); }

  void open_entry() {
    close_group();
    plan_.entries.push_back({rest("entry "), {}, {}, target_});
  }

  PassRace pass_race() const {
    std::istringstream words(rest("pass "));
    std::string pass, way, us, usual_us, chosen;
    words >> pass >> way >> us >> usual_us >> chosen;
    if (usual_us.empty() || !words.eof() || !(chosen.empty() || chosen == kChosen))
      fail("expected pass NAME WAY US USUAL_US [chosen]");
    return {pass, way, number(us), number(usual_us), chosen == kChosen};
  }

  void open_group() {
    close_group();
    const size_t end = line_.rfind('"');
    if (end < 7 || end + 2 > line_.size()) fail("expected group \"NAME\" FAMILY");
    plan_.entries.back().groups.push_back({line_.substr(7, end - 7), line_.substr(end + 2), {}, {}, 0, {}, 0});
  }

  void close_group() {
    if (!in_group()) return;
    group().schedule = schedule::parse_schedule(schedule_);
    schedule_.clear();
  }

  void group_line() {
    GroupPlan& g = group();
    if (starts("  do ")) {
      schedule_ += rest("  do ") + "\n";
    } else if (starts("  time ")) {
      g.microseconds = number(rest("  time "));
    } else if (starts("  predicted ")) {
      g.predicted_us = number(rest("  predicted "));
    } else if (starts("  trace ")) {
      g.trace.push_back(rest("  trace "));
    } else if (starts("  layout ")) {
      const auto [tensor, layout] = two_words(rest("  layout "));
      g.layouts[tensor] = parse_layout(layout);
    } else if (starts("  rival ")) {
      const auto [family, reason] = two_words(rest("  rival "));
      g.rivals.push_back({family, reason});
    } else {
      fail("unknown line");
    }
  }

  double number(const std::string& text) const {
    double value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) fail("expected a number");
    return value;
  }

  std::pair<std::string, std::string> two_words(const std::string& text) const {
    const size_t space = text.find(' ');
    if (space == std::string::npos) fail("expected two words");
    return {text.substr(0, space), text.substr(space + 1)};
  }

  std::istringstream lines_;
  std::string line_;
  int number_ = 0;
  std::string schedule_;
  std::string target_;
  Plan plan_;
};

}  // namespace

std::string Plan::targets() const {
  std::string out;
  const std::string* last = nullptr;
  for (const EntryPlan& entry : entries) {
    if (last == nullptr || *last != entry.target) out += (out.empty() ? "" : ", ") + entry.target;
    last = &entry.target;
  }
  return out;
}

std::string to_string(const Plan& plan) {
  std::string out = fmt::format("{}\n", kHeader);
  const std::string* target = nullptr;
  for (const EntryPlan& entry : plan.entries) {
    if (target == nullptr || *target != entry.target) out += fmt::format("target {}\n", entry.target);
    target = &entry.target;
    out += fmt::format("entry {}\ngraph {}\n", entry.name, entry.graph_hash);
    for (const PassRace& r : entry.passes)
      out += fmt::format("pass {} {} {} {}{}\n", r.pass, r.way, r.us, r.usual_us,
                         r.is_chosen ? fmt::format(" {}", kChosen) : "");
    for (const GroupPlan& g : entry.groups) print_group(out, g);
  }
  return out;
}

Plan parse_plan(std::string_view text) { return Parser(text).run(); }

}  // namespace tw::plan
