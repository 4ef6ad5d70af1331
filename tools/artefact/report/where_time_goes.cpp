// Where the time goes: a treemap and bars, one mark for each group.
#include <fmt/format.h>

#include <algorithm>

#include "artefact/report/sections.h"
#include "artefact/report/svg.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

constexpr size_t kBars = 40;
constexpr double kWidth = 960, kHeight = 340;

struct Tile {
  int group = -1;  // -1: the rest
  double us = 0;
};

struct Area {
  double x = 0, y = 0, width = 0, height = 0;
};

// The worst ratio of sides when tiles [begin, end) share a strip of `area` along its shorter side.
double worst_ratio(const std::vector<Tile>& tiles, size_t begin, size_t end, double side, double scale) {
  double sum = 0, most = 0, least = INFINITY;
  for (size_t i = begin; i < end; ++i) {
    const double size = tiles[i].us * scale;
    sum += size, most = std::max(most, size), least = std::min(least, size);
  }
  return std::max(side * side * most / (sum * sum), sum * sum / (side * side * least));
}

void draw_tile(Svg& svg, const Report& report, const Tile& tile, const Area& a) {
  constexpr double kLetter = 7.6;
  const bool is_rest = tile.group < 0;
  const std::string name =
      is_rest ? "all other groups" : label_of(report.explained.groups[static_cast<size_t>(tile.group)].plan.name);
  if (is_rest) {
    svg.open_titled(fmt::format("all other groups: {}", time_text(tile.us)));
  } else {
    svg.open_group(tile.group, title_of(report, report.explained.groups[static_cast<size_t>(tile.group)]));
  }
  const std::string family =
      is_rest ? "f7" : family_class(report.explained.groups[static_cast<size_t>(tile.group)].plan.family);
  svg.rect(a.x + 0.5, a.y + 0.5, std::max(0.5, a.width - 1), std::max(0.5, a.height - 1), "tile " + family);
  const auto letters = static_cast<size_t>(std::max(0.0, (a.width - 10) / kLetter));
  if (letters >= 6 && a.height >= 18) svg.text(a.x + 5, a.y + 14, shortened(name, letters), "on " + family);
  if (letters >= 7 && a.height >= 34) svg.text(a.x + 5, a.y + 29, time_text(tile.us), "on " + family);
  svg.close();
}

// Bruls, Huizing and van Wijk, Squarified Treemaps, 2000: strips along the shorter side, each as long as its tiles
// become more square.
std::string treemap(const Report& report, const std::vector<Tile>& tiles, double all) {
  Svg svg(kWidth, kHeight, "Treemap: the area of a box is the time of a group");
  Area left{0, 0, kWidth, kHeight};
  const double scale = kWidth * kHeight / all;
  for (size_t begin = 0; begin < tiles.size();) {
    const bool is_wide = left.width >= left.height;
    const double side = std::max(is_wide ? left.height : left.width, 1e-6);  // rounding may leave less than nothing
    size_t end = begin + 1;
    while (end < tiles.size() &&
           worst_ratio(tiles, begin, end + 1, side, scale) <= worst_ratio(tiles, begin, end, side, scale))
      ++end;
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += tiles[i].us * scale;
    const double depth = sum / side;
    double at = 0;
    for (size_t i = begin; i < end; ++i) {
      const double length = tiles[i].us * scale / depth;
      draw_tile(svg, report, tiles[i],
                is_wide ? Area{left.x, left.y + at, depth, length} : Area{left.x + at, left.y, length, depth});
      at += length;
    }
    (is_wide ? left.x : left.y) += depth;
    (is_wide ? left.width : left.height) -= depth;
    begin = end;
  }
  return svg.finish();
}

std::string bars(const Report& report, const std::vector<Tile>& tiles, double all) {
  constexpr double kRow = 22, kNames = 330, kBar = 500;
  const size_t count = std::min(kBars, tiles.size());
  Svg svg(kWidth, kRow * static_cast<double>(count) + 4, "Bars: the time of each group, slowest first");
  double y = 2;
  for (size_t i = 0; i < count; ++i, y += kRow) {
    const Tile& tile = tiles[i];
    if (tile.group < 0) continue;
    const GroupReport& g = report.explained.groups[static_cast<size_t>(tile.group)];
    const double length = std::max(1.0, kBar * tile.us / tiles.front().us);
    svg.open_group(tile.group, title_of(report, g)).rect(0, y, kWidth, kRow - 2, "hit");
    svg.text(kNames - 8, y + 15, shortened(label_of(g.plan.name), 44), "", Anchor::kEnd);
    svg.rect(kNames, y + 2, length, kRow - 6, "tile " + family_class(g.plan.family));
    svg.text(kNames + length + 6, y + 15, fmt::format("{}  {}", time_text(tile.us), percent_text(100 * tile.us / all)));
    svg.close();
  }
  return svg.finish();
}

}  // namespace

std::string time_section(const Report& report) {
  constexpr std::string_view kHeading = "Where the time goes";
  const double all = total_us(report);
  if (all <= 0)
    return section("time", kHeading, "",
                   missing("no group has a time. Run the report where the model runs, without --no-run, "
                           "or compile the model without --no-measure"));
  std::vector<Tile> tiles;
  double shown = 0;
  for (const size_t g : slowest_groups(report)) {
    const double us = best_known_us(report.explained.groups[g]);
    if (us <= 0 || tiles.size() == report.limits.marks / 3) break;
    tiles.push_back({static_cast<int>(g), us});
    shown += us;
  }
  std::string body = legend(report);
  std::vector<Tile> areas = tiles;
  if (all - shown > 1e-6 * all) {
    areas.push_back({-1, all - shown});
    std::ranges::stable_sort(areas, std::greater<>(), &Tile::us);
  }
  body += treemap(report, areas, all) + bars(report, tiles, all);
  if (tiles.size() > kBars)
    body += fmt::format(
        "<p class=\"note\">The bars are the slowest {} groups; the table of groups has the others.</p>\n", kBars);
  const size_t without = slowest_groups(report).size() - tiles.size();
  if (without > 0 && all - shown <= 1e-6 * all)
    body += fmt::format("<p class=\"note\">{} without a time: not run, not measured, and no model predicts {}.</p>\n",
                        count_text(static_cast<int64_t>(without), "group"), without == 1 ? "it" : "them");
  return section("time", kHeading,
                 "A box, and a bar, for each group: its size is the group's time, its colour the family of its "
                 "schedule. Choose one to mark it in every picture.",
                 body);
}

}  // namespace tw::artefact::report
