// Candidates: predicted against measured, all together and group by group.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "artefact/report/rank.h"
#include "artefact/report/sections.h"
#include "artefact/report/svg.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

constexpr double kWidth = 960, kHeight = 460, kLeft = 70, kRight = 940, kTop = 30, kBottom = 410;
constexpr size_t kStrips = 25;

struct Point {
  int group = 0;
  double predicted = 0, measured = 0;
  bool is_chosen = false;
  std::string title = {};
};

std::string title_of_other(const Report& report, const plan::OtherCandidate& c, double chosen_us) {
  return fmt::format("{}: {} measured, {} times the chosen one\n{}", c.family, time_text(c.microseconds),
                     number_text(c.microseconds / chosen_us), shortened(c.differs, report.limits.letters));
}

std::vector<Point> points_of(const Report& report, const std::vector<size_t>& order) {
  std::vector<Point> points;
  for (const size_t g : order) {
    const plan::GroupPlan& p = report.explained.groups[g].plan;
    if (p.microseconds <= 0 || points.size() > report.limits.marks) continue;
    for (const plan::OtherCandidate& c : p.other_candidates) {
      if (c.microseconds > 0 && c.predicted_us > 0)
        points.push_back(
            {static_cast<int>(g), c.predicted_us, c.microseconds, false, title_of_other(report, c, p.microseconds)});
    }
    if (p.predicted_us > 0)
      points.push_back({static_cast<int>(g), p.predicted_us, p.microseconds, true,
                        fmt::format("{}\nchosen: {} measured, {} predicted", shortened(p.name, report.limits.letters),
                                    time_text(p.microseconds), time_text(p.predicted_us))});
  }
  return points;
}

double correlation_of(const std::vector<Point>& points) {
  std::vector<double> predicted, measured;
  for (const Point& p : points) predicted.push_back(p.predicted), measured.push_back(p.measured);
  return rank_correlation(predicted, measured);
}

