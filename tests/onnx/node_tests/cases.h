// The test cases of the onnx package: folders with a model and data sets, and the light models with one output file.
#pragma once
#include <string>
#include <vector>

#include "graph/ref_tensor.h"

namespace tw::conformance {

struct DataSet {
  std::vector<std::string> inputs, outputs;  // files, in the model's order
};

struct Case {
  std::string name;  // "node/test_abs"
  std::string model;
  std::vector<DataSet> data;
  bool ramp_input = false;  // no input files: each input is 0, 1/n, 2/n, ... (the package's own rule for light models)
};

/// All cases below `root` (the package's backend/test/data), by name.
std::vector<Case> find_cases(const std::string& root);

/// A TensorProto file. Throws UserError or Unsupported.
graph::RefTensor read_tensor_file(const std::string& path);

}  // namespace tw::conformance
