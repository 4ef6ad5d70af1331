// Walks a model: names and scopes, dead nodes, local functions, errors with their node, everything unsupported at once.
#pragma once
#include <onnx-ml.pb.h>

#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/file/tensor_data.h"
#include "frontend/onnx/graph_builder.h"
#include "frontend/onnx/imported.h"
#include "frontend/onnx/model_import.h"
#include "frontend/onnx/scope.h"
#include "frontend/onnx/shape_binding.h"

namespace tw::frontend {

class Importer : public ModelImport {
 public:
  Importer(const onnx::ModelProto& model, const std::string& base_directory, const graph::OpTable& ops,
           const ImportOptions& options);

  ImportResult run();

  GraphBuilder& builder() override { return *at_; }
  const ExternalData& files() const override { return files_; }
  void warn(std::string text) override;
  std::optional<int64_t> next_dropout() override;
  const ImportOptions& options() const override { return options_; }
  void add_counted(const std::string& name, int64_t bound, graph::ValueId rows, graph::ValueId count) override;

  std::vector<graph::ValueId> import_body(const onnx::GraphProto& body, const NameScope& outer,
                                          const std::vector<graph::ValueId>& inputs,
                                          const std::string& prefix) override;
  std::optional<std::vector<graph::ValueId>> import_turn(const onnx::GraphProto& body, const NameScope& outer,
                                                         LoopBody& loop, const std::vector<graph::ValueId>& inputs,
                                                         const std::string& prefix) override;

 private:
  using Names = std::unordered_set<std::string>;

  /// What an attempt that fails leaves as it was.
  struct Mark {
    GraphBuilder* at;
    std::set<const void*> visited;
    std::vector<UnsupportedItem> unsupported;
    std::vector<std::string> bindable, warnings;
    int64_t dropouts, nodes;
  };
  Mark mark() const;
  void return_to(const Mark& mark);
  std::vector<graph::ValueId> import_nodes_of(const onnx::GraphProto& body, const std::vector<graph::ValueId>& inputs,
                                              NameScope& scope);
  NameScope scope_of_body(const onnx::GraphProto& body, const NameScope& outer, const std::string& prefix);
  void read_opsets();
  void read_functions();
  void declare(const onnx::ValueInfoProto& value);
  void add_main_inputs(NameScope& scope);
  std::vector<TensorType> input_types_or_survey(const std::vector<const onnx::ValueInfoProto*>& inputs,
                                                const NameScope& main);
  void add_initializers(const onnx::GraphProto& graph, const Names& needed, NameScope& scope);
  TensorData initial_value(const onnx::TensorProto& tensor, const NameScope& scope) const;
  bool may_be_weight(const TensorType& type) const;
  void check_bounds() const;
  void find_weights(ImportResult& result) const;
  void import_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, Names needed, NameScope& scope);
  void import_node(const onnx::NodeProto& node, NameScope& scope);
  void convert(const onnx::NodeProto& node, NameScope& scope);
  Outputs convert_node(NodeContext& c);
  Outputs call_function(const onnx::FunctionProto& function, NodeContext& c);
  void define_outputs(const onnx::NodeProto& node, const Outputs& outputs, NameScope& scope, size_t first_new);
  void define(NameScope& scope, const std::string& name, Binding binding);
  /// The node's outputs stay unknown; what its subgraphs and its function would need is recorded nevertheless.
  void define_unsupported(const onnx::NodeProto& node, NameScope& scope);
  void survey_bodies(const onnx::NodeProto& node, const NameScope& scope);
  void survey(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, Names needed, const NameScope& scope);
  void check_declared(const std::string& name, graph::ValueId id);
  std::string maker_of(const std::string& name) const;
  std::vector<graph::ValueId> finish_outputs(const NameScope& scope);
  void record_unsupported(const onnx::NodeProto& node, const NameScope& scope, const std::string& reason);
  void record_unsupported_input(const std::string& name, const std::string& reason);
  const onnx::FunctionProto* find_function(const onnx::NodeProto& node) const;
  /// A converter or a function of the model takes the node.
  bool is_known(const onnx::NodeProto& node, const NameScope& scope) const;

  const onnx::ModelProto& model_;
  const ImportOptions& options_;
  ExternalData files_;
  GraphBuilder builder_;          // of the model
  GraphBuilder* at_ = &builder_;  // of what is being imported: the model, or a loop's body
  ShapeBinding binding_;
  Opsets opsets_;
  std::map<std::string, const onnx::FunctionProto*> functions_;  // by "domain:name:overload"
  std::map<const onnx::FunctionProto*, Opsets> function_opsets_;
  std::unordered_map<std::string, DeclaredType> declared_;  // value_info and outputs of the main graph
  std::set<const void*> visited_;                           // subgraphs and functions whose nodes were all looked at
  std::vector<UnsupportedItem> unsupported_;
  std::vector<std::string> bindable_;
  std::vector<std::string> warnings_;
  std::map<std::string, graph::ValueId> initializers_;  // of the main graph, those that are needed
  std::set<const onnx::GraphProto*> turns_differ_;      // bodies of loops that are no one body for all turns
  std::vector<CountedRows> counted_;
  std::vector<graph::ValueId> counts_;  // of each of `counted_`
  int64_t dropouts_ = 0;                // of training
  int64_t nodes_ = 0;                   // converted so far
};

/// Imports a model whose external data lies in `folder`, with the skeleton that is left of it.
ImportResult import_model(onnx::ModelProto model, const std::string& folder, const graph::OpTable& ops,
                          const ImportOptions& options);
/// The folder of the external data of the model file `path`.
std::string data_folder(const std::string& path);

// ---- What becomes of a model before it is walked (node_order.cpp, equal_parameters.cpp).

/// Sorts the nodes of the graph, of its subgraphs and of functions where one comes before what it reads; all others
/// keep their places. Returns a warning for each list that was sorted. UserError for nodes that need each other.
std::vector<std::string> sort_nodes(onnx::ModelProto& model);

/// torch's exporter writes one of several tensors of equal elements, the scales of fresh norms say, and the others as
/// its Identity; what a model really shares it reads by one name. Each such Identity of an f32 initializer of the main
/// graph becomes an initializer of its own name, with the same elements: training makes them differ. An initializer
/// that Identity nodes alone read is one that is shared, as other exporters write it, and stays so.
void part_equal_parameters(onnx::GraphProto& graph);

}  // namespace tw::frontend
