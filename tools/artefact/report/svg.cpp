#include "artefact/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

std::string attribute(std::string_view classes) { return classes.empty() ? "" : fmt::format(" class=\"{}\"", classes); }

// One decimal is a tenth of a pixel.
std::string place(double x) {
  std::string text = fmt::format("{:.1f}", x);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string power_text(double value) {
  return value >= 0.001 && value < 1e5 ? fmt::format("{:g}", value) : fmt::format("{:.0e}", value);
}

}  // namespace

double LogScale::at(double value) const {
  return from + (to - from) * (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
}

LogScale LogScale::around(double low, double high, double from, double to) {
  constexpr double kRoom = 1.25, kLeast = 1e-9;
  low = std::max(low, kLeast);
  return {low / kRoom, std::max(high, low) * kRoom, from, to};
}

std::vector<double> LogScale::ticks() const {
  const bool is_wide = high / low > 300;
  std::vector<double> all;
  for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      const double v = power * step;
      if (v >= low && v <= high && (step == 1 || !is_wide)) all.push_back(v);
    }
  }
  return all;
}

Svg::Svg(double width, double height, std::string_view label) : width_(width) {
  out_ = fmt::format("<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" aria-label=\"{2}\">",
                     place(width), place(height), escaped(label));
}

Svg& Svg::rect(double x, double y, double width, double height, std::string_view classes) {
  out_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>", place(x), place(y), place(width),
                      place(height), attribute(classes));
  return *this;
}

Svg& Svg::circle(double x, double y, double radius, std::string_view classes) {
  out_ +=
      fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\"{}/>", place(x), place(y), place(radius), attribute(classes));
  return *this;
}

Svg& Svg::line(double x1, double y1, double x2, double y2, std::string_view classes) {
  out_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}/>", place(x1), place(y1), place(x2), place(y2),
                      attribute(classes));
  return *this;
}

Svg& Svg::path(std::string_view d, std::string_view classes) {
  out_ += fmt::format("<path d=\"{}\"{}/>", d, attribute(classes));
  return *this;
}

Svg& Svg::text(double x, double y, std::string_view text, std::string_view classes, Anchor anchor) {
  constexpr std::string_view kAnchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  out_ += fmt::format("<text x=\"{}\" y=\"{}\"{}{}>{}</text>", place(x), place(y), attribute(classes),
                      kAnchors[static_cast<size_t>(anchor)], escaped(text));
  return *this;
}

Svg& Svg::open_group(int group, std::string_view title) {
  out_ += fmt::format("<a href=\"#g{0}\" data-g=\"{0}\"><title>{1}</title>", group, escaped(title));
  closers_ += 'a';
  return *this;
}

Svg& Svg::open_titled(std::string_view title) {
  out_ += fmt::format("<g><title>{}</title>", escaped(title));
  closers_ += 'g';
  return *this;
}

Svg& Svg::close() {
  out_ += closers_.back() == 'a' ? "</a>" : "</g>";
  closers_.pop_back();
  return *this;
}

Svg& Svg::x_axis(const LogScale& scale, double y, double top, std::string_view title) {
  for (const double v : scale.ticks()) {
    line(scale.at(v), y, scale.at(v), top, "grid");
    text(scale.at(v), y + 16, power_text(v), "tick", Anchor::kMiddle);
  }
  return text((scale.from + scale.to) / 2, y + 34, title, "axis", Anchor::kMiddle);
}

Svg& Svg::y_axis(const LogScale& scale, double x, double right, std::string_view title) {
  for (const double v : scale.ticks()) {
    line(x, scale.at(v), right, scale.at(v), "grid");
    text(x - 6, scale.at(v) + 4, power_text(v), "tick", Anchor::kEnd);
  }
  return text(x, scale.to - 10, title, "axis");
}

std::string Svg::finish() {
  return fmt::format("<div class=\"scroll\" tabindex=\"0\" style=\"--w:{}px\">{}</svg></div>\n", place(width_), out_);
}

}  // namespace tw::artefact::report
