// What a compilation makes, stage by stage: lowered entries, their machine code, the artefact.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "driver/artefact/source.h"
#include "driver/code/generate.h"
#include "driver/code/group_code.h"
#include "driver/tune/profiling.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "runtime/format/container.h"
#include "runtime/format/manifest.h"
#include "support/large_array.h"

namespace tw::driver {

/// An entry after all that comes before code generation.
struct EntryCode {
  std::string function;                 // FunctionGraph::function
  std::vector<format::Extent> extents;  // FunctionGraph::extents
  plan::EntryPlan plan;
  graph::Graph ungrouped;  // the graph before groups were formed
  graph::Graph graph;      // of groups
  std::vector<GroupCode> groups;
  std::vector<int> program_of_group;                 // index in the ProgramSet, -1 for an alias
  std::map<graph::ValueId, graph::ValueId> aliases;  // as those of EntryGroups
  std::vector<EntryCode> bodies;                     // of its loops, in the order of their groups
};

/// All entries for one target.
struct LevelCode {
  std::string target;  // "cpu:x86-64-v4"
  std::vector<EntryCode> entries;
  Generated generated;  // of the loop programs that the entries share
  int64_t kernels = 0;  // different ones
};

struct Assembled {
  format::Manifest manifest;                   // targets, kernels and entries
  std::vector<std::vector<Layout>> layouts;    // of each entry's buffers in the weights, in their order
  std::map<std::string, LargeArray> sections;  // code or cubin.N, weights, graph.N
};

struct PassTime {
  std::string phase;
  std::string pass;
  int64_t nanoseconds = 0;
};

/// Kernels that write zeros behind channels, beside all.
struct Padding {
  int64_t kernels = 0;
  double us = 0, all_us = 0;  // measured, else predicted

  double share() const { return all_us > 0 ? us / all_us : 0; }
};

struct Compiled {
  format::Manifest manifest;
  std::map<std::string, LargeArray> sections;
  plan::Plan plan;
  Source source;  // without what a model file says
  std::vector<PassTime> times;
  int64_t kernels = 0;          // different ones
  int64_t winograd_groups = 0;  // of all entries: whose algorithm rounds more than its operator
  int64_t opset = 0;
  Padding padding;
  Profiling profiling;  // by this compilation: what was known already costs nothing
  std::vector<std::string> warnings;
  std::vector<std::string> external_files;  // that the model was read from besides its own, absolute paths
  bool complete = true;  // all was measured that should have been: the budget sufficed, nobody interrupted
};

}  // namespace tw::driver
