// What a model computes and moves, and how near its compiled groups come to the machine's bounds.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "artefact/explain.h"
#include "dataflow/dataflow.h"

namespace tw::artefact {

/// What an operator's time is limited by. A group is memory bound where its MUE is larger than its share of the peak of
/// operations. Source: Ivanov et al., Data Movement Is All You Need, section VI-B.
enum class Bound : uint8_t { kUnknown, kMemory, kCompute };

/// A group of a compiled model that has code. Groups that hold a contraction are contractions, the others that hold a
/// normalization are normalizations.
struct AnalyzedGroup {
  std::string name;
  dataflow::OperatorClass operator_class = dataflow::OperatorClass::kElementwise;
  int64_t operators = 0;
  int64_t first_operator = 0;  // of artefact_operators(); the others follow it. In a loop's body: the loop
  double flop = 0;             // of all classes, as dataflow/work.h counts
  double us = 0;               // best_known_us()
  int64_t bound_bytes = 0;     // Q
  double mue = 0;              // GroupReport::dram_mue
  double peak_share = 0;       // flop over what the threads do at best in the time, in percent
  Bound bound = Bound::kUnknown;
  int64_t steps = 0;        // kernels, in the order of execution behind those of the groups before
  int64_t moved_bytes = 0;  // that they read and write, values between them too
};

/// Where the times of groups come from, the best of them.
enum class TimeOrigin : uint8_t { kNone, kRun, kCompilation, kPrediction };

struct AnalyzedGroups {
  std::vector<AnalyzedGroup> groups;  // in the order of execution
  TimeOrigin origin = TimeOrigin::kNone;
  double dram_per_ns = 0;  // B_peak: bytes a ns; 0: not known

  double us(dataflow::OperatorClass operator_class) const;  // of all groups of the class
  double us() const;
};

/// The operators of an imported model as the analysis takes them: decomposed patterns (GELU, layer norm) are one
/// operator, what is constant is no operator.
graph::Graph model_operators(const graph::Graph& imported);
/// The operators inside the groups of an artefact.
graph::Graph artefact_operators(const std::vector<uint8_t>& artefact, const Explained& run);

dataflow::Dataflow analyze_operators(const graph::Graph& graph);

/// Throws what explain_entry throws.
AnalyzedGroups analyze_groups(const std::vector<uint8_t>& artefact, const Explained& run,
                              const targets::Target& target);

}  // namespace tw::artefact
