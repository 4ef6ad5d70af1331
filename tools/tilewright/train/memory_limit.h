// Training within so much memory: what does not fit is computed again instead of kept.
#pragma once
#include <cstdint>
#include <vector>

#include "driver/compile.h"
#include "train/training_graph.h"

namespace tw::cli {

/// Memory on the device: the states, and beside them what a run of each function takes, constants, inputs and outputs
/// with it; of a function with several entries the largest.
struct TrainingMemory {
  int64_t states = 0;
  std::vector<std::pair<std::string, int64_t>> functions;
  int64_t peak() const;
};
TrainingMemory memory_of(const driver::Compiled& compiled);

struct CompiledTraining {
  train::Training training;
  driver::Compiled compiled;
  double more_flop = 0;      // of the products of a step, as a share of those that it has when all is kept
  int64_t peak_of_kept = 0;  // forecast of the peak when all is kept; 0: there is no limit
};

/// Keeps all where `limit` is 0 or the peak is below it; else computes again as little as it takes, first what takes no
/// products. ResourceError with the least peak that was found where nothing fits.
CompiledTraining compile_within(int64_t limit, const std::vector<frontend::ImportResult>& models,
                                const train::TrainOptions& chosen, const driver::CompileOptions& options);

}  // namespace tw::cli
