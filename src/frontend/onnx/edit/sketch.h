// Graphs as ONNX files to look at: what viewers such as Netron draw. They have no operators that ONNX knows.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/tensor_type.h"

namespace tw::frontend {

struct SketchNode {
  std::string name, kind;                    // the kind stands where operators have their type
  std::vector<std::string> inputs, outputs;  // names of values
  std::vector<std::pair<std::string, std::string>> facts = {};
};

struct SketchValue {
  std::string name;
  TensorType type;
};

struct Sketch {
  std::string name;
  std::vector<SketchNode> nodes;
  std::vector<SketchValue> inputs, outputs, inner;
};

/// A ModelProto with a node of domain "tilewright" for each node, its facts as metadata_props (IR version 10).
std::string onnx_bytes(const Sketch& sketch);

}  // namespace tw::frontend
