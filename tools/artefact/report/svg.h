// Drawings of a report: SVG that needs no script. Colours come from classes of style.css, lengths are in its own units.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tw::artefact::report {

enum class Anchor : uint8_t { kStart, kMiddle, kEnd };

/// A logarithmic scale from values to places.
struct LogScale {
  double low = 1, high = 10;  // values, greater than 0
  double from = 0, to = 100;  // places
  double at(double value) const;
  /// Its round values: powers of ten, and where these are few 2 and 5 times them.
  std::vector<double> ticks() const;
  /// The scale that holds `low` and `high` with some room.
  static LogScale around(double low, double high, double from, double to);
};

class Svg {
 public:
  /// `label`: what the picture shows, for those who do not see it.
  Svg(double width, double height, std::string_view label);

  Svg& rect(double x, double y, double width, double height, std::string_view classes);
  Svg& circle(double x, double y, double radius, std::string_view classes);
  Svg& line(double x1, double y1, double x2, double y2, std::string_view classes);
  /// `d` as SVG's paths have it: of our own numbers alone.
  Svg& path(std::string_view d, std::string_view classes);
  /// `text` is escaped here.
  Svg& text(double x, double y, std::string_view text, std::string_view classes = "", Anchor anchor = Anchor::kStart);
  /// What stands between open and close belongs to a group: a link to its row, with a title that browsers show.
  Svg& open_group(int group, std::string_view title);
  Svg& open_titled(std::string_view title);
  Svg& close();
  Svg& x_axis(const LogScale& scale, double y, double top, std::string_view title);
  Svg& y_axis(const LogScale& scale, double x, double right, std::string_view title);

  /// The picture in a box that scrolls where the page is narrow.
  std::string finish();

 private:
  std::string out_;
  std::string closers_;  // of what is open: 'a' a link, 'g' a plain one
  double width_;
};

}  // namespace tw::artefact::report
