// Memory over time: every value in the arena as a box, from its first step to its last.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "artefact/report/sections.h"
#include "artefact/report/svg.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

constexpr double kWidth = 960, kHeight = 380, kLeft = 70, kRight = 940, kTop = 24, kBottom = 340;

// The group that computes each value.
std::map<std::string, int> producers(const Report& report) {
  std::map<std::string, int> all;
  for (const Flow& f : report.explained.flows) {
    if (f.from >= 0) all.emplace(f.value, f.from);
  }
  return all;
}

void draw_scales(Svg& svg, const Memory& memory) {
  constexpr int kTicks = 4;
  for (int t = 0; t <= kTicks; ++t) {
    const double y = kBottom - (kBottom - kTop) * t / kTicks;
    svg.line(kLeft, y, kRight, y, "grid");
    svg.text(kLeft - 6, y + 4, size_text(static_cast<double>(memory.arena_bytes) * t / kTicks), "tick", Anchor::kEnd);
    const int64_t step = (memory.steps - 1) * t / kTicks;
    svg.text(kLeft + (kRight - kLeft) * static_cast<double>(step) / static_cast<double>(memory.steps), kBottom + 16,
             fmt::format("{}", step), "tick");
  }
  svg.text((kLeft + kRight) / 2, kBottom + 34, "step", "axis", Anchor::kMiddle);
  svg.text(kLeft, kTop - 10, "place in the arena", "axis");
}

}  // namespace

std::string memory_section(const Report& report) {
  constexpr std::string_view kHeading = "Memory over time";
  const Memory& memory = report.memory;
  if (memory.boxes.empty())
    return section("memory", kHeading, "",
                   missing("no value is stored between steps: inputs and outputs lie in the "
                           "caller's memory, and all else stays inside kernels"));
  std::vector<const Box*> boxes;
  for (const Box& b : memory.boxes) boxes.push_back(&b);
  std::ranges::stable_sort(boxes, std::greater<>(),
                           [](const Box* b) { return b->bytes * (b->last_step - b->first_step + 1); });
  const size_t left_out = boxes.size() - std::min(boxes.size(), report.limits.marks);
  boxes.resize(std::min(boxes.size(), report.limits.marks));
  const std::map<std::string, int> from = producers(report);
  Svg svg(kWidth, kHeight,
          "Memory: each value as a box over the steps during which it lives, at its place in the arena");
  draw_scales(svg, memory);
  const double step = (kRight - kLeft) / static_cast<double>(memory.steps);
  const double byte = (kBottom - kTop) / static_cast<double>(std::max<int64_t>(memory.arena_bytes, 1));
  for (const Box* b : boxes) {
    const auto group = from.find(b->value);
    const std::string title =
        fmt::format("{}\n{} at {}, steps {} to {}", shortened(b->value, report.limits.letters),
                    size_text(static_cast<double>(b->bytes)), b->offset, b->first_step, b->last_step);
    const bool is_known = group != from.end();
    is_known ? svg.open_group(group->second, title) : svg.open_titled(title);
    const std::string family =
        is_known ? family_class(report.explained.groups[static_cast<size_t>(group->second)].plan.family) : "f7";
    const double height = std::max(1.0, byte * static_cast<double>(b->bytes));
    svg.rect(kLeft + step * static_cast<double>(b->first_step),
             kBottom - byte * static_cast<double>(b->offset) - height,
             std::max(1.0, step * static_cast<double>(b->last_step - b->first_step + 1)), height, "tile box " + family);
    svg.close();
  }
  const double over =
      memory.needed_bytes > 0
          ? 100.0 * static_cast<double>(memory.arena_bytes) / static_cast<double>(memory.needed_bytes) - 100
          : 0;
  std::string body = fmt::format(
      "<p>The arena takes {}. At one step {} live at once, so no arrangement takes less: {} more than that. Weights "
      "take {} beside it.</p>\n",
      size_text(static_cast<double>(memory.arena_bytes)), size_text(static_cast<double>(memory.needed_bytes)),
      percent_text(over), size_text(static_cast<double>(memory.weights_bytes)));
  body += svg.finish();
  if (left_out > 0) body += fmt::format("<p class=\"note\">{} smaller values are not drawn.</p>\n", left_out);
  return section("memory", kHeading,
                 "A box for each value that is stored between steps: from the step that writes it to the last one that "
                 "reads it, at its place in the arena, coloured by the group that computes it. "
                 "Grey boxes stay inside one group.",
                 body);
}

}  // namespace tw::artefact::report
