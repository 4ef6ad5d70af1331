#include "tilewright/terminal.h"

#include <sys/ioctl.h>

#include <charconv>
#include <cstdlib>

#include "support/option_value.h"
#include "support/text.h"

namespace tw::cli {
namespace {

constexpr size_t kUsualColumns = 80;

}  // namespace

size_t terminal_columns(int descriptor) {
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* const given = std::getenv("COLUMNS");
  const std::string_view text = given == nullptr ? "" : given;
  size_t columns = 0;
  std::from_chars(text.data(), text.data() + text.size(), columns);
  return columns > 0 ? columns : kUsualColumns;
}

std::string wrapped(std::string_view text, size_t columns, size_t indent) {
  std::string out;
  for (const std::string& line : split_list(text, '\n')) {
    const std::string begin = "\n" + std::string(indent, ' ');
    if (!out.empty()) out += begin;
    size_t used = indent;
    for (const std::string& word : split_list(line, ' ')) {
      if (word.empty()) continue;
      const bool is_first = used == indent;
      if (!is_first && used + 1 + columns_of(word) > columns) {
        out += begin;
        used = indent;
      } else if (!is_first) {
        out += " ";
        ++used;
      }
      out += word;
      used += columns_of(word);
    }
  }
  return out;
}

}  // namespace tw::cli
