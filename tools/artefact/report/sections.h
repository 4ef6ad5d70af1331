// The sections of a report's page, each a function from the data to HTML. Private to the report.
#pragma once
#include <string>
#include <vector>

#include "artefact/report/report.h"

namespace tw::artefact::report {

std::string summary_section(const Report& report);
std::string time_section(const Report& report);
std::string roofline_section(const Report& report);
std::string graph_section(const Report& report);
std::string memory_section(const Report& report);
std::string candidates_section(const Report& report);
std::string timeline_section(const Report& report);
std::string layouts_section(const Report& report);
std::string layout_times_section(const Report& report);
std::string accuracy_section(const Report& report);
std::string compiling_section(const Report& report);
std::string compared_section(const Report& report);
std::string peer_section(const Report& report);
std::string groups_section(const Report& report);

/// Groups with code, as places in the order of execution, slowest first; as many as the limits
/// allow.
std::vector<size_t> slowest_groups(const Report& report);
/// Sum of the best known times of all groups, in us.
double total_us(const Report& report);
/// Class of style.css for the colour of a family: "f3".
std::string family_class(std::string_view family);
/// The families of the report with their colours.
std::string legend(const Report& report);
/// Whether the best known time of a group is a prediction.
bool is_predicted(const GroupReport& group);
/// How a group stands to the machine's bounds, a sentence: "82.8 % of the arithmetic peak: arithmetic limits it".
std::string verdict(const GroupReport& group);
/// "f32[1,64,56,56]"
std::string type_text(const TensorType& type);
/// "channels last", "rows", or the storage shape "1x8x56x56x8".
std::string layout_text(const Layout& layout, const Shape& logical);
/// <p class="missing"> with why there is nothing to see.
std::string missing(std::string_view reason);
/// Name and time of a group, for titles.
std::string title_of(const Report& report, const GroupReport& group);
/// A section with its heading; `lead` says what is seen, in plain text.
std::string section(std::string_view id, std::string_view heading, std::string_view lead, const std::string& body);

/// A table whose columns can be sorted by the script. Cells are HTML.
class Table {
 public:
  struct Column {
    std::string_view title;
    bool is_number = false;
  };
  Table(std::string_view caption, const std::vector<Column>& columns);
  /// `group`: the row is about that one; -1: about none.
  Table& row(const std::vector<std::string>& cells, int group = -1);
  /// With the value that a number is sorted by.
  static std::string number(double value, std::string_view text);
  std::string finish();

 private:
  std::string out_;
  std::vector<Column> columns_;
};

}  // namespace tw::artefact::report
