// Runs one case on one backend and says how it ended.
#pragma once
#include <string>

#include "tests/onnx/node_tests/backend.h"
#include "tests/onnx/node_tests/cases.h"

namespace tw::conformance {

enum class Verdict : uint8_t {
  kPassed,
  kRefused,  // a clean Unsupported or UserError
  kWrong,    // outputs differ
  kBroken,   // an internal error, a refusal that names no operator, a crash, a hang: never acceptable
  kNotRun,   // no time was left
  kNothing,  // it has nothing of what was asked for
};

struct Outcome {
  Verdict verdict = Verdict::kPassed;
  std::string reason = {};
  bool bound_constants = false;  // some inputs had to be bound at import, as --const does
  double milliseconds = 0;       // import, all data sets, comparison
};

/// What the inputs of a case are: the data of the test, whose outputs are known; or one value for all inputs of one
/// type, of which the reference evaluator says the outputs. Cases without two inputs of one type are kNothing then.
enum class Feed : uint8_t { kData, kOneValue };

/// Imports with the data set's input shapes; when operators need inputs at import, once more with those bound to the
/// test's own data. Then compares all outputs of all data sets.
Outcome run_case(const Case& test, Backend& backend, const graph::OpTable& ops, Feed feed = Feed::kData);

}  // namespace tw::conformance
