// tilewright explain MODEL.tw: for each group what was chosen, how it was found, the other candidates, and how far it
// is from the machine's bounds.
#include "artefact/explain.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "driver/artefact/compiled.h"
#include "driver/machine/device.h"
#include "support/text.h"
#include "tilewright/command.h"
#include "tilewright/explained.h"
#include "tilewright/values/arrays.h"
#include "tilewright/values/inputs.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

constexpr int kRuns = 5;  // of the profile; the fastest time of each step counts

// Times of the steps of the bound entry.
std::vector<artefact::StepTime> profile(artefact::Session& session) {
  std::vector<artefact::StepTime> best;
  for (int run = 0; run <= kRuns; ++run) {  // the first one warms up
    session.run_bound();
    const std::vector<artefact::StepTime> steps = session.last_profile();
    if (run < 2) best = steps;
    for (size_t i = 0; i < steps.size(); ++i)
      best[i].microseconds = std::min(best[i].microseconds, steps[i].microseconds);
  }
  return best;
}

std::string time_text(const artefact::GroupReport& r) {
  std::string text;
  if (r.run_us > 0) text += fmt::format("{:.1f} us now", r.run_us);
  const std::string_view each = r.turns > 1 ? " a turn" : "";
  if (r.plan.microseconds > 0)
    text += fmt::format("{}{:.1f} us{} when compiled", text.empty() ? "" : ", ", r.plan.microseconds, each);
  if (r.plan.predicted_us > 0)
    text += fmt::format("{}{:.1f} us{} predicted", text.empty() ? "" : ", ", r.plan.predicted_us, each);
  return text.empty() ? "time unknown" : text;
}

// "271.6 us measured (1.41 times the chosen one), 225.1 us predicted; conv: i1 in tiles of 4x16 (chosen: 2x16)"
std::string why_not(const plan::OtherCandidate& c, double chosen_us) {
  std::string text;
  const auto add = [&](std::string_view separator, const std::string& more) {
    if (!more.empty()) text += (text.empty() ? "" : std::string(separator)) + more;
  };
  if (c.microseconds > 0)
    add("",
        fmt::format("{}{:.1f} us measured{}", c.is_rough ? "about " : "", c.microseconds,
                    chosen_us > 0 ? fmt::format(" ({:.2f} times the chosen one)", c.microseconds / chosen_us) : ""));
  if (c.predicted_us > 0) add(", ", fmt::format("{:.1f} us predicted", c.predicted_us));
  add("; ", c.reason);
  add("; ", c.differs);
  if (c.equal_code > 0) add("; ", count_text(c.equal_code, "more candidate") + " gave the same code");
  return text;
}

void print_group(const GlobalOptions& global, const artefact::GroupReport& r) {
  if (r.plan.family == plan::kLoopFamily)
    return say(global, fmt::format("{}: loop; its groups are among the others", r.plan.name));
  const std::string turns = r.turns > 1 ? fmt::format(" in {} turns", r.turns) : "";
  say(global, fmt::format("{}: {}{}, {}", r.plan.name, r.plan.family, turns, time_text(r)));
  std::string bounds = fmt::format("  {} moved, at least {} in and out", size_text(static_cast<double>(r.moved_bytes)),
                                   size_text(static_cast<double>(r.bound_bytes)));
  if (r.mue > 0) bounds += fmt::format(", {:.1f} % of the memory's speed (MUE)", r.mue);
  if (r.flop > 0) bounds += fmt::format("; {:.1f} MFLOP", r.flop / 1e6);
  if (r.flop > 0 && r.peak_share > 0) bounds += fmt::format(", {:.1f} % of the FMA peak", r.peak_share);
  say(global, bounds);
  for (const std::string& line : r.plan.trace) say(global, "  " + line);
  for (const plan::OtherCandidate& candidate : r.plan.other_candidates)
    say(global, fmt::format("  not {}: {}", candidate.family, why_not(candidate, r.plan.microseconds)));
}

std::string numbers_of(const Why& why) {
  std::string text;
  for (const auto& [name, value] : why.numbers) text += fmt::format("; {} {:.6g}", name, value);
  return text;
}

// Names of operators tell most edges apart; else the values that their readers compute do.
void print_edges(const GlobalOptions& global, const std::vector<plan::EdgeReason>& edges) {
  std::map<std::array<std::string, 3>, int> count;
  for (const plan::EdgeReason& e : edges) ++count[{e.value, e.from, e.to}];
  say(global, count_text(std::ssize(edges), "edge"));
  for (const plan::EdgeReason& e : edges) {
    const bool is_clear = e.from != e.to && count[{e.value, e.from, e.to}] == 1;
    say(global, fmt::format("  {} from {} to {}{}: {} ({}): {}{}", e.value, e.from, e.to,
                            is_clear ? "" : fmt::format(" for {}", e.to_value), e.is_fused ? "fused" : "apart",
                            e.why.rule, e.why.text, numbers_of(e.why)));
  }
}

