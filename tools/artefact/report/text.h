// Texts of a report: names that others chose made safe for HTML, SVG and JSON in scripts, and numbers that
// support/text.h has no words for.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "support/text.h"

namespace tw::artefact::report {

/// `text` for HTML and SVG, between tags and in quoted attributes: `<`, `>`, `&` and both quotes as entities; control
/// characters and bytes that are not UTF-8 as U+FFFD.
std::string escaped(std::string_view text);
/// escaped() in an element that keeps the direction of its letters to itself.
std::string isolated(std::string_view text);
/// The name of a group, "a/b/MatMul+a/b/Add", as a short label: each operator without the folders that it shares with
/// the one before it, "a/b/MatMul+Add".
std::string label_of(std::string_view group);
/// At most `most` characters (code points), at least 8: the middle gives way to an ellipsis.
std::string shortened(std::string_view text, size_t most);
/// A JSON document for a script element: nothing in it ends the element or begins a comment.
std::string for_script(std::string_view json);

/// "12.3 us", "2.53 ms", "1.2 s"; "unknown" for 0.
std::string time_text(double us);
/// "12 FLOP", "231 MFLOP".
std::string flop_text(double flop);
/// "48.6 %"; 100 is a whole.
std::string percent_text(double percent);
/// Three significant digits.
std::string number_text(double value);

}  // namespace tw::artefact::report
