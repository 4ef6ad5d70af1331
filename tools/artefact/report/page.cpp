// The page: head, sections, data, script.
#include <fmt/format.h>

#include "artefact/report/assets.h"
#include "artefact/report/sections.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

struct Part {
  std::string_view id, title;
  std::string (*draw)(const Report& report);
};

constexpr Part kParts[] = {
    {"summary", "Summary", summary_section},
    {"time", "Time", time_section},
    {"roofline", "Roofline", roofline_section},
    {"graph", "Graph", graph_section},
    {"memory", "Memory", memory_section},
    {"candidates", "Candidates", candidates_section},
    {"timeline", "Time line", timeline_section},
    {"layouts", "Layouts", layouts_section},
    {"layout-times", "Times of layouts", layout_times_section},
    {"accuracy", "Accuracy", accuracy_section},
    {"compiling", "Compiling", compiling_section},
    {"compared", "Other artefact", compared_section},
    {"peer", "Other engine", peer_section},
    {"groups", "Groups", groups_section},
};

std::string page_of(const Report& report) {
  const std::string name = shortened(report.model.substr(report.model.find_last_of('/') + 1), 80);
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{} - Tilewright "
      "report</title>\n<style>\n{}</style></head>\n<body>\n",
      escaped(name), kStyle);
  page += fmt::format("<header><h1>{}</h1><nav aria-label=\"Sections\"><ul>", isolated(name));
  for (const Part& part : kParts) page += fmt::format("<li><a href=\"#{}\">{}</a></li>", part.id, part.title);
  page += "</ul></nav></header>\n<main>\n";
  for (const Part& part : kParts) page += part.draw(report);
  page += fmt::format("</main>\n<footer>Made by {}. Everything is in this file.</footer>\n", escaped(report.producer));
  page += fmt::format(
      "<script type=\"application/json\" id=\"report-data\">{}</script>\n<script>\n{}</script>\n</body></html>\n",
      for_script(to_json(report)), kScript);
  return page;
}

// One after the other, until a page is small enough: names may be as long as their writers like.
constexpr Limits kSmaller[] = {{2000, 60, 300, 60}, {1000, 20, 200, 40}, {200, 10, 100, 24}, {20, 5, 20, 12}};

}  // namespace

std::string to_html(const Report& report) {
  std::string page = page_of(report);
  if (page.size() <= kMostBytes) return page;
  Report smaller = report;
  for (const Limits& limits : kSmaller) {
    smaller.limits = limits;
    page = page_of(smaller);
    if (page.size() <= kMostBytes) break;
  }
  return page;
}

}  // namespace tw::artefact::report
