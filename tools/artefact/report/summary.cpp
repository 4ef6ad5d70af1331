// Summary and protocol: what a reader should know within a minute.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "artefact/report/sections.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

std::string card(std::string_view name, const std::string& value, const std::string& note) {
  return fmt::format("<div class=\"card\"><dt>{}</dt><dd>{}<small>{}</small></dd></div>", escaped(name), value, note);
}

std::string latency_card(const Report& report) {
  if (!report.latency.ok()) return card("Latency", "not measured", escaped(report.latency.reason()));
  const Latency& l = *report.latency;
  constexpr double kWorthSaying = 0.1;
  const double disturbed = 1 - l.quiet_share;
  return card(
      "Latency", time_text(l.p10_ms * 1e3),
      fmt::format("best decile; median {}", time_text(l.median_ms * 1e3)) +
          (disturbed > kWorthSaying ? fmt::format("; other programs disturbed {:.0f} % of the runs", 100 * disturbed)
                                    : ""));
}

std::string verified_card(const Report& report) {
  if (!report.verified.ok()) return card("Verified", "not checked", escaped(report.verified.reason()));
  const VerifyReport& v = *report.verified;
  return v.ok() ? card("Verified", "yes", "every group and output within its error bound")
                : card("Verified", "<strong class=\"bad\">MISMATCH</strong>", "see Accuracy");
}

std::string what_was_tried(const plan::GroupPlan& p) {
  const auto timed = std::ranges::count_if(p.other_candidates, [](const auto& c) { return c.microseconds > 0; });
  const auto nearest = [&](double plan::OtherCandidate::*us) {
    double least = INFINITY;
    for (const plan::OtherCandidate& c : p.other_candidates)
      if (c.*us > 0) least = std::min(least, c.*us);
    return least;
  };
  if (timed > 0)
    return fmt::format("{} {} measured beside it; the fastest of them took {:.2f} times as long.",
                       count_text(timed, "other candidate"), timed == 1 ? "was" : "were",
                       nearest(&plan::OtherCandidate::microseconds) / p.microseconds);
  if (p.microseconds > 0) return "No other candidate of it was measured.";
  const auto predicted = std::ranges::count_if(p.other_candidates, [](const auto& c) { return c.predicted_us > 0; });
  if (predicted == 0) return "Nothing was measured, and there was no other candidate.";
  return fmt::format("Nothing was measured; {} {} predicted, the best of them at {}.",
                     count_text(predicted, "other candidate"), predicted == 1 ? "was" : "were",
                     time_text(nearest(&plan::OtherCandidate::predicted_us)));
}

// The sentence that tells the slowest group, why it is slow and what was tried.
std::string slowest(const Report& report) {
  const std::vector<size_t> order = slowest_groups(report);
  if (order.empty()) return "";
  const GroupReport& g = report.explained.groups[order.front()];
  const double all = total_us(report), us = best_known_us(g);
  const std::string share = all > 0 && us > 0 ? fmt::format(", {} of all", percent_text(100 * us / all)) : "";
  return fmt::format(
      "<p class=\"slowest\">Slowest group: <a href=\"#g{0}\" data-g=\"{0}\">{1}</a> ({2}), {3}{4}{5}. {6} {7}</p>\n",
      order.front(), isolated(shortened(g.plan.name, 80)), escaped(g.plan.family), time_text(us),
      us > 0 && is_predicted(g) ? " by prediction" : "", share, escaped(verdict(g)), what_was_tried(g.plan));
}

std::string tensors(std::string_view title, const std::vector<NamedType>& all) {
  constexpr size_t kMost = 20;
  std::string out = fmt::format("<dt>{}</dt><dd>", title);
  for (size_t i = 0; i < std::min(all.size(), kMost); ++i)
    out += fmt::format("{}{} {}", i == 0 ? "" : "; ", isolated(shortened(all[i].name, 80)), type_text(all[i].type));
  if (all.size() > kMost) out += fmt::format("; {} more", all.size() - kMost);
  return out + "</dd>";
}

std::string protocol(const Report& report) {
  std::string out = "<dl class=\"facts\">";
  const auto fact = [&](std::string_view name, const std::string& value) {
    out += fmt::format("<dt>{}</dt><dd>{}</dd>", escaped(name), value);
  };
  fact("Model", isolated(shortened(report.model, 200)));
  fact("Compiled by", escaped(report.producer));
  fact("Code for", escaped(report.level));
  fact("Shapes", isolated(shortened(report.entry, 200)) +
                     (report.entries > 1 ? fmt::format(" (of {} that the artefact has)", report.entries) : ""));
  out += tensors("Inputs", report.inputs) + tensors("Outputs", report.outputs);
  fact("Bounds from",
       escaped(report.target.device.from.empty() ? report.target.parameters_from : report.target.device.from));
  fact("Times of groups", report.has_profile
                              ? "the fastest of several profiled runs, in which each step waits for the one before it: "
                                "their sum is not the latency"
                              : "as measured when the model was compiled, else as predicted");
  if (report.latency.ok()) fact("Latency", escaped(report.latency->protocol));
  return out + "</dl>\n";
}

}  // namespace

std::string summary_section(const Report& report) {
  const Memory& m = report.memory;
  int64_t operators = 0;
  for (const GroupReport& g : report.explained.groups) operators += static_cast<int64_t>(g.operators.size());
  std::string body = "<dl class=\"cards\">" + latency_card(report) + verified_card(report);
  body += card("Groups", fmt::format("{}", report.explained.groups.size()),
               fmt::format("of {}", count_text(operators, "operator")));
  const size_t plus = report.level.find('+');
  const auto more = std::ranges::count(report.level, '+');
  body += card("Target", escaped(shortened(report.level.substr(0, plus), 24)),
               (report.on_gpu ? "GPU" : count_text(report.threads, "thread")) +
                   (more > 0 ? "; " + count_text(more, "more CPU feature") : ""));
  body += card("Artefact", size_text(static_cast<double>(report.file_bytes)),
               fmt::format("weights {}", size_text(static_cast<double>(m.weights_bytes))));
  body += card("Memory of values", size_text(static_cast<double>(m.arena_bytes)), "one arena for each context");
  body += "</dl>\n" + slowest(report) + protocol(report);
  return section("summary", "Summary", "", body);
}

}  // namespace tw::artefact::report
