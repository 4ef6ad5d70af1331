#include "plan/plan.h"

#include <sstream>

#include "plan/text.h"
#include "support/error.h"
#include "support/lexer.h"

namespace tw::plan {
namespace {

// " TEXT", or nothing for the row-major layout.
std::string behind(const Layout& layout) {
  const std::string text = to_string(layout);
  return text.empty() ? "" : " " + text;
}

// Numbers and all where a schedule was built, else the reason why the family has none.
void print_candidate(std::string& out, const OtherCandidate& r) {
  const OtherCandidate declined{r.family, r.reason};
  if (r == declined) {
    out += fmt::format("  candidate {} {}\n", r.family, escaped(r.reason));
    return;
  }
  out += fmt::format("  tried {} {} {} {} {} {} {}\n", r.family, r.microseconds, r.predicted_us,
                     r.is_rough ? kRough : kWhole, r.equal_code, quote_string(r.differs), escaped(r.reason));
}

void print_group(std::string& out, const GroupPlan& g) {
  out += fmt::format("group {} {}{}\n", quote_string(g.name), g.family, g.content.empty() ? "" : " " + g.content);
  if (g.microseconds > 0) out += fmt::format("  time {}\n", g.microseconds);
  if (g.predicted_us > 0) out += fmt::format("  predicted {}\n", g.predicted_us);
  for (const std::string& line : g.trace) out += fmt::format("  trace {}\n", escaped(line));
  for (const auto& [tensor, layout] : g.layouts) out += fmt::format("  layout {}{}\n", tensor, behind(layout));
  std::istringstream schedule(schedule::to_string(g.schedule));
  for (std::string line; std::getline(schedule, line);) out += fmt::format("  do {}\n", escaped(line));
  for (const OtherCandidate& r : g.other_candidates) print_candidate(out, r);
}

// `opened`: "entry", or "body" of a loop of the entry around, which ends with a line "end".
void print_entry(std::string& out, const EntryPlan& entry, std::string_view opened) {
  out += fmt::format("{} {}\ngraph {}\n", opened, escaped(entry.name), entry.graph_hash);
  for (const PassVariant& r : entry.passes)
    out += fmt::format("pass {} {} {} {}{}\n", r.pass, r.variant, r.us, r.usual_us,
                       r.is_chosen ? fmt::format(" {}", kChosen) : "");
  for (const auto& [name, layout] : entry.layouts.values)
    out += fmt::format("value {}{}\n", quote_string(name), behind(layout));
  for (const auto& [read, layout] : entry.layouts.reads)
    out += fmt::format("read {} {}{}\n", quote_string(read.first), read.second, behind(layout));
  for (const auto& [name, layout] : entry.between.values)
    out += fmt::format("between {}{}\n", quote_string(name), behind(layout));
  for (const auto& [read, layout] : entry.between.reads)
    out += fmt::format("copied {} {}{}\n", quote_string(read.first), read.second, behind(layout));
  for (const GroupPlan& g : entry.groups) print_group(out, g);
  for (const LayoutTimes& t : entry.layout_times)
    out += fmt::format("layouts {} {} {} {}\n", quote_string(t.group), t.usual_us, t.chosen_us, fmt::join(t.us, " "));
  out += to_string(entry.reasons);
  for (const EntryPlan& body : entry.bodies) {
    print_entry(out, body, "body");
    out += "end\n";
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n' || c == '\\') out += '\\';
    out += c == '\n' ? 'n' : c;
  }
  return out;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 1 < text.size();
    if (is_escape) ++i;
    out += is_escape && text[i] == 'n' ? '\n' : text[i];
  }
  return out;
}

std::string Plan::targets() const {
  std::string out;
  const std::string* last = nullptr;
  for (const EntryPlan& entry : entries) {
    if (last == nullptr || *last != entry.target) out += (out.empty() ? "" : ", ") + entry.target;
    last = &entry.target;
  }
  return out;
}

std::string body_name(const EntryPlan& entry, std::string_view prefix) {
  return fmt::format("{} loop {}", entry.name, prefix.substr(0, prefix.rfind('/')));
}

const EntryPlan* find_body(const EntryPlan& entry, std::string_view name) {
  const auto found = std::ranges::find(entry.bodies, name, &EntryPlan::name);
  return found == entry.bodies.end() ? nullptr : &*found;
}

std::string layouts_text(const GroupPlan& plan) {
  std::string text;
  for (const auto& [tensor, layout] : plan.layouts) text += fmt::format("{} {}\n", tensor, to_string(layout));
  return text;
}

LayoutTotals totals_of(const std::vector<LayoutTimes>& times) {
  LayoutTotals all;
  for (const LayoutTimes& t : times) {
    all.usual_us += t.usual_us;
    all.chosen_us += t.chosen_us;
    if (t.us.empty()) continue;
    all.best_us += *std::ranges::min_element(t.us);
    all.layouts += std::ssize(t.us);
    ++all.groups;
  }
  return all;
}

std::string to_string(const Plan& plan) {
  std::string out = fmt::format("{}\n", kHeader);
  const EntryPlan* last = nullptr;
  for (const EntryPlan& entry : plan.entries) {
    if (last == nullptr || last->target != entry.target || last->machine != entry.machine) {
      out += fmt::format("target {}\n", entry.target);
      if (!entry.machine.empty()) out += fmt::format("machine {}\n", escaped(entry.machine));
    }
    last = &entry;
    print_entry(out, entry, "entry");
  }
  return out;
}

}  // namespace tw::plan
