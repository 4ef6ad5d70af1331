#include "tilewright/advise/advice_text.h"

#include <algorithm>
#include <cmath>

#include "support/text.h"

namespace tw::cli {
namespace {

constexpr double kFar = 0.15;  // of the measured time: predictions that are further off are named

std::string time_of(double ms) { return time_text(ms * 1e-3); }

std::string change_text(double times) { return fmt::format("{:+.1f} %", 100 * (times - 1)); }

// "+1.25 M"; nothing where nothing changes.
std::string added_text(double added) {
  const double size = std::fabs(added);
  if (size == 0) return "-";
  if (size < 1e3) return fmt::format("{:+.0f}", added);
  if (size < 1e6) return fmt::format("{:+.1f} k", added / 1e3);
  return size < 1e9 ? fmt::format("{:+.2f} M", added / 1e6) : fmt::format("{:+.2f} G", added / 1e9);
}

double measured_ms(const AdviceTable& table, const AdviceRow& row) { return *table.network_ms() * *row.slower; }

// How far the predicted time is from the measured one, as a share of it.
double error_of(const AdviceTable& table, const AdviceRow& row) {
  return table.predicted_ms(row.cost) / measured_ms(table, row) - 1;
}

void print_head(const GlobalOptions& global, const std::string& model, const AdviceTable& table) {
  const advise::Cost& cost = table.cost();
  const std::string predicted = fmt::format("{} predicted", time_of(cost.us / 1e3));
  say(global, fmt::format("{} for {}", model, table.target().info.name));
  say(global, table.network_ms() ? fmt::format("{} measured, {}; predictions below are scaled by {:.2f}",
                                               time_of(*table.network_ms()), predicted, table.scale())
                                 : predicted);
  if (cost.unpredicted > 0)
    say(global, fmt::format("{} of its {} groups have no prediction: they count as nothing in predicted times",
                            cost.unpredicted, cost.groups));
  if (!table.not_measured().empty()) say(global, fmt::format("nothing is measured: {}", table.not_measured()));
}

std::string heading(advise::AdviceKind kind, const AdviceTable& table) {
  switch (kind) {
    case advise::AdviceKind::kActivation:
      return "another activation";
    case advise::AdviceKind::kDeepen:
      return "deeper: a 1x1 convolution, and the activation once more, behind a 3x3 one";
    case advise::AdviceKind::kAlign:
      break;
  }
  return fmt::format("wider: channels that fill vectors of {} bytes", table.target().info.vector_bytes);
}

}  // namespace

std::string line_of(const AdviceTable& table, const std::string& number, const AdviceRow& row) {
  const advise::Cost& before = table.cost();
  std::string measured = fmt::format("{:>9} {:>8} {:>7}", "-", "", "");
  if (row.slower)
    measured = fmt::format("{:>9} {:>8} {:>7}", time_of(measured_ms(table, row)), change_text(*row.slower),
                           fmt::format("{:+.0f} %", 100 * error_of(table, row)));
  return fmt::format("{:>3}  {:<46.46} {:>9} {:>8} {}  {:>9} {:>9}", number, row.advice.what,
                     time_of(table.predicted_ms(row.cost)), before.us > 0 ? change_text(row.cost.us / before.us) : "",
                     measured, added_text(static_cast<double>(row.cost.parameters - before.parameters)),
                     added_text(row.cost.flop - before.flop));
}

void print_if_far(const GlobalOptions& global, const AdviceTable& table, const std::string& name,
                  const AdviceRow& row) {
  if (!row.slower || std::fabs(error_of(table, row)) <= kFar) return;
  say(global, fmt::format("the prediction of {} is wrong by {:.0f} %: {} predicted, {} measured", name,
                          100 * std::fabs(error_of(table, row)), time_of(table.predicted_ms(row.cost)),
                          time_of(measured_ms(table, row))));
}

void print_advice(const GlobalOptions& global, const std::string& model, const AdviceTable& table) {
  print_head(global, model, table);
  if (table.rows().empty()) {
    say(global,
        "no advice: no activation stands behind a convolution or matrix product of constant weights, and no "
        "channels can be widened to whole vectors");
    return;
  }
  say(global, fmt::format("{:>3}  {:<46} {:>18} {:>18} {:>7}  {:>9} {:>9}", "no.", "advice", "predicted", "measured",
                          "off", "weights", "flop"));
  std::optional<advise::AdviceKind> kind;
  for (size_t r = 0; r < table.rows().size(); ++r) {
    const AdviceRow& row = table.rows()[r];
    if (kind != row.advice.kind) say(global, heading(row.advice.kind, table));
    kind = row.advice.kind;
    say(global, line_of(table, std::to_string(r + 1), row));
    if (global.verbose > 0) say(global, fmt::format("     at {}", fmt::join(row.advice.nodes, ", ")));
  }
  for (size_t r = 0; r < table.rows().size(); ++r) print_if_far(global, table, std::to_string(r + 1), table.rows()[r]);
}

nlohmann::ordered_json row_json(const AdviceTable& table, const AdviceRow& row) {
  nlohmann::ordered_json json = {
      {"kind", advise::kind_name(row.advice.kind)},
      {"what", row.advice.what},
      {"nodes", row.advice.nodes},
      {"predicted_ms", {{"before", table.predicted_ms(table.cost())}, {"after", table.predicted_ms(row.cost)}}},
      {"measured_ms", nullptr},
      {"prediction_error", nullptr},
      {"parameters_added", row.cost.parameters - table.cost().parameters},
      {"flop_added", row.cost.flop - table.cost().flop},
      {"groups_without_prediction", row.cost.unpredicted}};
  if (!row.slower) return json;
  json["measured_ms"] = {{"before", *table.network_ms()}, {"after", measured_ms(table, row)}};
  json["prediction_error"] = error_of(table, row);
  return json;
}

nlohmann::ordered_json advice_json(const AdviceTable& table) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (size_t r = 0; r < table.rows().size(); ++r) {
    nlohmann::ordered_json row = {{"number", r + 1}};
    row.update(row_json(table, table.rows()[r]));
    rows.push_back(std::move(row));
  }
  nlohmann::ordered_json measured;
  if (table.network_ms()) measured = *table.network_ms();
  return {{"target", table.target().info.name},
          {"not_measured", table.not_measured()},
          {"predicted_ms", table.cost().us / 1e3},
          {"measured_ms", measured},
          {"parameters", table.cost().parameters},
          {"flop", table.cost().flop},
          {"advice", rows}};
}

}  // namespace tw::cli
