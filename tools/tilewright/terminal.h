// How wide the terminal is, and text that fits it.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace tw::cli {

/// Columns of the terminal behind a file descriptor; where it is none, $COLUMNS, else 80.
size_t terminal_columns(int descriptor);

/// The words of `text` in lines of at most `columns` columns, each but the first behind `indent` spaces. A line end in
/// the text stays; a longer word has a line of its own.
std::string wrapped(std::string_view text, size_t columns, size_t indent);

}  // namespace tw::cli