// The mean over groups of the correlation inside each: what a choice among candidates of one group rests on.
double correlation_in_groups(const std::vector<Point>& points) {
  double sum = 0;
  int count = 0;
  for (size_t begin = 0, end = 0; begin < points.size(); begin = end) {
    while (end < points.size() && points[end].group == points[begin].group) ++end;
    const double one = correlation_of(
        {points.begin() + static_cast<std::ptrdiff_t>(begin), points.begin() + static_cast<std::ptrdiff_t>(end)});
    if (std::isnan(one)) continue;
    sum += one;
    ++count;
  }
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

std::string scatter(const Report& report, const std::vector<Point>& points) {
  double low = INFINITY, high = 0;
  for (const Point& p : points) {
    low = std::min({low, p.predicted, p.measured});
    high = std::max({high, p.predicted, p.measured});
  }
  const LogScale x = LogScale::around(low, high, kLeft, kRight), y = LogScale::around(low, high, kBottom, kTop);
  Svg svg(kWidth, kHeight, "Candidates: predicted time against measured time");
  svg.x_axis(x, kBottom, kTop, "predicted, us").y_axis(y, kLeft, kRight, "measured, us");
  svg.line(x.at(x.low), y.at(y.low), x.at(x.high), y.at(y.high), "ceiling");
  for (const bool chosen : {false, true}) {
    for (const Point& p : points) {
      if (p.is_chosen != chosen) continue;
      const std::string family = family_class(report.explained.groups[static_cast<size_t>(p.group)].plan.family);
      svg.open_group(p.group, p.title)
          .circle(x.at(p.predicted), y.at(p.measured), chosen ? 5 : 3,
                  (chosen ? "tile dot chosen " : "tile dot ") + family)
          .close();
    }
  }
  return svg.finish();
}

// A line for each group: its candidates by their time as a multiple of the chosen one.
std::string strips(const Report& report, const std::vector<size_t>& order) {
  constexpr double kRow = 22, kNames = 330, kMost = 2, kEnd = 900;
  std::vector<size_t> shown;
  for (const size_t g : order) {
    const plan::GroupPlan& p = report.explained.groups[g].plan;
    const bool has_others = std::ranges::any_of(p.other_candidates, [](const auto& c) { return c.microseconds > 0; });
    if (p.microseconds > 0 && has_others && shown.size() < kStrips) shown.push_back(g);
  }
  if (shown.empty()) return "";
  const double height = kRow * static_cast<double>(shown.size()) + 40;
  Svg svg(kWidth, height, "Candidates of each group by their measured time as a multiple of the chosen one");
  const auto at = [&](double ratio) {
    return kNames + (kEnd - kNames) * (std::clamp(ratio, 0.9, kMost) - 0.9) / (kMost - 0.9);
  };
  for (const double tick : {1.0, 1.25, 1.5, 1.75, 2.0}) {
    svg.line(at(tick), 4, at(tick), height - 34, "grid");
    svg.text(at(tick), height - 18, tick == kMost ? "2 and more" : number_text(tick), "tick", Anchor::kMiddle);
  }
  svg.text((kNames + kEnd) / 2, height - 2, "times the chosen one", "axis", Anchor::kMiddle);
  double y = 4;
  for (const size_t g : shown) {
    const plan::GroupPlan& p = report.explained.groups[g].plan;
    svg.open_group(static_cast<int>(g), title_of(report, report.explained.groups[g]))
        .rect(0, y, kWidth, kRow - 2, "hit");
    svg.text(kNames - 12, y + 15, shortened(label_of(p.name), 44), "", Anchor::kEnd).close();
    for (const plan::OtherCandidate& c : p.other_candidates) {
      if (c.microseconds <= 0) continue;
      svg.open_group(static_cast<int>(g), title_of_other(report, c, p.microseconds));
      svg.circle(at(c.microseconds / p.microseconds), y + 10, 4, "tile dot " + family_class(c.family)).close();
    }
    svg.open_group(static_cast<int>(g), "chosen")
        .circle(at(1), y + 10, 5, "tile dot chosen " + family_class(p.family))
        .close();
    y += kRow;
  }
  return svg.finish();
}

std::string correlation_text(double correlation) {
  return std::isnan(correlation) ? "unknown (too few)" : fmt::format("{:.2f}", correlation);
}

// Of the nearest rank to all that are equal.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i)
      ranks[order[i]] = (static_cast<double>(begin) + static_cast<double>(end) - 1) / 2;
  }
  return ranks;
}

}  // namespace

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr size_t kFewest = 3;
  if (a.size() != b.size() || a.size() < kFewest) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = (static_cast<double>(a.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : std::numeric_limits<double>::quiet_NaN();
}

std::string candidates_section(const Report& report) {
  constexpr std::string_view kHeading = "Candidates: predicted and measured";
  const std::vector<size_t> order = slowest_groups(report);
  const std::vector<Point> points = points_of(report, order);
  const auto others = std::ranges::count_if(points, [](const Point& p) { return !p.is_chosen; });
  if (others == 0)
    return section("candidates", kHeading, "",
                   missing("no two candidates of a group were measured. Compile the model without --no-measure, on "
                           "the machine that it is for; plans of earlier versions hold no numbers"));
  std::string body = fmt::format(
      "<p>{} of {} were measured beside those that were chosen. Rank correlation of prediction and measurement: {} "
      "over all, {} "
      "on average among the candidates of one group (1: the prediction orders them as they are; 0: it says "
      "nothing).</p>\n",
      count_text(others, "candidate"), count_text(static_cast<int64_t>(points.size()) - others, "group"),
      correlation_text(correlation_of(points)), correlation_text(correlation_in_groups(points)));
  body += scatter(report, points) + strips(report, order);
  return section("candidates", kHeading,
                 "Every dot is a candidate that was measured; those with a ring were chosen. On the dashed line a "
                 "prediction is exact. Below, the candidates of the slowest groups beside the chosen ones.",
                 body);
}

}  // namespace tw::artefact::report
