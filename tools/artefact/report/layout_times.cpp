// Times of layouts: how each group's time spreads over the layouts of the values that it reads and writes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "artefact/report/sections.h"
#include "artefact/report/svg.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

using plan::LayoutTimes;

constexpr double kWidth = 960, kNames = 330, kEnd = 930, kRow = 34;

/// A group whose time depends on layouts; the times in order, without those of views.
struct Spread {
  const LayoutTimes* group;
  std::vector<double> us;
  double median() const { return us[us.size() / 2]; }
};

std::vector<Spread> spreads_of(const Report& report) {
  std::vector<Spread> spreads;
  for (const LayoutTimes& t : report.explained.layout_times) {
    Spread s{&t, t.us};
    std::erase_if(s.us, [](double us) { return us <= 0; });
    std::ranges::sort(s.us);
    if (s.us.size() > 1) spreads.push_back(std::move(s));
  }
  std::ranges::stable_sort(spreads, std::greater<>(), [](const Spread& s) { return s.us.front(); });
  spreads.resize(std::min(spreads.size(), report.limits.details));
  return spreads;
}

// Places in the report by name: groups of a chosen graph keep the names that they had.
int place_of(const Report& report, const std::string& group) {
  const auto& groups = report.explained.groups;
  const auto found = std::ranges::find(groups, group, [](const GroupReport& g) { return g.plan.name; });
  return found == groups.end() ? -1 : static_cast<int>(found - groups.begin());
}

// The outline of a density of times on the scale, `half` high at most on both sides of y: a normal curve for each time.
std::string violin(const Spread& spread, const LogScale& scale, double y, double half) {
  constexpr int kSteps = 48;
  constexpr double kBroad = 7;  // of a curve, in the picture's units
  const double from = scale.at(spread.us.front()) - 2 * kBroad, to = scale.at(spread.us.back()) + 2 * kBroad;
  std::vector<double> density;
  for (int i = 0; i <= kSteps; ++i) {
    const double x = from + (to - from) * i / kSteps;
    double sum = 0;
    for (const double us : spread.us) sum += std::exp(-0.5 * std::pow((x - scale.at(us)) / kBroad, 2));
    density.push_back(sum);
  }
  const double most = *std::ranges::max_element(density);
  std::string path;
  for (int i = 0; i <= 2 * kSteps + 1; ++i) {
    const int at = i <= kSteps ? i : 2 * kSteps + 1 - i;
    const double off = half * density[static_cast<size_t>(at)] / most;
    path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", from + (to - from) * at / kSteps,
                        i <= kSteps ? y - off : y + off);
  }
  return path + "Z";
}

std::string violins(const Report& report, const std::vector<Spread>& spreads) {
  double low = INFINITY, high = 0;
  for (const Spread& s : spreads) low = std::min(low, s.us.front()), high = std::max(high, s.us.back());
  const LogScale scale = LogScale::around(low, high, kNames, kEnd);
  const double bottom = kRow * static_cast<double>(spreads.size()) + 6;
  Svg svg(kWidth, bottom + 40, "How the times of each group spread over its layouts");
  svg.x_axis(scale, bottom, 4, "measured, us");
  double y = 6 + kRow / 2;
  for (const Spread& s : spreads) {
    const std::string title =
        fmt::format("{}\n{} layouts: best {}, median {}, worst {}", shortened(s.group->group, report.limits.letters),
                    s.us.size(), time_text(s.us.front()), time_text(s.median()), time_text(s.us.back()));
    const int place = place_of(report, s.group->group);
    place < 0 ? svg.open_titled(title) : svg.open_group(place, title);
    svg.rect(0, y - kRow / 2, kWidth, kRow - 2, "hit");
    svg.text(kNames - 24, y + 4, shortened(label_of(s.group->group), 44), "", Anchor::kEnd);
    svg.path(violin(s, scale, y, kRow / 2 - 3), "violin");
    if (s.group->usual_us > 0)
      svg.line(scale.at(s.group->usual_us), y - 8, scale.at(s.group->usual_us), y + 8, "ceiling");
    if (s.group->chosen_us > 0) svg.circle(scale.at(s.group->chosen_us), y, 4, "tile dot chosen f2");
    svg.close();
    y += kRow;
  }
  return svg.finish();
}

std::string table_of(const std::vector<Spread>& spreads, const Report& report) {
  Table table("Layouts of each group", {{"group"},
                                        {"layouts", true},
                                        {"best", true},
                                        {"median", true},
                                        {"worst", true},
                                        {"as predicted", true},
                                        {"as chosen", true}});
  const auto time = [](double us) { return Table::number(us, us > 0 ? time_text(us) : "view"); };
  for (const Spread& s : spreads) {
    table.row({isolated(shortened(label_of(s.group->group), 60)),
               Table::number(static_cast<double>(s.us.size()), fmt::format("{}", s.us.size())), time(s.us.front()),
               time(s.median()), time(s.us.back()), time(s.group->usual_us), time(s.group->chosen_us)},
              place_of(report, s.group->group));
  }
  return table.finish();
}

}  // namespace

std::string layout_times_section(const Report& report) {
  constexpr std::string_view kId = "layout-times", kHeading = "Times of layouts";
  const std::vector<Spread> spreads = spreads_of(report);
  if (spreads.empty())
    return section(kId, kHeading, "", missing("no layouts were measured: --layouts measured does it"));
  const plan::LayoutTotals all = plan::totals_of(report.explained.layout_times);
  const std::string totals = fmt::format(
      "<p>All groups together take {} as predicted, {} as chosen, copies included, and {} where each has the layouts "
      "that it likes best, which no choice can have at once.</p>\n",
      time_text(all.usual_us), time_text(all.chosen_us), time_text(all.best_us));
  return section(kId, kHeading,
                 "Each group was measured in all orders of the dimensions of the values that it reads and writes, each "
                 "time with its best candidate. The broader the shape, the more layouts take that time. Line: as "
                 "predicted. Dot: as chosen for the whole model.",
                 totals + violins(report, spreads) + table_of(spreads, report));
}

}  // namespace tw::artefact::report
