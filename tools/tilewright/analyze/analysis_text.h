// The analysis of a model for people, for programs and for Graphviz.
#pragma once
#include <optional>
#include <string>

#include "artefact/analysis.h"
#include "tilewright/command.h"

namespace tw::cli {

struct Analysis {
  std::string model;  // as it was given
  dataflow::Dataflow flow;
  std::optional<artefact::AnalyzedGroups> groups = {};  // nothing where only the model was counted
  std::string level = {};                               // of the code
  int threads = 0;                                      // that run it; of a GPU 0
  std::string parameters = {};                          // where the machine's parameters come from
};

/// "768", "1.23 M": three digits, powers of 1000.
std::string number_text(double number);

struct TextLimits {
  int top = 0;  // rows of each table; 0: all
  bool edges = false;
};

void print_analysis(const GlobalOptions& global, const Analysis& analysis, const TextLimits& limits);

/// Of the schema tilewright.analyze.v1.
nlohmann::ordered_json analysis_json(const Analysis& analysis);

/// A graph in Graphviz's language.
std::string analysis_dot(const Analysis& analysis);

}  // namespace tw::cli
