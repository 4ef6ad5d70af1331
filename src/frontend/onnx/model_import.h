// What converters ask of the import that they are part of.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontend/onnx/file/tensor_data.h"
#include "frontend/onnx/graph_builder.h"
#include "frontend/onnx/imported.h"
#include "frontend/onnx/loop_body.h"
#include "frontend/onnx/scope.h"

namespace onnx {
class GraphProto;
}

namespace tw::frontend {

class ModelImport {
 public:
  virtual ~ModelImport() = default;
  virtual GraphBuilder& builder() = 0;
  virtual const ExternalData& files() const = 0;
  virtual void warn(std::string text) = 0;
  /// The number of the next Dropout that is kept; nothing where none is.
  virtual std::optional<int64_t> next_dropout() = 0;
  virtual const ImportOptions& options() const = 0;
  /// Rows whose number comes out of a run. Unsupported in a loop's body.
  virtual void add_counted(const std::string& name, int64_t bound, graph::ValueId rows, graph::ValueId count) = 0;

  /// Imports a subgraph (branch or loop body) in `outer`, whose names it sees, with its inputs bound by position;
  /// values made inside are named `prefix`... Returns its outputs; throws BodyUnsupported when one could not be
  /// imported.
  virtual std::vector<graph::ValueId> import_body(const onnx::GraphProto& body, const NameScope& outer,
                                                  const std::vector<graph::ValueId>& inputs,
                                                  const std::string& prefix) = 0;

  /// The same into the graph of `loop`, where all `inputs` are values. Nothing where it cannot be one body for all
  /// turns, because an operator asks for what only some turn knows: then nothing is left of the attempt.
  virtual std::optional<std::vector<graph::ValueId>> import_turn(const onnx::GraphProto& body, const NameScope& outer,
                                                                 LoopBody& loop,
                                                                 const std::vector<graph::ValueId>& inputs,
                                                                 const std::string& prefix) = 0;
};

}  // namespace tw::frontend
