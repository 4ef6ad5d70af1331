// The table of advice for people and for programs.
#pragma once
#include "tilewright/advise/advice_table.h"
#include "tilewright/command.h"

namespace tw::cli {

void print_advice(const GlobalOptions& global, const std::string& model, const AdviceTable& table);
/// The line of a row that stands for itself.
std::string line_of(const AdviceTable& table, const std::string& number, const AdviceRow& row);
/// A line where the prediction of a row is far from what was measured; nothing otherwise.
void print_if_far(const GlobalOptions& global, const AdviceTable& table, const std::string& name, const AdviceRow& row);

nlohmann::ordered_json advice_json(const AdviceTable& table);
nlohmann::ordered_json row_json(const AdviceTable& table, const AdviceRow& row);

}  // namespace tw::cli
