#include "artefact/fitting_scale.h"

#include <algorithm>
#include <cmath>

#include "support/join.h"
#include "train/loss_scale.h"

namespace tw::artefact {
namespace {

bool is_finite(const Array& array) {
  return std::ranges::all_of(to_reference(array).floats, [](double x) { return std::isfinite(x); });
}

// Whether a run with `inputs` gives numbers, and its step is not left out. States are the last of inputs and outputs.
bool counts(const std::vector<Array>& inputs, Session& session, int64_t skipped) {
  const std::vector<Array> outputs = session.run(inputs);
  if (!std::ranges::all_of(outputs, is_finite)) return false;
  if (skipped < 0) return true;
  const auto behind = std::ssize(session.states()) - skipped;
  return inputs.end()[-behind].bytes == outputs.end()[-behind].bytes;
}

}  // namespace

std::vector<Array> with_fitting_scale(const std::vector<Array>& inputs, Session& session) {
  constexpr double kSmallest = 0x1p-24;
  const std::vector<NamedType> states = session.states();
  const int64_t scale = index_of(states, std::string(train::kLossScale), &NamedType::name);
  if (scale < 0) return inputs;
  const int64_t skipped =
      session.changes_states() ? index_of(states, std::string(train::kSkippedSteps), &NamedType::name) : -1;
  std::vector<Array> trial = inputs;
  Array& at = trial.end()[scale - std::ssize(states)];
  graph::RefTensor value = to_reference(at);
  for (; value.floats[0] >= kSmallest; value.floats[0] /= 2) {
    at = to_array(value);
    if (counts(trial, session, skipped)) return trial;
  }
  return inputs;
}

}  // namespace tw::artefact
