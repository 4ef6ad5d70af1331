#include "artefact/report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tw::artefact::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Bytes of the UTF-8 character at the front; 0: there is none.
size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return 1;
  const size_t count = first >= 0xF0 && first < 0xF5   ? 4
                       : first >= 0xE0 && first < 0xF0 ? 3
                       : first >= 0xC2 && first < 0xE0 ? 2
                                                       : 0;
  if (count == 0 || count > text.size()) return 0;
  for (size_t i = 1; i < count; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool is_overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool is_outside = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return is_overlong || is_outside ? 0 : count;
}

// The character at the front of `text`, as it may be shown; takes it.
std::string_view take_character(std::string_view& text) {
  const size_t count = character_bytes(text);
  const std::string_view character = text.substr(0, std::max<size_t>(count, 1));
  text.remove_prefix(character.size());
  const auto code = static_cast<unsigned char>(character.front());
  const bool is_control = count == 1 && (code < 0x20 || code == 0x7F) && code != '\t' && code != '\n';
  return count == 0 || is_control ? kReplacement : character;
}

// With zeros at the end, so that times below each other compare: "1.10", "12.0", "634".
std::string three_digits(double value) {
  if (value >= 99.95) return fmt::format("{:.0f}", value);
  return value >= 9.995 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

std::string in_units(double value, const std::array<std::string_view, 5>& units) {
  size_t unit = 0;
  for (; std::fabs(value) >= 999.5 && unit + 1 < units.size(); ++unit) value /= 1000;
  return fmt::format("{} {}", number_text(value), units[unit]);
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view c = take_character(text);
    switch (c.front()) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string isolated(std::string_view text) { return "<bdi>" + escaped(text) + "</bdi>"; }

std::string label_of(std::string_view group) {
  std::string out;
  std::string_view before;
  for (size_t at = 0, end = 0; end < group.size() || at == 0; at = end + 1) {
    end = std::min(group.find('+', at), group.size());
    const std::string_view part = group.substr(at, end - at);
    const auto same = static_cast<size_t>(std::ranges::mismatch(part, before).in1 - part.begin());
    const size_t folder = part.substr(0, same).rfind('/');
    out += at == 0 ? "" : "+";
    out += part.substr(folder == std::string_view::npos ? 0 : folder + 1);
    before = part;
  }
  return out;
}

std::string shortened(std::string_view text, size_t most) {
  size_t count = 0;
  for (std::string_view rest = text; !rest.empty(); ++count) take_character(rest);
  if (count <= most) return std::string(text);
  const size_t front = (most - 1) * 2 / 3, back = most - 1 - front;
  std::string out;
  size_t at = 0;
  for (std::string_view rest = text; !rest.empty(); ++at) {
    if (at == front) out += "\xE2\x80\xA6";
    const std::string_view c = take_character(rest);
    if (at < front || at >= count - back) out += c;
  }
  return out;
}

std::string for_script(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<' || c == '>' || c == '&') {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string number_text(double value) {
  if (value == 0) return "0";
  if (std::fabs(value) >= 99.95 && std::fabs(value) < 1e6) return fmt::format("{:.0f}", value);
  const std::string text = fmt::format("{:.3g}", value);
  return text;
}

std::string time_text(double us) {
  if (us <= 0) return "unknown";
  if (us < 999.5) return three_digits(us) + " us";
  return us < 999.5e3 ? three_digits(us / 1e3) + " ms" : three_digits(us / 1e6) + " s";
}

std::string flop_text(double flop) { return in_units(flop, {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"}); }
std::string percent_text(double percent) {
  const bool is_tiny = percent != 0 && std::fabs(percent) < 0.005;
  return (is_tiny ? number_text(percent) : three_digits(percent)) + " %";
}

}  // namespace tw::artefact::report