void print_why(const GlobalOptions& global, const artefact::EntryReport& report) {
  print_edges(global, report.edges);
  say(global, count_text(std::ssize(report.values), "value"));
  for (const artefact::ValueReport& v : report.values)
    say(global, fmt::format("  {} as {} ({}): {}{}", v.reason.value, v.layout, v.reason.why.rule, v.reason.why.text,
                            numbers_of(v.reason.why)));
  if (!report.products.empty())
    say(global, count_text(std::ssize(report.products), "product") + " of dequantized numbers");
  for (const plan::ProductReason& p : report.products)
    say(global, fmt::format("  {} ({}): {}", p.node, p.why.rule, p.why.text));
}

nlohmann::ordered_json to_json(const Why& why) {
  nlohmann::ordered_json numbers = nlohmann::ordered_json::object();
  for (const auto& [name, value] : why.numbers) numbers[name] = value;
  return {{"rule", why.rule}, {"reason", why.text}, {"numbers", numbers}};
}

nlohmann::ordered_json to_json(const plan::EdgeReason& e) {
  nlohmann::ordered_json json = {
      {"value", e.value},           {"from", e.from},         {"to", e.to},         {"to_value", e.to_value},
      {"from_group", e.from_group}, {"to_group", e.to_group}, {"fused", e.is_fused}};
  json.update(to_json(e.why));
  return json;
}

nlohmann::ordered_json to_json(const artefact::ValueReport& v) {
  nlohmann::ordered_json json = {{"value", v.reason.value}, {"layout", v.layout}};
  json.update(to_json(v.reason.why));
  return json;
}

nlohmann::ordered_json to_json(const plan::ProductReason& p) {
  nlohmann::ordered_json json = {{"node", p.node}};
  json.update(to_json(p.why));
  return json;
}

// A time or a share of it; null where it is not known.
nlohmann::ordered_json known(double value) {
  return value > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json to_json(const plan::OtherCandidate& c, double chosen_us) {
  return {{"family", c.family},
          {"measured_us", known(c.microseconds)},
          {"predicted_us", known(c.predicted_us)},
          {"ratio", known(chosen_us > 0 ? c.microseconds / chosen_us : 0)},
          {"rough", c.is_rough},
          {"equal_code", c.equal_code},
          {"differs", c.differs},
          {"reason", c.reason}};
}

nlohmann::ordered_json to_json(const artefact::GroupReport& r) {
  nlohmann::ordered_json other_candidates = nlohmann::ordered_json::array();
  for (const plan::OtherCandidate& candidate : r.plan.other_candidates)
    other_candidates.push_back(to_json(candidate, r.plan.microseconds));
  return {{"name", r.plan.name},
          {"family", r.plan.family},
          {"turns", r.turns},
          {"reads", r.reads},
          {"computes", r.computes},
          {"run_us", known(r.run_us)},
          {"measured_us", known(r.plan.microseconds)},
          {"predicted_us", known(r.plan.predicted_us)},
          {"bound_bytes", r.bound_bytes},
          {"moved_bytes", r.moved_bytes},
          {"flop", r.flop},
          {"mue_percent", known(r.mue)},
          {"fma_peak_percent", known(r.peak_share)},
          {"trace", r.plan.trace},
          {"schedule", schedule::to_string(r.plan.schedule)},
          {"other_candidates", other_candidates}};
}

nlohmann::ordered_json list_of(const auto& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& row : rows) list.push_back(to_json(row));
  return list;
}

artefact::Explained run_entry(const GlobalOptions& global, const LoadedModel& model, const VerbOptions& options) {
  artefact::Session session =
      open_session(global, model, {options.threads, !options.no_run, options.level, options.inputs.function});
  session.bind(gather_inputs({{}, "seed=0", options.inputs.entry}, session));
  artefact::Explained subject{session.target(), session.bound_entry(), session.threads()};
  if (!options.no_run) subject.steps = profile(session);
  return subject;
}

// Code for a GPU, which need not be there.
artefact::Explained find_entry(const format::Manifest& manifest, const VerbOptions& options) {
  std::string known;
  for (size_t e = 0; e < manifest.entries.size(); ++e) {
    const std::string& name = manifest.entries[e].name;
    if (!options.inputs.function.empty() && manifest.entries[e].function != options.inputs.function) continue;
    if (options.inputs.entry.empty() || name == options.inputs.entry)
      return {manifest.targets.front().arch, static_cast<int>(e)};
    known += "\n  " + name;
  }
  if (known.empty())
    throw UsageError("there is no function '{}'; \"tilewright inspect\" lists them", options.inputs.function);
  throw UsageError("there is no entry '{}'; the artefact has:{}", options.inputs.entry, known);
}

