// The analysis of a model for programs.
#include <cmath>

#include "tilewright/analyze/analysis_text.h"

namespace tw::cli {
namespace {

using nlohmann::ordered_json;

// A time or a share of it; null where it is not known.
ordered_json known(double value) { return value > 0 ? ordered_json(value) : ordered_json(nullptr); }
ordered_json share(double part, double all) { return all > 0 ? ordered_json(100 * part / all) : ordered_json(nullptr); }
// Counts are whole numbers, and exact.
int64_t count(double flop) { return std::llround(flop); }
ordered_json end(int number) { return number < 0 ? ordered_json(nullptr) : ordered_json(number); }

ordered_json to_json(const dataflow::SpaceAxis& a) {
  constexpr std::string_view kRoles[] = {"independent", "special", "reduction"};
  return {
      {"axis", a.name}, {"extent", a.extent}, {"role", kRoles[static_cast<size_t>(a.role)]}, {"applied", a.is_applied}};
}

ordered_json to_json(const dataflow::Operator& o);
ordered_json to_json(const dataflow::Edge& e);
ordered_json to_json(const artefact::AnalyzedGroup& g);

ordered_json list_of(const auto& rows) {
  ordered_json list = ordered_json::array();
  for (const auto& row : rows) list.push_back(to_json(row));
  return list;
}

ordered_json to_json(const dataflow::Operator& o) {
  return {{"name", o.name},
          {"op", o.op},
          {"class", dataflow::name_of(o.operator_class)},
          {"flop", count(o.flop)},
          {"words_read", o.words_read},
          {"words_written", o.words_written},
          {"flop_per_word", o.flop_per_word()},
          {"view", o.is_view},
          {"space", list_of(o.space.axes)}};
}

ordered_json to_json(const dataflow::Edge& e) {
  return {{"value", e.value},          {"from", end(e.from)},        {"to", end(e.to)},
          {"type", to_string(e.type)}, {"words", e.type.elements()}, {"constant", e.is_constant}};
}

ordered_json to_json(const artefact::AnalyzedGroup& g) {
  ordered_json bound;
  if (g.bound != artefact::Bound::kUnknown) bound = g.bound == artefact::Bound::kMemory ? "memory" : "compute";
  return {{"name", g.name},
          {"class", dataflow::name_of(g.operator_class)},
          {"operators", g.operators},
          {"first_operator", g.first_operator},
          {"flop", count(g.flop)},
          {"time_us", known(g.us)},
          {"bound_bytes", g.bound_bytes},
          {"mue_percent", known(g.mue)},
          {"peak_percent", known(g.peak_share)},
          {"bound", bound},
          {"steps", g.steps},
          {"moved_bytes", g.moved_bytes}};
}

ordered_json classes_json(const Analysis& a) {
  double flop = 0, words = 0;
  const std::vector<dataflow::ClassShare> shares = dataflow::shares_of(a.flow.operators);
  for (const dataflow::ClassShare& s : shares) flop += s.flop, words += s.words;
  ordered_json list = ordered_json::array();
  for (const dataflow::ClassShare& s : shares) {
    const double us = a.groups ? a.groups->us(s.operator_class) : 0, all_us = a.groups ? a.groups->us() : 0;
    list.push_back({{"class", dataflow::name_of(s.operator_class)},
                    {"operators", s.operators},
                    {"flop", count(s.flop)},
                    {"flop_percent", share(s.flop, flop)},
                    {"words", count(s.words)},
                    {"words_percent", share(s.words, words)},
                    {"time_us", known(us)},
                    {"time_percent", share(us, all_us)}});
  }
  return list;
}

}  // namespace

ordered_json analysis_json(const Analysis& a) {
  ordered_json json = {{"model", a.model},
                       {"classes", classes_json(a)},
                       {"operators", list_of(a.flow.operators)},
                       {"edges", list_of(a.flow.edges)}};
  if (!a.groups) return json;
  constexpr std::string_view kOrigins[] = {"unknown", "run", "compilation", "prediction"};
  json["level"] = a.level;
  json["threads"] = a.threads > 0 ? ordered_json(a.threads) : ordered_json(nullptr);
  json["parameters"] = a.parameters;
  json["dram_bytes_per_ns"] = known(a.groups->dram_per_ns);
  json["times_from"] = kOrigins[static_cast<size_t>(a.groups->origin)];
  json["groups"] = list_of(a.groups->groups);
  return json;
}

}  // namespace tw::cli
