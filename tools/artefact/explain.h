// Why a compiled model is as it is: for each group its implementation, how that was found, what it costs and how far it
// is from the bounds of the machine.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "artefact/session.h"
#include "dataflow/iteration_space.h"
#include "plan/plan.h"
#include "targets/registry.h"

namespace tw::artefact {

/// A node of the model inside a group.
struct OperatorReport {
  std::string name, op;
  dataflow::OperatorClass operator_class = dataflow::OperatorClass::kElementwise;
  double flop_per_word = 0;  // dataflow/work.h says what counts
};

struct GroupReport {
  plan::GroupPlan plan;     // family, schedule, predicted and measured time, the other candidates with their reasons
  int64_t turns = 1;        // of the loops around it: how often it runs; what follows is of all of them together
  int64_t steps = 0;        // kernels that it has; views and loops have none
  double run_us = 0;        // of the profiled run; 0: there was none
  int64_t bound_bytes = 0;  // Q: every distinct input read once, every output written once
  int64_t moved_bytes =
      0;            // what each kernel of the group reads and writes, once: what passes between them counts twice
  double flop = 0;  // of sums of products
  /// Q over what peak bandwidth moves in the time, in percent: Q / (t * B_peak) * 100, B_peak of the nearest memory
  /// level that holds Q. Source: Ivanov et al., Data Movement Is All You Need, section IV. 0 without a time.
  double mue = 0;
  double dram_mue = 0;     // the same with the bandwidth of DRAM as B_peak, which is how the source has it
  double peak_per_ns = 0;  // flop that the threads do at best on the type of its first input; 0: not known
  double peak_share = 0;   // flop over what the FMA peak of the threads does in the time, in percent
  std::vector<OperatorReport> operators = {};
  std::vector<std::string> reads = {};     // names of its inputs, constants aside
  bool makes_room = false;                 // it writes zeros behind channels for a contraction
  std::vector<std::string> computes = {};  // of its outputs and of what stays inside
};

/// The layout of a value that is stored between groups, and why it has that one.
struct ValueReport {
  plan::ValueReason reason;
  std::string layout;  // "rows" or a sequence of primitives
};

/// A value on its way from where it is stored to a group, or out of the model. Constants of one element are code.
struct Flow {
  int from = -1, to = -1;  // groups by their place in the order of execution; -1: the caller
  std::string value;
  TensorType type;
  Layout layout;
  bool is_constant = false;  // then `from` is -1, too
};

/// Of one entry.
struct EntryReport {
  /// In the order of execution; behind them those of the bodies of loops, body after body.
  std::vector<GroupReport> groups;
  std::vector<plan::EdgeReason> edges;
  std::vector<ValueReport> values;
  std::vector<plan::ProductReason> products;
  std::vector<Flow> flows;
  std::vector<plan::LayoutTimes> layout_times;  // none unless layouts were measured
};

/// Peak bandwidth of DRAM as all threads, or a whole GPU, reach it, in bytes a ns; 0 where it is not known.
double dram_bandwidth(const TargetInfo& info, int threads);

/// Time of the group in us: of the profiled run, else as measured when it was compiled, else as predicted; 0: unknown.
double best_known_us(const GroupReport& report);

/// The profile of a run of entry `entry` for the level `level` on `threads` threads, or no steps.
struct Explained {
  std::string level;
  int entry = 0;
  int threads = 1;
  std::vector<StepTime> steps = {};
};

/// Throws what read_graph throws.
EntryReport explain_entry(const std::vector<uint8_t>& artefact, const Explained& run, const targets::Target& target);

}  // namespace tw::artefact
