// Accuracy: the error of each group against the bound that it may have.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "artefact/report/sections.h"
#include "artefact/report/svg.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

constexpr double kWidth = 960, kHeight = 250, kLeft = 60, kRight = 900, kTop = 26, kBottom = 196;
constexpr int kDecades = 6;  // ratios from 1e-6 to above 1
constexpr size_t kRows = 25;

struct Error {
  int group = -1;  // -1: an output of the model
  driver::WorstElement worst;
  double ratio = 0;  // of the error to its bound
};

double ratio_of(const driver::WorstElement& w) {
  const double error = std::fabs(w.got - w.want);
  if (w.bound > 0) return error / w.bound;
  return w.ok() ? 0 : INFINITY;  // exact, or it should be
}

std::vector<Error> errors_of(const VerifyReport& v) {
  std::vector<Error> errors;
  for (const driver::WorstElement& w : v.outputs) errors.push_back({-1, w, ratio_of(w)});
  for (size_t g = 0; g < v.groups.size(); ++g) {
    for (const driver::WorstElement& w : v.groups[g].outputs) errors.push_back({static_cast<int>(g), w, ratio_of(w)});
  }
  std::ranges::stable_sort(errors, std::greater<>(), &Error::ratio);
  return errors;
}

// Which bar an error belongs to: 0 is exact, then one for each power of ten, and what is beyond its bound.
int bar_of(double ratio) {
  if (ratio == 0) return 0;
  if (ratio > 1) return kDecades + 1;
  return std::clamp(kDecades + 1 + static_cast<int>(std::floor(std::log10(ratio) - 1e-12)), 1, kDecades);
}

std::string histogram(const std::vector<Error>& errors) {
  std::vector<int> count(kDecades + 2);
  for (const Error& e : errors) ++count[static_cast<size_t>(bar_of(e.ratio))];
  const int most = std::max(1, *std::ranges::max_element(count));
  Svg svg(kWidth, kHeight, "Histogram: how far the worst element of each output is from its bound");
  const double width = (kRight - kLeft) / static_cast<double>(count.size());
  for (size_t i = 0; i < count.size(); ++i) {
    const double x = kLeft + width * static_cast<double>(i), height = (kBottom - kTop) * count[i] / most;
    const bool is_beyond = i + 1 == count.size();
    const std::string name = i == 0      ? "exact"
                             : is_beyond ? "beyond"
                                         : fmt::format("to 1e{}", static_cast<int>(i) - kDecades);
    svg.rect(x + 4, kBottom - height, width - 8, std::max(height, 0.5), is_beyond ? "tile wrong" : "tile f3");
    svg.text(x + width / 2, kBottom - height - 5, fmt::format("{}", count[i]), "tick", Anchor::kMiddle);
    svg.text(x + width / 2, kBottom + 16, name == "to 1e0" ? "to 1" : name, "tick", Anchor::kMiddle);
  }
  svg.line(kRight - width, kTop, kRight - width, kBottom, "ceiling");
  svg.text((kLeft + kRight) / 2, kBottom + 40, "error of the worst element, as a share of its bound", "axis",
           Anchor::kMiddle);
  svg.text(kLeft, kTop - 10, "outputs of groups and of the model", "axis");
  return svg.finish();
}

std::string exact_text(double value) { return fmt::format("{:.6g}", value); }

}  // namespace

std::string accuracy_section(const Report& report) {
  constexpr std::string_view kHeading = "Accuracy";
  if (!report.verified.ok()) return section("accuracy", kHeading, "", missing(report.verified.reason()));
  const VerifyReport& v = *report.verified;
  const std::vector<Error> errors = errors_of(v);
  Table table(fmt::format("The {} with the largest errors beside their bounds", std::min(kRows, errors.size())),
              {{"Group"},
               {"Output"},
               {"Error / bound", true},
               {"Error", true},
               {"Bound", true},
               {"Got", true},
               {"Reference", true},
               {"Wrong", true}});
  for (size_t i = 0; i < std::min(kRows, errors.size()); ++i) {
    const Error& e = errors[i];
    const std::string where = e.group < 0 ? "<strong>the model</strong>"
                                          : isolated(shortened(v.groups[static_cast<size_t>(e.group)].group, 60));
    const double error = std::fabs(e.worst.got - e.worst.want);
    table.row(
        {where, isolated(shortened(e.worst.tensor, 60)), Table::number(e.ratio, number_text(e.ratio)),
         Table::number(error, number_text(error)), Table::number(e.worst.bound, number_text(e.worst.bound)),
         exact_text(e.worst.got), exact_text(e.worst.want),
         Table::number(static_cast<double>(e.worst.wrong), fmt::format("{} of {}", e.worst.wrong, e.worst.elements))},
        e.group);
  }
  std::string body = fmt::format(
      "<p>{} {} and {}.</p>\n",
      v.ok() ? "Everything is within its bound." : "<strong class=\"bad\">Something is beyond its bound.</strong>",
      v.same_bits_for_threads ? "One thread and all give the same bits" : "One thread and all give DIFFERENT bits",
      v.same_bits_apart ? "values may share memory without a change" : "values that share memory CHANGE the result");
  body += histogram(errors) + table.finish();
  return section(
      "accuracy", kHeading,
      "The model ran on seeded inputs. Every group is compared with an f64 reference on its own inputs, and the "
      "model's outputs with that of the whole model; the worst element of each output counts.",
      body);
}

}  // namespace tw::artefact::report
