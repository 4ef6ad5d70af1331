// The time line of a profiled run.
#include <fmt/format.h>

#include <algorithm>

#include "artefact/report/sections.h"
#include "artefact/report/svg.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

constexpr double kWidth = 960, kLine = 46, kLeft = 60, kRight = 950;

// What lies on one line of a group, in lengths of a line.
struct Piece {
  size_t group = 0;
  int line = 0;
  double from = 0, length = 0;
};

void draw_piece(Svg& svg, const Report& report, const Piece& piece) {
  constexpr double kLetter = 7.6;
  const GroupReport& g = report.explained.groups[piece.group];
  const double x = kLeft + piece.from * (kRight - kLeft), y = kLine * piece.line;
  const double width = std::min(piece.length * (kRight - kLeft), kRight - x);
  const std::string family = family_class(g.plan.family);
  svg.open_group(static_cast<int>(piece.group), title_of(report, g));
  svg.rect(x, y + 6, std::max(width - 0.5, 0.5), kLine - 14, "tile " + family);
  if (width > 9 * kLetter)
    svg.text(x + 4, y + 26, shortened(g.plan.name, static_cast<size_t>(width / kLetter)), "on " + family);
  svg.close();
}

}  // namespace

std::string timeline_section(const Report& report) {
  constexpr std::string_view kHeading = "Time line";
  const double all = total_us(report);
  if (!report.has_profile || all <= 0)
    return section("timeline", kHeading, "",
                   missing("the model was not run. Run the report where the model runs, without --no-run"));
  constexpr int kLines = 4;  // the run, cut into pieces of equal length
  const double piece = all / kLines;
  Svg svg(kWidth, kLine * kLines + 8, "Time line: the groups of one run, one after the other");
  for (int l = 0; l < kLines; ++l) {
    svg.text(kLeft - 6, kLine * l + 24, l == 0 ? "0" : time_text(piece * l), "tick", Anchor::kEnd);
    svg.rect(kLeft, kLine * l + 6, kRight - kLeft, kLine - 14, "lane");
  }
  const std::vector<GroupReport>& groups = report.explained.groups;
  double now = 0, merged = 0;
  const double least = all / static_cast<double>(report.limits.marks * 2);
  for (size_t g = 0; g < groups.size(); ++g) {
    const double us = best_known_us(groups[g]), end = now + us;
    if (us < least) merged += us;
    for (int l = 0; us >= least && l < kLines; ++l) {
      const double from = std::max(now, piece * l), to = l == kLines - 1 ? end : std::min(end, piece * (l + 1));
      if (from < to) draw_piece(svg, report, {g, l, (from - piece * l) / piece, (to - from) / piece});
    }
    now = end;
  }
  std::string body = svg.finish();
  if (merged > 0)
    body += fmt::format("<p class=\"note\">Groups shorter than {} are not drawn; together they take {}.</p>\n",
                        time_text(least), time_text(merged));
  return section(
      "timeline", kHeading,
      "One run in four lines, from left to right. The profile makes every step wait for the one before it and "
      "knows how long each took, not when it began: gaps between steps are not seen. --trace-out writes the "
      "same for Perfetto.",
      body);
}

}  // namespace tw::artefact::report
