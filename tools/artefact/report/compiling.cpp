// Where the time of compiling went, by phase and pass.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "artefact/report/sections.h"
#include "artefact/report/svg.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {

std::string compiling_section(const Report& report) {
  constexpr std::string_view kHeading = "Time of compiling";
  if (!report.passes.ok()) return section("compiling", kHeading, "", missing(report.passes.reason()));
  std::vector<std::pair<std::string, double>> phases;  // in the order of their first pass
  std::map<std::pair<std::string, std::string>, std::pair<double, int64_t>> passes;
  double all = 0;
  for (const driver::PassTime& t : *report.passes) {
    const double us = static_cast<double>(t.nanoseconds) / 1e3;
    const auto phase = std::ranges::find(phases, t.phase, &std::pair<std::string, double>::first);
    phase == phases.end() ? (void)phases.emplace_back(t.phase, us) : (void)(phase->second += us);
    auto& [sum, runs] = passes[{t.phase, t.pass}];
    sum += us, ++runs, all += us;
  }
  constexpr double kWidth = 960, kRow = 24, kNames = 150, kBar = 660;
  double most = 1e-9;
  for (const auto& [phase, us] : phases) most = std::max(most, us);
  Svg svg(kWidth, kRow * static_cast<double>(phases.size()) + 4, "Bars: the time of each phase of the compiler");
  double y = 2;
  for (const auto& [phase, us] : phases) {
    svg.text(kNames - 8, y + 15, phase, "", Anchor::kEnd);
    svg.rect(kNames, y + 2, std::max(1.0, kBar * us / most), kRow - 6, "tile f0");
    svg.text(kNames + kBar * us / most + 6, y + 15, fmt::format("{}  {}", time_text(us), percent_text(100 * us / all)));
    y += kRow;
  }
  Table table("Passes", {{"Phase"}, {"Pass"}, {"Time", true}, {"Runs", true}});
  for (const auto& [name, sum] : passes)
    table.row({escaped(name.first), escaped(name.second), Table::number(sum.first, time_text(sum.first)),
               fmt::format("{}", sum.second)});
  return section(
      "compiling", kHeading,
      "The time of each phase of the compiler that made this artefact, now. What it did beside them is not counted.",
      svg.finish() + "<details><summary>Every pass</summary>" + table.finish() + "</details>");
}

}  // namespace tw::artefact::report
