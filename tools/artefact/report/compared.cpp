// Beside another artefact of the model, and beside another engine.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "artefact/report/sections.h"
#include "artefact/report/svg.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

constexpr size_t kRows = 100;

// "1.25 times as fast as B"
std::string speed_text(double now, double before, std::string_view other) {
  constexpr double kEqual = 0.02;
  if (now <= 0 || before <= 0) return "of unknown speed";
  const double ratio = before / now;
  if (std::abs(ratio - 1) < kEqual) return fmt::format("as fast as {}, within 2 %", other);
  return fmt::format("{:.2f} times as fast as {}", ratio, other);
}

// Two bars of latency.
std::string latency_bars(const std::string& ours, const Latency& a, const std::string& others, const Latency& b) {
  constexpr double kWidth = 960, kRow = 30, kNames = 260, kBar = 520;
  Svg svg(kWidth, kRow * 2 + 4, "Bars: latency of both");
  const double most = std::max(a.p10_ms, b.p10_ms);
  double y = 2;
  for (const auto& [name, latency, family] : {std::tuple(ours, a, "f0"), std::tuple(others, b, "f5")}) {
    const double length = kBar * latency.p10_ms / most;
    svg.text(kNames - 8, y + 18, shortened(name, 38), "", Anchor::kEnd)
        .rect(kNames, y + 3, length, kRow - 8, fmt::format("tile {}", family));
    svg.text(kNames + length + 6, y + 18,
             fmt::format("{}, median {}", time_text(latency.p10_ms * 1e3), time_text(latency.median_ms * 1e3)));
    y += kRow;
  }
  return svg.finish();
}

struct Pair {
  int now = -1;  // place in the order of execution; -1: only the other one has it
  const GroupReport* group = nullptr;
  const GroupReport* before = nullptr;
  double gained_us() const {
    return (before == nullptr ? 0 : best_known_us(*before)) - (group == nullptr ? 0 : best_known_us(*group));
  }
};

// Groups that compute the same nodes; of equal names in their order.
std::vector<Pair> pairs_of(const EntryReport& now, const EntryReport& before) {
  std::multimap<std::string, const GroupReport*> open;
  for (const GroupReport& g : before.groups) open.emplace(g.plan.name, &g);
  std::vector<Pair> pairs;
  for (size_t i = 0; i < now.groups.size(); ++i) {
    Pair pair{static_cast<int>(i), &now.groups[i], nullptr};
    const auto found = open.lower_bound(now.groups[i].plan.name);
    if (found != open.end() && found->first == now.groups[i].plan.name) {
      pair.before = found->second;
      open.erase(found);
    }
    pairs.push_back(pair);
  }
  for (const auto& [name, group] : open) pairs.push_back({-1, nullptr, group});
  std::ranges::stable_sort(pairs, std::greater<>(), [](const Pair& p) { return std::abs(p.gained_us()); });
  return pairs;
}

std::string what_changed(const Pair& p) {
  if (p.before == nullptr) return "only in this one";
  if (p.group == nullptr) return "only in the other one";
  if (p.group->plan.family != p.before->plan.family)
    return fmt::format("{} instead of {}", escaped(p.group->plan.family), escaped(p.before->plan.family));
  return p.group->plan.schedule == p.before->plan.schedule ? "same schedule" : "another schedule";
}

std::string pair_table(const Compared& other, const EntryReport& now) {
  const std::vector<Pair> pairs = pairs_of(now, other.report);
  Table table("Groups whose time differs most",
              {{"Group"}, {"What changed"}, {"This one", true}, {"The other one", true}, {"Gained", true}});
  for (size_t i = 0; i < std::min(kRows, pairs.size()); ++i) {
    const Pair& p = pairs[i];
    const auto time = [](const GroupReport* g) {
      return g == nullptr ? std::string("") : time_text(best_known_us(*g));
    };
    const double gained = p.gained_us();
    const std::string name = (p.group != nullptr ? p.group : p.before)->plan.name;
    table.row({isolated(shortened(name, 60)), what_changed(p),
               Table::number(p.group == nullptr ? 0 : best_known_us(*p.group), time(p.group)),
               Table::number(p.before == nullptr ? 0 : best_known_us(*p.before), time(p.before)),
               Table::number(gained, gained < 0   ? "-" + time_text(-gained)
                                     : gained > 0 ? time_text(gained)
                                                  : "0")},
              p.now);
  }
  return table.finish();
}

std::string output_table(const Result<std::vector<OutputDifference>>& outputs) {
  if (!outputs.ok()) return missing(outputs.reason());
  Table table("Outputs of both on equal seeded inputs",
              {{"Output"}, {"Largest difference", true}, {"Largest value", true}, {"Elements that differ", true}});
  for (const OutputDifference& d : *outputs)
    table.row({isolated(shortened(d.output, 60)), Table::number(d.largest, number_text(d.largest)),
               Table::number(d.scale, number_text(d.scale)),
               Table::number(static_cast<double>(d.different), fmt::format("{} of {}", d.different, d.elements))});
  return table.finish();
}

}  // namespace

std::string compared_section(const Report& report) {
  constexpr std::string_view kHeading = "Beside another artefact";
  if (!report.compared.ok()) return section("compared", kHeading, "", missing(report.compared.reason()));
  const Compared& other = *report.compared;
  double before = 0;
  for (const GroupReport& g : other.report.groups) before += best_known_us(g);
  std::string body = fmt::format("<p>The other artefact: {}.</p>\n", isolated(shortened(other.model, 200)));
  if (report.latency.ok() && other.latency.ok()) {
    body += latency_bars("this artefact", *report.latency, "the other artefact", *other.latency);
    body += fmt::format("<p>This artefact is {} by its best decile.</p>\n",
                        speed_text(report.latency->p10_ms, other.latency->p10_ms, "the other one"));
  } else {
    body += fmt::format("<p>Latency is unknown; by the sum of its groups this artefact is {}.</p>\n",
                        speed_text(total_us(report), before, "the other one"));
  }
  return section("compared", kHeading, "Latency, time of the groups, and numbers of both.",
                 body + pair_table(other, report.explained) + output_table(other.outputs));
}

std::string peer_section(const Report& report) {
  constexpr std::string_view kHeading = "Beside another engine";
  if (!report.peer.ok()) return section("peer", kHeading, "", missing(report.peer.reason()));
  const Peer& peer = *report.peer;
  const std::string origin = fmt::format("<p class=\"note\">{}</p>\n", escaped(peer.origin));
  if (!report.latency.ok())
    return section("peer", kHeading, "",
                   fmt::format("<p>{} takes {} (median {}).</p>\n", escaped(peer.name),
                               time_text(peer.latency.p10_ms * 1e3), time_text(peer.latency.median_ms * 1e3)) +
                       missing(report.latency.reason()) + origin);
  return section("peer", kHeading, "The latency of both on the same model, best decile.",
                 latency_bars("this artefact", *report.latency, peer.name, peer.latency) +
                     fmt::format("<p>This artefact is {}.</p>\n",
                                 speed_text(report.latency->p10_ms, peer.latency.p10_ms, escaped(peer.name))) +
                     origin);
}

}  // namespace tw::artefact::report
