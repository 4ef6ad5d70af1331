// The data of a report as one JSON document.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "artefact/report/report.h"
#include "artefact/report/sections.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostCandidates = 20;

// A number that JSON has, with six digits; null where it is not known.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return Json::parse(fmt::format("{:.6g}", value));
}
Json known(double value) { return value > 0 ? number(value) : Json(nullptr); }

// The value, or {"missing": why}.
template <typename T>
Json result(const Result<T>& r, auto&& to_json) {
  return r.ok() ? Json(to_json(*r)) : Json{{"missing", r.reason()}};
}

class Writer {
 public:
  explicit Writer(const Limits& limits) : limits_(limits) {}

  Json of(const Report& r) const {
    const std::vector<size_t> order = slowest_groups(r);
    Json groups = Json::array();
    for (size_t i = 0; i < order.size(); ++i)
      groups.push_back(of(order[i], r.explained.groups[order[i]], i < limits_.details));
    return {{"schema", "tilewright.report/1"},
            {"model", name(r.model)},
            {"producer", r.producer},
            {"level", r.level},
            {"entry", name(r.entry)},
            {"threads", r.threads},
            {"file_bytes", r.file_bytes},
            {"inputs", tensors(r.inputs)},
            {"outputs", tensors(r.outputs)},
            {"machine", of(r.target)},
            {"profiled", r.has_profile},
            {"total_us", known(total_us(r))},
            {"group_count", r.explained.groups.size()},
            {"groups", groups},
            {"layout_times", layout_times(r)},
            {"memory", of(r.memory)},
            {"latency", result(r.latency, [this](const Latency& l) { return of(l); })},
            {"verified", result(r.verified, [this](const VerifyReport& v) { return of(v); })},
            {"passes", result(r.passes, [this](const auto& p) { return of(p); })},
            {"compared", result(r.compared, [this](const Compared& c) { return of(c); })},
            {"peer", result(r.peer, [this](const Peer& p) {
               return Json{{"name", p.name}, {"latency", of(p.latency)}, {"origin", p.origin}};
             })}};
  }

 private:
  std::string name(std::string_view text) const { return shortened(text, limits_.letters); }

  Json layout_times(const Report& r) const {
    Json all = Json::array();
    for (size_t i = 0; i < std::min(r.explained.layout_times.size(), limits_.details); ++i) {
      const plan::LayoutTimes& t = r.explained.layout_times[i];
      Json us = Json::array();
      for (const double time : t.us) us.push_back(number(time));
      all.push_back(
          {{"group", name(t.group)}, {"usual_us", number(t.usual_us)}, {"chosen_us", number(t.chosen_us)}, {"us", us}});
    }
    return all;
  }

  Json of(const Latency& l) const {
    return {{"p10_ms", number(l.p10_ms)},
            {"median_ms", number(l.median_ms)},
            {"mean_ms", number(l.mean_ms)},
            {"quiet_share", number(l.quiet_share)},
            {"runs", l.runs},
            {"protocol", l.protocol}};
  }

  Json of(const plan::OtherCandidate& c, double chosen_us) const {
    return {{"family", c.family},
            {"measured_us", known(c.microseconds)},
            {"predicted_us", known(c.predicted_us)},
            {"ratio", known(chosen_us > 0 ? c.microseconds / chosen_us : 0)},
            {"rough", c.is_rough},
            {"equal_code", c.equal_code},
            {"differs", name(c.differs)},
            {"reason", name(c.reason)}};
  }

  Json of(size_t index, const GroupReport& g, bool with_details) const {
    Json json = {{"id", index},
                 {"name", name(g.plan.name)},
                 {"family", g.plan.family},
                 {"us", known(best_known_us(g))},
                 {"run_us", known(g.run_us)},
                 {"measured_us", known(g.plan.microseconds)},
                 {"predicted_us", known(g.plan.predicted_us)},
                 {"bound_bytes", g.bound_bytes},
                 {"moved_bytes", g.moved_bytes},
                 {"flop", number(g.flop)},
                 {"mue_percent", known(g.mue)},
                 {"peak_percent", known(g.flop > 0 ? g.peak_share : 0)}};
    if (!with_details) return json;
    json["verdict"] = verdict(g);
    Json candidates = Json::array();
    for (size_t i = 0; i < std::min(g.plan.other_candidates.size(), kMostCandidates); ++i)
      candidates.push_back(of(g.plan.other_candidates[i], g.plan.microseconds));
    json["candidates"] = candidates;
    return json;
  }

