#include "tilewright/train/memory_limit.h"

#include <algorithm>
#include <optional>
#include <set>

#include "driver/forecast.h"
#include "ops/list.h"
#include "support/error.h"
#include "support/math.h"
#include "support/text.h"

namespace tw::cli {
namespace {

// From little to much: shares of the bytes that take no products, then results of products, too.
constexpr transform::Recompute kSteps[] = {{0, 1}, {0.25, 1}, {0.5, 1}, {0.75, 1}, {1, 1}, {1, 2},
                                           {1, 3}, {1, 4},    {1, 6},   {1, 8},    {1, 12}};

// Of the graph's inputs and outputs that are no states.
int64_t bytes_of_ends(const graph::Graph& graph, const std::set<std::string>& states) {
  int64_t bytes = 0;
  for (const auto* ids : {&graph.inputs, &graph.outputs}) {
    for (const graph::ValueId id : *ids) {
      if (!states.contains(graph.value(id).name)) bytes += graph.value(id).type.bytes();
    }
  }
  return bytes;
}

struct Predicted {
  int64_t peak = 0;
  double flop = 0;  // of the first step
};

Predicted predict(const train::Training& training, const driver::CompileOptions& options) {
  std::set<std::string> names;
  int64_t states = 0;
  const graph::Graph& step = training.functions.front().graph;  // which has all of them
  for (const driver::StatePair& state : training.states) {
    names.insert({state.input, state.output});
    states += round_up(step.value(step.find_value(state.input)).type.bytes(), format::State::kAlignment);
  }
  Predicted out;
  for (const driver::FunctionGraph& f : training.functions) {
    if (f.function == "eval") continue;  // has no backward pass
    const driver::Forecast forecast = driver::forecast(f.graph, options);
    out.peak =
        std::max(out.peak, states + bytes_of_ends(f.graph, names) + forecast.constant_bytes + forecast.arena_bytes);
    if (out.flop == 0) out.flop = forecast.flop;
  }
  return out;
}

std::string bytes_text(int64_t bytes) { return size_text(static_cast<double>(bytes)); }

}  // namespace

int64_t TrainingMemory::peak() const {
  int64_t most = 0;
  for (const auto& [name, bytes] : functions) most = std::max(most, bytes);
  return states + most;
}

TrainingMemory memory_of(const driver::Compiled& compiled) {
  const format::Manifest& manifest = compiled.manifest;
  const auto weights = compiled.sections.find("weights");
  const int64_t constants = weights == compiled.sections.end() ? 0 : static_cast<int64_t>(weights->second.size());
  TrainingMemory out{manifest.state_bytes(), {}};
  for (const format::Entry& entry : manifest.entries) {
    int64_t bytes = constants + entry.arena_bytes;
    for (const auto* specs : {&entry.inputs, &entry.outputs}) {
      for (const format::TensorSpec& spec : *specs) bytes += format::tensor_bytes(spec);
    }
    auto found = std::ranges::find(out.functions, entry.function, [](const auto& f) { return f.first; });
    if (found == out.functions.end()) found = out.functions.insert(found, {entry.function, 0});
    found->second = std::max(found->second, bytes);
  }
  return out;
}

CompiledTraining compile_within(int64_t limit, const std::vector<frontend::ImportResult>& models,
                                const train::TrainOptions& chosen, const driver::CompileOptions& options) {
  train::TrainOptions own = chosen;
  driver::CompileOptions compile = options;
  std::optional<Predicted> kept;
  int64_t least = 0;
  for (const transform::Recompute& step : kSteps) {
    own.recompute = step;
    train::Training training = train::make_training(models, ops::all_ops(), own);
    compile.states = training.states;
    if (limit == 0) return {training, driver::compile_functions(training.functions, compile)};
    const Predicted predicted = predict(training, compile);
    if (!kept) kept = predicted;
    int64_t peak = predicted.peak;
    if (peak <= limit) {
      driver::Compiled compiled = driver::compile_functions(training.functions, compile);
      peak = std::max(peak, memory_of(compiled).peak());
      const double more = kept->flop > 0 ? predicted.flop / kept->flop - 1 : 0;
      if (peak <= limit) return {std::move(training), std::move(compiled), more, kept->peak};
    }
    least = least == 0 ? peak : std::min(least, peak);
  }
  throw ResourceError(
      "--memory-limit {}: training takes {} when all that can be is computed again, {} when all is kept: give it a "
      "smaller batch (--shape, --dim; --accumulate adds up several), or --dtype bf16",
      bytes_text(limit), bytes_text(least), bytes_text(kept->peak));
}

}  // namespace tw::cli
