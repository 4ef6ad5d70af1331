// The roofline: arithmetic intensity against speed, under the ceilings that doctor measures.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "artefact/report/sections.h"
#include "artefact/report/svg.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

constexpr double kWidth = 960, kHeight = 440, kLeft = 70, kRight = 790, kTop = 30, kBottom = 390;

struct Ceiling {
  std::string name;
  double per_ns = 0;
};

// Bytes a ns, by all threads together, or by the whole device.
std::vector<Ceiling> memory_ceilings(const Report& report) {
  std::vector<Ceiling> all;
  if (report.on_gpu) {
    for (const LevelRates& l : report.target.device.levels) all.push_back({l.name, l.read_per_ns});
    return all;
  }
  for (const MemoryLevel& l : report.target.levels) {
    const double together = l.read_per_ns * report.threads;
    all.push_back({l.name, l.shared && l.all_per_ns > 0 ? std::min(together, l.all_per_ns) : together});
  }
  return all;
}

std::vector<Ceiling> arithmetic_ceilings(const Report& report) {
  std::vector<Ceiling> all;
  if (!report.on_gpu) return {{"FMA peak, f32", report.target.flop_per_ns * report.threads}};
  for (const TypePeak& p : report.target.device.peaks)
    all.push_back({fmt::format("{}{}", p.type, p.matrix ? " matrix" : ""), p.op_per_ns});
  return all;
}

struct Dot {
  int group = 0;
  double intensity = 0, speed = 0, us = 0;
};

std::vector<Dot> dots_of(const Report& report) {
  std::vector<Dot> dots;
  for (const size_t g : slowest_groups(report)) {
    const GroupReport& r = report.explained.groups[g];
    const double us = best_known_us(r);
    if (r.flop <= 0 || r.bound_bytes <= 0 || us <= 0 || dots.size() == report.limits.marks / 2) continue;
    dots.push_back({static_cast<int>(g), r.flop / static_cast<double>(r.bound_bytes), r.flop / us / 1e3, us});
  }
  return dots;
}

void draw_ceilings(Svg& svg, const LogScale& x, const LogScale& y, const std::vector<Ceiling>& arithmetic,
                   const std::vector<Ceiling>& memory) {
  double peak = 0, last = INFINITY;
  for (const Ceiling& c : arithmetic) peak = std::max(peak, c.per_ns);
  for (const Ceiling& c : arithmetic) {
    if (c.per_ns <= 0) continue;
    svg.line(kLeft, y.at(c.per_ns), kRight, y.at(c.per_ns), "ceiling");
    const double place = y.at(c.per_ns);
    if (std::fabs(place - last) < 12) continue;
    svg.text(kRight + 4, place + 4, fmt::format("{} {} GFLOP/s", c.name, number_text(c.per_ns)), "tick");
    last = place;
  }
  double above = -INFINITY;
  for (const Ceiling& c : memory) {
    if (c.per_ns <= 0) continue;
    // speed = rate * intensity, from the left edge or the floor up to the peak
    const double from = std::max(x.low, y.low / c.per_ns), to = std::min(x.high, peak / c.per_ns);
    if (from >= to) continue;
    svg.line(x.at(from), y.at(from * c.per_ns), x.at(to), y.at(to * c.per_ns), "ceiling slope");
    const double place = std::max(y.at(from * c.per_ns) - 6, above + 13);
    svg.text(x.at(from) + 6, place, fmt::format("{} {} GB/s", c.name, number_text(c.per_ns)), "tick");
    above = place;
  }
}

}  // namespace

std::string roofline_section(const Report& report) {
  constexpr std::string_view kHeading = "Roofline";
  const std::vector<Dot> dots = dots_of(report);
  const std::vector<Ceiling> arithmetic = arithmetic_ceilings(report), memory = memory_ceilings(report);
  if (dots.empty())
    return section(
        "roofline", kHeading, "",
        missing(total_us(report) > 0 ? "no group is a sum of products, so none has arithmetic to compare with the peak"
                                     : "no group has a time. Run the report where the model runs, without --no-run"));
  double low_x = dots[0].intensity, high_x = low_x, low_y = dots[0].speed, high_y = low_y, most = 0;
  for (const Dot& d : dots) {
    low_x = std::min(low_x, d.intensity), high_x = std::max(high_x, d.intensity);
    low_y = std::min(low_y, d.speed), high_y = std::max(high_y, d.speed), most = std::max(most, d.us);
  }
  for (const Ceiling& c : arithmetic) high_y = std::max(high_y, c.per_ns);
  const LogScale x = LogScale::around(std::min(low_x, 0.5), high_x, kLeft, kRight);
  const LogScale y = LogScale::around(low_y * 0.7, high_y * 1.2, kBottom, kTop);
  Svg svg(kWidth, kHeight, "Roofline: arithmetic intensity and speed of each group, under the ceilings of the machine");
  svg.x_axis(x, kBottom, kTop, "FLOP for each byte in and out").y_axis(y, kLeft, kRight, "GFLOP/s");
  draw_ceilings(svg, x, y, arithmetic, memory);
  for (const Dot& d : dots) {
    const GroupReport& g = report.explained.groups[static_cast<size_t>(d.group)];
    svg.open_group(d.group, fmt::format("{}\n{} GFLOP/s\n{}", title_of(report, g), number_text(d.speed), verdict(g)));
    svg.circle(x.at(d.intensity), y.at(d.speed), 3 + 9 * std::sqrt(d.us / most),
               "tile dot " + family_class(g.plan.family))
        .close();
  }
  const auto rest = static_cast<int64_t>(slowest_groups(report).size() - dots.size());
  std::string body = svg.finish();
  if (rest > 0)
    body += fmt::format("<p class=\"note\">{} without sums of products, or without a time, {} not drawn.</p>\n",
                        count_text(rest, "group"), rest == 1 ? "is" : "are");
  return section(
      "roofline", kHeading,
      "A dot for each group: the closer to a ceiling, the less there is to gain; the larger, the more time it "
      "takes. Bytes are those that must come in and go out; a group whose data stays in a cache may lie "
      "above the line of a slower memory.",
      body);
}

}  // namespace tw::artefact::report
