#include "tilewright/analyze/analysis_text.h"

#include <algorithm>
#include <numeric>

#include "support/text.h"

namespace tw::cli {
namespace {

using artefact::AnalyzedGroup;
using artefact::Bound;
using dataflow::Edge;
using dataflow::Operator;

std::string percent_text(double part, double all) { return all > 0 ? fmt::format("{:.2f} %", 100 * part / all) : "-"; }
std::string known_percent(double percent) { return percent > 0 ? fmt::format("{:.1f} %", percent) : "-"; }
std::string known_time(double us) { return us > 0 ? time_text(us * 1e-6) : "-"; }

std::string_view name_of(Bound bound) {
  constexpr std::string_view kNames[] = {"-", "memory", "compute"};
  return kNames[static_cast<size_t>(bound)];
}

// Where times come from, behind "times ".
std::string_view origin_text(artefact::TimeOrigin origin) {
  constexpr std::string_view kTexts[] = {"are not known", "are of a run now", "are those of the compilation",
                                         "are predicted"};
  return kTexts[static_cast<size_t>(origin)];
}

// The first `top` numbers of `rows` in descending order of `key`; all of them in their order where top is 0.
template <typename Row>
std::vector<size_t> top_rows(const std::vector<Row>& rows, int top, const auto& key) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (top == 0 || rows.size() <= static_cast<size_t>(top)) return order;
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return static_cast<double>(key(rows[i])); });
  order.resize(static_cast<size_t>(top));
  return order;
}

std::string heading(std::string_view noun, size_t shown, size_t all, std::string_view order) {
  return shown == all ? count_text(static_cast<int64_t>(all), noun)
                      : fmt::format("{} of {}, {}", shown, count_text(static_cast<int64_t>(all), noun), order);
}

void print_classes(const GlobalOptions& global, const Analysis& a) {
  double flop = 0, words = 0;
  const std::vector<dataflow::ClassShare> shares = dataflow::shares_of(a.flow.operators);
  for (const dataflow::ClassShare& s : shares) flop += s.flop, words += s.words;
  const double us = a.groups ? a.groups->us() : 0;
  constexpr std::string_view kRow = "{:<14} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>9}";
  say(global,
      fmt::format(fmt::runtime(kRow), "class", "operators", "flop", "share", "words", "share", "time", "share"));
  for (const dataflow::ClassShare& s : shares) {
    const double own = a.groups ? a.groups->us(s.operator_class) : 0;
    say(global, fmt::format(fmt::runtime(kRow), dataflow::name_of(s.operator_class), s.operators, number_text(s.flop),
                            percent_text(s.flop, flop), number_text(s.words), percent_text(s.words, words),
                            known_time(own), percent_text(own, us)));
  }
  say(global, fmt::format(fmt::runtime(kRow), "all", a.flow.operators.size(), number_text(flop), "", number_text(words),
                          "", known_time(us), ""));
}

void print_operators(const GlobalOptions& global, const Analysis& a, int top) {
  const std::vector<size_t> rows = top_rows(a.flow.operators, top, [](const Operator& o) { return o.flop; });
  constexpr std::string_view kRow = "  {:<36} {:<13} {:>8} {:>8} {:>8} {:>9}  {}";
  say(global, "\n" + heading("operator", rows.size(), a.flow.operators.size(), "those with most flop"));
  say(global, fmt::format(fmt::runtime(kRow), "name (operator)", "class", "flop", "words in", "out", "flop/word",
                          "iteration space"));
  for (const size_t i : rows) {
    const Operator& o = a.flow.operators[i];
    say(global,
        fmt::format(fmt::runtime(kRow), shortened(fmt::format("{} ({})", o.name, o.op), 36),
                    dataflow::name_of(o.operator_class), number_text(o.flop),
                    number_text(static_cast<double>(o.words_read)), number_text(static_cast<double>(o.words_written)),
                    o.words() > 0 ? number_text(o.flop_per_word()) : "-",
                    o.is_view ? "view: nothing is moved" : shortened(dataflow::to_string(o.space), 60)));
  }
}

