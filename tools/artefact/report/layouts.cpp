// Layouts: where the first elements of a stored tensor come from.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "artefact/report/sections.h"
#include "artefact/report/svg.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

constexpr double kCell = 22, kWide = 56;
constexpr int64_t kMostCells = 18;

std::vector<int64_t> index_of_element(int64_t element, const Shape& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; element /= shape[d]) index[d] = element % shape[d];
  return index;
}

// The two dims in which the elements that are shown differ most.
std::pair<size_t, size_t> dims_to_draw(const LayoutPicture& p) {
  std::vector<std::set<int64_t>> seen(p.type.shape.size());
  for (const int64_t e : p.elements) {
    if (e < 0) continue;
    const std::vector<int64_t> index = index_of_element(e, p.type.shape);
    for (size_t d = 0; d < index.size(); ++d) seen[d].insert(index[d]);
  }
  std::vector<size_t> order(seen.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](size_t d) { return std::pair(seen[d].size(), p.type.shape[d]); });
  if (order.empty()) return {0, 0};
  if (order.size() == 1) return {0, 0};
  return {order[1], order[0]};  // the longer one from left to right
}

std::string stored_lines(const LayoutPicture& p) {
  const int64_t lines = (static_cast<int64_t>(p.elements.size()) + p.line - 1) / std::max<int64_t>(p.line, 1);
  Svg svg(60 + kWide * static_cast<double>(p.line), 10 + kCell * static_cast<double>(lines),
          "The first elements as they lie in memory, each with its logical index");
  for (size_t i = 0; i < p.elements.size(); ++i) {
    const auto line = static_cast<int64_t>(i) / p.line, at = static_cast<int64_t>(i) % p.line;
    const double x = 60 + kWide * static_cast<double>(at), y = 4 + kCell * static_cast<double>(line);
    if (at == 0) svg.text(54, y + 15, fmt::format("line {}", line), "tick", Anchor::kEnd);
    const bool is_padding = p.elements[i] < 0;
    const std::string name =
        is_padding ? "0" : fmt::format("{}", fmt::join(index_of_element(p.elements[i], p.type.shape), ","));
    svg.open_titled(is_padding ? "padding" : fmt::format("[{}]", name));
    svg.rect(x, y, kWide - 2, kCell - 2, is_padding ? "cell pad" : fmt::format("cell l{}", line));
    svg.text(x + kWide / 2 - 1, y + 14, shortened(name, 10), "cellname", Anchor::kMiddle).close();
  }
  return svg.finish();
}

std::string logical_grid(const LayoutPicture& p) {
  const auto [rows, columns] = dims_to_draw(p);
  if (rows == columns) return "";
  int64_t last_row = 0, last_column = 0;
  for (const int64_t e : p.elements) {
    if (e < 0) continue;
    const std::vector<int64_t> index = index_of_element(e, p.type.shape);
    last_row = std::max(last_row, index[rows]);
    last_column = std::max(last_column, index[columns]);
  }
  const int64_t height = std::min({p.type.shape[rows], kMostCells, last_row + 3});
  const int64_t width = std::min({p.type.shape[columns], kMostCells, last_column + 3});
  Svg svg(60 + kCell * static_cast<double>(width), 34 + kCell * static_cast<double>(height),
          "The same elements in the logical tensor, numbered by their place in memory");
  svg.text(60, 14, fmt::format("dim {}: 0 to {}", columns, width - 1), "tick");
  svg.text(54, 38, fmt::format("dim {}", rows), "tick", Anchor::kEnd);
  std::map<std::pair<int64_t, int64_t>, size_t> stored;
  for (size_t i = 0; i < p.elements.size(); ++i) {
    if (p.elements[i] < 0) continue;
    const std::vector<int64_t> index = index_of_element(p.elements[i], p.type.shape);
    stored.emplace(std::pair(index[rows], index[columns]), i);
  }
  for (int64_t r = 0; r < height; ++r) {
    for (int64_t c = 0; c < width; ++c) {
      const double x = 60 + kCell * static_cast<double>(c), y = 22 + kCell * static_cast<double>(r);
      const auto found = stored.find({r, c});
      const bool is_shown = found != stored.end();
      svg.rect(x, y, kCell - 2, kCell - 2,
               is_shown ? fmt::format("cell l{}", static_cast<int64_t>(found->second) / p.line) : "cell");
      if (is_shown)
        svg.text(x + kCell / 2 - 1, y + 14, fmt::format("{}", static_cast<int64_t>(found->second) % p.line), "cellname",
                 Anchor::kMiddle);
    }
  }
  return svg.finish();
}

}  // namespace

std::string layouts_section(const Report& report) {
  constexpr std::string_view kHeading = "Layouts";
  if (report.layouts.empty())
    return section("layouts", kHeading, "", missing("every value is stored row by row, as its shape says"));
  std::string body;
  for (const LayoutPicture& p : report.layouts) {
    body += fmt::format("<h3>{}: {}, stored as {}</h3>\n<p><code>{}</code></p>\n", isolated(shortened(p.value, 80)),
                        type_text(p.type), fmt::join(p.storage, "x"), escaped(p.layout));
    body += fmt::format(
        "<div class=\"pair\"><div><h4>In memory</h4>{}</div><div><h4>In the logical tensor</h4>{}</div></div>\n",
        stored_lines(p), logical_grid(p));
  }
  return section(
      "layouts", kHeading,
      "The largest tensor of each kind of layout: the first three lines of its memory, and where their "
      "elements stand in the logical tensor (equal colours are equal lines; numbers are places in the line).",
      body);
}

}  // namespace tw::artefact::report
