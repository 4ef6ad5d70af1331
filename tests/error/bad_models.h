// Models that cannot be imported, each with the message its user reads; one table for each family.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "frontend/onnx/import.h"
#include "tests/onnx/model_builder.h"

namespace tw::frontend::test {

using testing::ModelBuilder;
using testing::set_int;
using testing::set_ints;

enum class Kind : uint8_t { kUser, kUnsupported };

struct BadModel {
  const char* name;
  Kind kind;
  std::vector<const char*> says;  // parts of the message
  std::function<void(ModelBuilder&, ImportOptions&)> build;
  int64_t opset = 17;
};

std::span<const BadModel> bad_graphs();
std::span<const BadModel> bad_bindings();
std::span<const BadModel> bad_nodes();
std::span<const BadModel> bad_values();

/// One node with inputs x f32[2, 3] and `more`, and output y.
inline onnx::NodeProto& simple(ModelBuilder& m, const std::string& op, const std::vector<std::string>& more = {}) {
  m.input("x", {int64_t{2}, int64_t{3}}).output("y");
  std::vector<std::string> inputs{"x"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return m.node(op, inputs, {"y"});
}

}  // namespace tw::frontend::test
