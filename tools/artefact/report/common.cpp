// What several sections of a report share.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "artefact/report/sections.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

constexpr size_t kFamilyColours = 8;

}  // namespace

double total_us(const Report& report) {
  double us = 0;
  for (const GroupReport& g : report.explained.groups) us += best_known_us(g);
  return us;
}

std::vector<size_t> slowest_groups(const Report& report) {
  std::vector<size_t> order;
  const std::vector<GroupReport>& groups = report.explained.groups;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (plan::has_code(groups[g].plan)) order.push_back(g);
  }
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t g) { return best_known_us(groups[g]); });
  if (order.size() > report.limits.groups) order.resize(report.limits.groups);
  return order;
}

std::string family_class(std::string_view family) {
  static const std::map<std::string_view, int> kKnown = {
      {"contraction", 0}, {"winograd", 1}, {"columns", 2}, {"rows", 3},   {"generic", 7},
      {"view", 7},        {"reduced", 4},  {"chain", 5},   {"matrix", 0}, {"point", 6}};
  const auto known = kKnown.find(family);
  if (known != kKnown.end()) return fmt::format("f{}", known->second);
  size_t hash = 0;
  for (const char c : family) hash = hash * 31 + static_cast<unsigned char>(c);
  return fmt::format("f{}", hash % kFamilyColours);
}

std::string legend(const Report& report) {
  std::map<std::string, std::pair<double, int64_t>> families;
  for (const GroupReport& g : report.explained.groups) {
    auto& [us, count] = families[g.plan.family];
    us += best_known_us(g);
    ++count;
  }
  const double all = total_us(report);
  std::string out = "<ul class=\"legend\">";
  for (const auto& [family, sums] : families) {
    const std::string share = sums.first > 0 ? fmt::format(", {} of the time", percent_text(100 * sums.first / all))
                              : family == plan::kViewFamily ? ", no code"
                              : family == plan::kLoopFamily ? ", its body has the code"
                                                            : ", time unknown";
    out += fmt::format("<li><span class=\"key {}\"></span>{}: {}{}</li>", family_class(family), escaped(family),
                       count_text(sums.second, "group"), share);
  }
  return out + "</ul>\n";
}

bool is_predicted(const GroupReport& g) { return g.run_us <= 0 && g.plan.microseconds <= 0; }

std::string verdict(const GroupReport& g) {
  constexpr double kNear = 60;  // percent
  if (g.plan.family == plan::kViewFamily) return "It has no code: it lies in the place of its input.";
  if (g.plan.family == plan::kLoopFamily) return "It has no code of its own: each turn runs the groups of its body.";
  if (best_known_us(g) <= 0) return "Its time is unknown.";
  const std::string arithmetic =
      g.flop > 0 && g.peak_share > 0 ? fmt::format("{} of the arithmetic peak", percent_text(g.peak_share)) : "";
  const std::string memory = g.mue > 0 ? fmt::format("{} of what the memory could deliver", percent_text(g.mue)) : "";
  const std::string both = arithmetic + (arithmetic.empty() || memory.empty() ? "" : ", ") + memory;
  if (both.empty()) return "The machine's bounds are unknown.";
  const std::string_view reaches = is_predicted(g) ? "By its prediction it reaches" : "It reaches";
  if (g.peak_share >= kNear && g.peak_share >= g.mue) return fmt::format("{} {}: arithmetic limits it.", reaches, both);
  if (g.mue >= kNear) return fmt::format("{} {}: memory limits it.", reaches, both);
  return fmt::format("{} {}: neither bound explains its time. At the nearer bound it would take {}.", reaches, both,
                     time_text(best_known_us(g) * std::max(g.peak_share, g.mue) / 100));
}

std::string type_text(const TensorType& type) {
  return fmt::format("{}[{}]", tw::to_string(type.type), fmt::join(type.shape, ","));
}

std::string layout_text(const Layout& layout, const Shape& logical) {
  if (layout.is_identity()) return "rows";
  if (layout == channels_last(static_cast<int>(logical.size()))) return "channels last";
  return fmt::format("stored {}", fmt::join(layout.storage_shape(logical), "x"));
}

std::string missing(std::string_view reason) {
  std::string text(reason);
  if (!text.empty() && text.back() != '.') text += '.';
  return fmt::format("<p class=\"missing\">Not here: {}</p>\n", escaped(text));
}

std::string title_of(const Report& report, const GroupReport& g) {
  return fmt::format("{}\n{}, {}", shortened(g.plan.name, report.limits.letters), g.plan.family,
                     time_text(best_known_us(g)));
}

std::string section(std::string_view id, std::string_view heading, std::string_view lead, const std::string& body) {
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"h-{0}\"><h2 id=\"h-{0}\">{1}</h2>\n<p "
      "class=\"lead\">{2}</p>\n{3}</section>\n",
      id, escaped(heading), escaped(lead), body);
}

Table::Table(std::string_view caption, const std::vector<Column>& columns) : columns_(columns) {
  out_ = fmt::format("<div class=\"scroll\" tabindex=\"0\"><table class=\"sortable\"><caption>{}</caption><thead><tr>",
                     escaped(caption));
  for (const Column& c : columns)
    out_ += fmt::format("<th scope=\"col\"{}>{}</th>", c.is_number ? " class=\"n\"" : "", escaped(c.title));
  out_ += "</tr></thead><tbody>\n";
}

Table& Table::row(const std::vector<std::string>& cells, int group) {
  out_ += group >= 0 ? fmt::format("<tr data-g=\"{}\">", group) : "<tr>";
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool is_number = columns_[i].is_number;
    out_ += cells[i].starts_with("<td") ? cells[i]
                                        : fmt::format("<td{}>{}</td>", is_number ? " class=\"n\"" : "", cells[i]);
  }
  out_ += "</tr>\n";
  return *this;
}

std::string Table::number(double value, std::string_view text) {
  return fmt::format("<td class=\"n\" data-v=\"{:.6g}\">{}</td>", value, text);
}

std::string Table::finish() { return out_ + "</tbody></table></div>\n"; }

}  // namespace tw::artefact::report