std::string end_text(const Analysis& a, int end, std::string_view otherwise) {
  return end < 0 ? std::string(otherwise) : shortened(a.flow.operators[static_cast<size_t>(end)].name, 30);
}

void print_edges(const GlobalOptions& global, const Analysis& a, int top) {
  const std::vector<size_t> rows = top_rows(a.flow.edges, top, [](const Edge& e) { return e.type.elements(); });
  constexpr std::string_view kRow = "  {:<30} {:<30} {:>8}  {}";
  say(global, "\n" + heading("edge", rows.size(), a.flow.edges.size(), "those with most words"));
  say(global, fmt::format(fmt::runtime(kRow), "from", "to", "words", "value"));
  for (const size_t i : rows) {
    const Edge& e = a.flow.edges[i];
    say(global, fmt::format(fmt::runtime(kRow), end_text(a, e.from, e.is_constant ? "a constant" : "an input"),
                            end_text(a, e.to, "an output"), number_text(static_cast<double>(e.type.elements())),
                            shortened(e.value, 44)));
  }
}

void print_groups(const GlobalOptions& global, const Analysis& a, int top) {
  const std::vector<AnalyzedGroup>& groups = a.groups->groups;
  const std::vector<size_t> rows = top_rows(groups, top, [](const AnalyzedGroup& g) { return g.us; });
  constexpr std::string_view kRow = "  {:<40} {:<13} {:>9} {:>9} {:>9} {:>9} {:>9}  {}";
  say(global, "\n" + heading("group", rows.size(), groups.size(), "the slowest"));
  say(global, fmt::format("  code for {}{}; times {}; machine parameters: {}; DRAM delivers {}", a.level,
                          a.threads > 0 ? " on " + count_text(a.threads, "thread") : "", origin_text(a.groups->origin),
                          a.parameters,
                          a.groups->dram_per_ns > 0 ? fmt::format("{:.1f} GB/s", a.groups->dram_per_ns)
                                                    : "an unknown number of bytes"));
  say(global, fmt::format(fmt::runtime(kRow), "name", "class", "flop", "time", "Q", "MUE", "of peak", "bound by"));
  for (const size_t i : rows) {
    const AnalyzedGroup& g = groups[i];
    say(global, fmt::format(fmt::runtime(kRow), shortened(g.name, 40), dataflow::name_of(g.operator_class),
                            number_text(g.flop), known_time(g.us), size_text(static_cast<double>(g.bound_bytes)),
                            known_percent(g.mue), known_percent(g.peak_share), name_of(g.bound)));
  }
}

}  // namespace

std::string number_text(double number) {
  constexpr std::string_view kUnits[] = {"", " k", " M", " G", " T", " P"};
  size_t unit = 0;
  for (; number >= 999.5 && unit + 1 < std::size(kUnits); ++unit) number /= 1000;
  if (unit == 0) return fmt::format("{:.4g}", number);
  return fmt::format("{:.{}f}{}", number, number < 9.995 ? 2 : number < 99.95 ? 1 : 0, kUnits[unit]);
}

void print_analysis(const GlobalOptions& global, const Analysis& a, const TextLimits& limits) {
  say(global, fmt::format("{}: {}, {}", a.model, count_text(std::ssize(a.flow.operators), "operator"),
                          count_text(std::ssize(a.flow.edges), "edge")));
  say(global,
      "flop: additions, multiplications, divisions and functions of elements; words: elements of tensors; k, M, G: "
      "powers "
      "of 1000\n");
  print_classes(global, a);
  print_operators(global, a, limits.top);
  if (limits.edges) print_edges(global, a, limits.top);
  if (a.groups) print_groups(global, a, limits.top);
}

}  // namespace tw::cli
