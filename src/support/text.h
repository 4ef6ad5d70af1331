// Numbers, sizes, times, counts and lists as people read them, and what a mistyped name probably meant.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tw {

/// "812 bytes", "1.5 kB", "133 MB", "2.4 GB": three digits, powers of 1000.
std::string size_text(double bytes);
/// "12.3 us", "4.56 ms", "1.5 s", "2 min 5 s", "1 h 3 min". Precondition: not negative.
std::string time_text(double seconds);
/// "1 group", "2 groups", "3 entries".
std::string count_text(int64_t count, std::string_view noun);
/// "a, b and c"; `last` is the word before the last one.
std::string list_text(std::span<const std::string> names, std::string_view last = "and");
/// The number with six significant digits: 4.9997761999 is 4.99978.
double rounded(double value);

/// Columns of a terminal that the text takes: its code points in UTF-8.
size_t columns_of(std::string_view text);
/// The text in at most `columns` columns: "models/..y/conv1", without its middle where it is longer.
std::string shortened(std::string_view text, size_t columns);

/// "; did you mean 'target'?" where one of `names` is near to `word`, else empty. `prefix` stands before the name.
std::string suggestion(std::string_view word, std::span<const std::string_view> names, std::string_view prefix = "");
std::string suggestion(std::string_view word, const std::vector<std::string>& names, std::string_view prefix = "");
/// The suggestion, else all names: "; there are a, b and c", "; there is only a", or "; there is none".
std::string suggestion_or_all(std::string_view word, const std::vector<std::string>& names);

}  // namespace tw