// Of all groups, each with the best time that is known of it.
driver::Padding padding_of(const artefact::EntryReport& report) {
  driver::Padding padding;
  for (const artefact::GroupReport& r : report.groups) {
    const double us = artefact::best_known_us(r);
    padding.all_us += us;
    if (r.makes_room) ++padding.kernels, padding.us += us;
  }
  return padding;
}

// Leaves the groups that are asked for, the edges at one of their values, the values that they read or write, and their
// products.
void keep_wanted(artefact::EntryReport& report, const VerbOptions& options) {
  std::vector<artefact::GroupReport>& groups = report.groups;
  const size_t all = groups.size();
  std::erase_if(groups, [&](const artefact::GroupReport& r) {
    return !options.group.empty() && r.plan.name.find(options.group) == std::string::npos;
  });
  std::ranges::stable_sort(groups, std::greater<>(), artefact::best_known_us);
  if (options.top > 0 && groups.size() > static_cast<size_t>(options.top))
    groups.resize(static_cast<size_t>(options.top));
  if (groups.size() == all) return;
  std::set<std::string> read, computed;
  for (const artefact::GroupReport& r : groups) {
    read.insert(r.reads.begin(), r.reads.end());
    computed.insert(r.computes.begin(), r.computes.end());
  }
  std::erase_if(report.edges, [&](const plan::EdgeReason& e) {
    return !computed.contains(e.value) && !computed.contains(e.to_value);
  });
  std::erase_if(report.values, [&](const artefact::ValueReport& v) {
    return !read.contains(v.reason.value) && !computed.contains(v.reason.value);
  });
  std::erase_if(report.products, [&](const plan::ProductReason& p) {
    return std::ranges::none_of(
        groups, [&](const artefact::GroupReport& r) { return r.plan.name.find(p.node) != std::string::npos; });
  });
}

int explain(const GlobalOptions& global, const VerbOptions& options) {
  const LoadedModel model = load_model(global, options);
  const auto [run, target] = examine(global, model, options);
  artefact::EntryReport report = artefact::explain_entry(model.artefact, run, target);
  const driver::Padding padding = padding_of(report);
  keep_wanted(report, options);
  const std::vector<artefact::GroupReport>& reports = report.groups;
  if (global.json) {
    nlohmann::ordered_json json = {{"model", options.model},
                                   {"threads", run.threads},
                                   {"level", run.level},
                                   {"figures", target.info.parameters_from},
                                   {"padding_share", padding.share()},
                                   {"groups", list_of(reports)}};
    if (options.why) json["edges"] = list_of(report.edges);
    if (options.why) json["values"] = list_of(report.values);
    if (options.why) json["products"] = list_of(report.products);
    print_json("tilewright.explain.v1", json);
    return kOk;
  }
  const std::string by = target.info.kind == DeviceKind::kCuda ? "" : count_text(run.threads, "thread") + "; ";
  say(global, fmt::format("{}, slowest first; code for {}; {}bounds from machine parameters ({})",
                          count_text(std::ssize(reports), "group"), run.level, by, target.info.parameters_from));
  if (padding.kernels > 0) say(global, padding_text(padding));
  for (const artefact::GroupReport& r : reports) print_group(global, r);
  if (options.why) print_why(global, report);
  return kOk;
}

}  // namespace

ExplainedModel examine(const GlobalOptions& global, const LoadedModel& model, const VerbOptions& options) {
  const format::Artefact artefact = parse_artefact(model.name, model.artefact);
  const bool gpu = artefact.manifest().kind() == format::TargetKind::kCuda;
  artefact::Explained run =
      gpu && options.no_run ? find_entry(artefact.manifest(), options) : run_entry(global, model, options);
  const driver::machine::MachineOptions parameters = measured_parameters();
  targets::Target target = driver::machine::resolve_target(gpu ? "cuda:" + run.level : "cpu", parameters);
  target.info.device = driver::machine::find_device(target.info, parameters).rates;
  return {std::move(run), std::move(target)};
}

void add_explain(Application& application) {
  add_verb(
      application,
      {"explain",
       "Example: tilewright explain resnet50.tw --top 5\n\nShows why each group of operators runs as it does. What "
       "was chosen, the other candidates and why they lost, and how far the group is from the machine's limits.",
       "MODEL", "Artefact (.tw) or ONNX model", explain});
}

}  // namespace tw::cli
