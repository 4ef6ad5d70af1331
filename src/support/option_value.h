// What an option is, and its values as text: parsed into a field, and printed from it.
#pragma once
#include <charconv>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tw {

enum class OptionKind : uint8_t {
  kOfField,  // what the type of the field says: a flag for bool, a choice for an enumerator, and so on
  kFlag,     // true when it is given
  kCount,    // how many times it is given
  kInteger,
  kNumber,
  kDuration,  // "60s", "2m", "500ms"; the field is in seconds
  kBytes,     // "500M", "2G"
  kText,
  kChoice,  // one of a few words
  kFile,
  kFolder,
};

/// What an option means to the cache of artefacts.
enum class OptionKey : uint8_t {
  kNone,         // it is no option of compiling
  kPart,         // another value, another entry
  kNoEntry,      // with a value other than the default no entry answers; the row says why
  kIndifferent,  // any value, the same entry; the row says why
};

struct OptionRow {
  std::string_view name = {};  // --name, {"name": ..} in a file of options, set("name", ..)
  char letter = 0;             // -o; 0: none
  OptionKind kind = OptionKind::kOfField;
  bool is_repeatable = false;     // each value is one more
  std::string_view choices = {};  // "strict|default|fast", in the order of the enumerators
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::string_view unset = {};     // what holds without it, in words; empty: the field's first value
  std::string_view example = {};   // a value other than that
  std::string_view variable = {};  // of the environment, which is read where the option is not given
  std::string_view verbs = {};     // that take it: "run bench"; "cache/prune" for one action of a verb
  std::string_view group = {};     // that it stands in where help lists options; empty: "Options"
  OptionKey key = OptionKey::kNone;
  std::string_view why = {};  // of kNoEntry and kIndifferent
  std::string_view help = {};
};

/// A value as it was given, and what whoever gave it calls the option: "--shape", "CompileOptions::dtype".
struct OptionText {
  std::string_view text;
  std::string_view spelled;
};

// Parts of values. All throw UsageError when the text is malformed.
/// "60s", "2m", "1h", "500ms" or "60" -> seconds, more than 0.
double parse_duration(const OptionText& text);
/// "500M", "2G" or a number of bytes.
int64_t parse_bytes(const OptionText& text);
/// "true", "1", "on", "yes" and their opposites.
bool parse_flag(const OptionText& text);
/// "NAME=VALUE" -> both parts.
std::pair<std::string, std::string> parse_binding(const OptionText& text);
/// The place of the text among the row's choices.
size_t parse_choice(const OptionRow& row, const OptionText& text);
/// "a,b,,c" -> "a", "b", "", "c".
std::vector<std::string> split_list(std::string_view text, char separator = ',');
/// "text" with quotes and line ends escaped: several of them in a row can be told apart.
std::string in_quotes(std::string_view text);

/// UsageError when `value` is out of the row's range.
void check_range(const OptionRow& row, const OptionText& text, double value);
[[noreturn]] void refuse_integer(const OptionText& text);

void set_value(const OptionRow& row, const OptionText& text, bool& field);
void set_value(const OptionRow& row, const OptionText& text, double& field);
void set_value(const OptionRow& row, const OptionText& text, std::string& field);
void set_value(const OptionRow& row, const OptionText& text, std::vector<std::string>& field);
template <std::integral T>
void set_value(const OptionRow& row, const OptionText& text, T& field) {
  T value{};
  const char* const end = text.text.data() + text.text.size();
  if (row.kind == OptionKind::kBytes) {
    value = static_cast<T>(parse_bytes(text));
  } else if (const auto [rest, code] = std::from_chars(text.text.data(), end, value);
             code != std::errc() || rest != end) {
    if (row.kind != OptionKind::kCount) refuse_integer(text);
    value = static_cast<T>(parse_flag(text));
  }
  check_range(row, text, static_cast<double>(value));
  field = row.kind == OptionKind::kCount ? static_cast<T>(field + value) : value;
}
template <typename T>
requires std::is_enum_v<T>
void set_value(const OptionRow& row, const OptionText& text, T& field) {
  field = static_cast<T>(parse_choice(row, text));
}

std::string print_value(const OptionRow& row, double field);
std::string print_value(const OptionRow& row, const std::string& field);
std::string print_value(const OptionRow& row, const std::vector<std::string>& field);
template <std::integral T>
std::string print_value(const OptionRow&, T field) {
  if (std::is_same_v<T, bool>) return field ? "true" : "false";
  return std::to_string(field);
}
template <typename T>
requires std::is_enum_v<T> std::string print_value(const OptionRow& row, T field) {
  return split_list(row.choices, '|').at(static_cast<size_t>(field));
}

/// What an option is by the type of its field.
template <typename T>
constexpr OptionKind kind_of() {
  if (std::is_same_v<T, bool>) return OptionKind::kFlag;
  if (std::is_integral_v<T>) return OptionKind::kInteger;
  if (std::is_floating_point_v<T>) return OptionKind::kNumber;
  return std::is_enum_v<T> ? OptionKind::kChoice : OptionKind::kText;
}

}  // namespace tw