  Json of(const Memory& m) const {
    Json boxes = Json::array();
    for (size_t i = 0; i < std::min(m.boxes.size(), limits_.marks); ++i) {
      const Box& b = m.boxes[i];
      boxes.push_back({{"value", name(b.value)},
                       {"first_step", b.first_step},
                       {"last_step", b.last_step},
                       {"offset", b.offset},
                       {"bytes", b.bytes}});
    }
    return {{"arena_bytes", m.arena_bytes},
            {"needed_bytes", m.needed_bytes},
            {"weights_bytes", m.weights_bytes},
            {"steps", m.steps},
            {"values", boxes}};
  }

  Json of(const TargetInfo& target) const {
    Json levels = Json::array(), peaks = Json::array();
    for (const MemoryLevel& l : target.levels)
      levels.push_back({{"name", l.name},
                        {"capacity_bytes", l.capacity_bytes},
                        {"gb_s", number(l.read_per_ns)},
                        {"gb_s_all", number(l.all_per_ns)}});
    for (const TypePeak& p : target.device.peaks)
      peaks.push_back({{"type", p.type}, {"matrix", p.matrix}, {"gops", number(p.op_per_ns)}});
    return {{"name", target.name},
            {"from", target.device.from.empty() ? target.parameters_from : target.device.from},
            {"gflops_of_one", number(target.flop_per_ns)},
            {"levels", levels},
            {"peaks", peaks}};
  }

  Json of(const driver::WorstElement& w) const {
    return {{"tensor", name(w.tensor)}, {"got", number(w.got)}, {"want", number(w.want)},
            {"bound", number(w.bound)}, {"wrong", w.wrong},     {"elements", w.elements}};
  }

  Json of(const VerifyReport& v) const {
    Json groups = Json::array(), outputs = Json::array();
    for (size_t g = 0; g < std::min(v.groups.size(), limits_.groups); ++g) {
      for (const driver::WorstElement& w : v.groups[g].outputs) {
        Json json = of(w);
        json["group"] = g;
        groups.push_back(json);
      }
    }
    for (const driver::WorstElement& w : v.outputs) outputs.push_back(of(w));
    return {{"ok", v.ok()},
            {"same_bits_for_threads", v.same_bits_for_threads},
            {"same_bits_apart", v.same_bits_apart},
            {"groups", groups},
            {"outputs", outputs}};
  }

  Json of(const std::vector<driver::PassTime>& passes) const {
    Json list = Json::array();
    for (const driver::PassTime& p : passes)
      list.push_back({{"phase", p.phase}, {"pass", p.pass}, {"us", number(static_cast<double>(p.nanoseconds) / 1e3)}});
    return list;
  }

  Json of(const Compared& c) const {
    Json groups = Json::array();
    for (size_t g = 0; g < std::min(c.report.groups.size(), limits_.groups); ++g)
      groups.push_back({{"name", name(c.report.groups[g].plan.name)},
                        {"family", c.report.groups[g].plan.family},
                        {"us", known(best_known_us(c.report.groups[g]))}});
    const auto outputs = [this](const std::vector<OutputDifference>& all) {
      Json list = Json::array();
      for (const OutputDifference& d : all)
        list.push_back({{"output", name(d.output)},
                        {"elements", d.elements},
                        {"different", d.different},
                        {"largest", number(d.largest)},
                        {"scale", number(d.scale)}});
      return list;
    };
    return {{"model", name(c.model)},
            {"latency", result(c.latency, [this](const Latency& l) { return of(l); })},
            {"groups", groups},
            {"outputs", result(c.outputs, outputs)}};
  }

  Json tensors(const std::vector<NamedType>& all) const {
    Json list = Json::array();
    for (const NamedType& t : all) list.push_back({{"name", name(t.name)}, {"type", type_text(t.type)}});
    return list;
  }

  const Limits& limits_;
};

}  // namespace

std::string to_json(const Report& report) {
  return Writer(report.limits).of(report).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tw::artefact::report
