// The table of groups, and for the slowest ones all that is known: why it is as it is, and what was tried.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "artefact/report/sections.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

constexpr size_t kMostCandidates = 20, kMostNames = 40;

std::string known(double value, const std::string& text) { return Table::number(value, value > 0 ? text : ""); }

std::string table_of(const Report& report, const std::vector<size_t>& order) {
  const double all = total_us(report);
  Table table("Groups, slowest first", {{"Group"},
                                        {"Family"},
                                        {"Time", true},
                                        {"Share", true},
                                        {"When compiled", true},
                                        {"Predicted", true},
                                        {"In and out", true},
                                        {"Memory speed", true},
                                        {"Arithmetic", true},
                                        {"Of the peak", true}});
  for (size_t i = 0; i < order.size(); ++i) {
    const GroupReport& g = report.explained.groups[order[i]];
    const double us = best_known_us(g);
    const std::string name = isolated(shortened(g.plan.name, 60));
    const std::string cell = i < report.limits.details ? fmt::format("<a href=\"#g{}\">{}</a>", order[i], name)
                                                       : fmt::format("<span id=\"g{}\">{}</span>", order[i], name);
    table.row(
        {cell, fmt::format("<span class=\"key {}\"></span>{}", family_class(g.plan.family), escaped(g.plan.family)),
         known(us, time_text(us)), known(all > 0 ? 100 * us / all : 0, percent_text(all > 0 ? 100 * us / all : 0)),
         known(g.plan.microseconds, time_text(g.plan.microseconds)),
         known(g.plan.predicted_us, time_text(g.plan.predicted_us)),
         known(static_cast<double>(g.bound_bytes), size_text(static_cast<double>(g.bound_bytes))),
         known(g.mue, percent_text(g.mue)), known(g.flop, flop_text(g.flop)),
         known(g.flop > 0 ? g.peak_share : 0, percent_text(g.peak_share))},
        static_cast<int>(order[i]));
  }
  return table.finish();
}

std::string names(const std::vector<OperatorReport>& operators) {
  std::string out;
  for (size_t i = 0; i < std::min(operators.size(), kMostNames); ++i)
    out += fmt::format("{}{} <small>{}</small>", i == 0 ? "" : ", ", isolated(shortened(operators[i].name, 60)),
                       escaped(operators[i].op));
  if (operators.size() > kMostNames) out += fmt::format(", {} more", operators.size() - kMostNames);
  return out;
}

// A candidate has a time, or a reason why it has none.
std::string candidates(const Report& report, const plan::GroupPlan& p) {
  if (p.other_candidates.empty()) return "<p>There was no other candidate.</p>\n";
  Table table("What was tried", {{"Family"},
                                 {"What differs, or why not"},
                                 {"Measured", true},
                                 {"Predicted", true},
                                 {"Times the chosen one", true}});
  table.row({escaped(p.family), "<strong>chosen</strong>", known(p.microseconds, time_text(p.microseconds)),
             known(p.predicted_us, time_text(p.predicted_us)), known(p.microseconds, "1")});
  for (size_t i = 0; i < std::min(p.other_candidates.size(), kMostCandidates); ++i) {
    const plan::OtherCandidate& c = p.other_candidates[i];
    const double ratio = p.microseconds > 0 ? c.microseconds / p.microseconds : 0;
    std::string text = c.reason.empty() ? c.differs : c.differs.empty() ? c.reason : c.differs + "; " + c.reason;
    if (c.is_rough) text += "; measuring it ended early";
    if (c.equal_code > 0) text += fmt::format("; {} gave the same code", count_text(c.equal_code, "other candidate"));
    table.row({escaped(c.family), escaped(shortened(text, 2 * report.limits.letters)),
               known(c.microseconds, time_text(c.microseconds)), known(c.predicted_us, time_text(c.predicted_us)),
               known(ratio, number_text(ratio))});
  }
  std::string out = table.finish();
  if (p.other_candidates.size() > kMostCandidates)
    out += fmt::format("<p class=\"note\">{} more candidates are in the artefact.</p>\n",
                       p.other_candidates.size() - kMostCandidates);
  return out;
}

std::string details(const Report& report, size_t index) {
  const GroupReport& g = report.explained.groups[index];
  std::string out = fmt::format(
      "<details class=\"group\" id=\"g{0}\" data-g=\"{0}\"><summary><span class=\"key {1}\"></span>{2} <small>{3}, "
      "{4}</small></summary>\n",
      index, family_class(g.plan.family), isolated(shortened(g.plan.name, 100)), escaped(g.plan.family),
      time_text(best_known_us(g)));
  out += fmt::format("<p>{} Its data is {} in and out; its kernels read and write {}.</p>\n", escaped(verdict(g)),
                     size_text(static_cast<double>(g.bound_bytes)), size_text(static_cast<double>(g.moved_bytes)));
  out += fmt::format("<p>Operators: {}</p>\n", names(g.operators));
  if (!g.plan.trace.empty()) {
    out += "<p>How the schedule was built:</p><ul>";
    for (const std::string& line : g.plan.trace) out += fmt::format("<li>{}</li>", escaped(shortened(line, 300)));
    out += "</ul>\n";
  }
  return out + candidates(report, g.plan) + "</details>\n";
}

}  // namespace

std::string groups_section(const Report& report) {
  const std::vector<size_t> order = slowest_groups(report);
  std::string body = table_of(report, order);
  for (size_t i = 0; i < std::min(order.size(), report.limits.details); ++i) body += details(report, order[i]);
  const size_t codes = static_cast<size_t>(
      std::ranges::count_if(report.explained.groups, [](const GroupReport& g) { return plan::has_code(g.plan); }));
  if (codes > order.size())
    body += fmt::format("<p class=\"note\">{} faster groups are not listed.</p>\n", codes - order.size());
  return section(
      "groups", "Groups",
      "Every group that has code. \"Memory speed\" is the share of what the memory could deliver in that time "
      "(MUE), \"of the peak\" the share of what the machine could compute.",
      body);
}

}  // namespace tw::artefact::report
