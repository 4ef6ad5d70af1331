#include "frontend/onnx/edit/editable_model.h"

#include <onnx-ml.pb.h>

#include <algorithm>
#include <cmath>

#include "frontend/onnx/edit/activations.h"
#include "frontend/onnx/edit/main_graph.h"
#include "frontend/onnx/file/model_file.h"
#include "frontend/onnx/file/skeleton.h"
#include "frontend/onnx/importer.h"
#include "support/random.h"

namespace tw::frontend {
namespace {

// Seeded numbers, another row of them for each name.
class Draw {
 public:
  Draw(uint64_t seed, std::string_view name) : state_(split_mix(seed)) {
    for (const char c : name) state_ = split_mix(state_ ^ static_cast<uint8_t>(c)) + kSplitMixStep;
  }
  /// Uniform in [0, 1).
  double number() { return static_cast<double>(split_mix(state_ += kSplitMixStep) >> 11) * 0x1p-53; }
  int64_t below(int64_t count) { return static_cast<int64_t>(number() * static_cast<double>(count)); }

 private:
  uint64_t state_;
};

onnx::AttributeProto float_attribute(std::string_view name, double value) {
  onnx::AttributeProto attribute;
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(static_cast<float>(value));
  return attribute;
}

void set_int(onnx::NodeProto& node, const std::string& name, int64_t value) {
  auto& all = *node.mutable_attribute();
  const auto found = std::ranges::find(all, name, [](const onnx::AttributeProto& a) { return a.name(); });
  onnx::AttributeProto& attribute = found != all.end() ? *found : *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

const ActivationForm& form_of(const std::string& activation) {
  const auto forms = activation_forms();
  const auto found = std::ranges::find(forms, activation, &ActivationForm::name);
  TW_CHECK(found != forms.end(), "no activation '{}'", activation);
  return *found;
}

// Does rewrites, one after the other.
class Rewriter {
 public:
  Rewriter(onnx::GraphProto& graph, const ExternalData& files, uint64_t seed)
      : message_(graph), graph_(graph), files_(files), seed_(seed) {}

  void apply(const Rewrite& rewrite) {
    switch (rewrite.kind) {
      case Rewrite::Kind::kActivation:
        return replace_activation(rewrite);
      case Rewrite::Kind::kExtent:
        return set_extent(rewrite);
      case Rewrite::Kind::kGroup:
        return set_int(graph_.node(graph_.writer(rewrite.target)), "group", rewrite.extent);
      case Rewrite::Kind::kPointwise:
        return add_pointwise(rewrite);
    }
  }
  void finish() { graph_.finish(); }

 private:
  std::string operand(const Rewrite& rewrite, const ActivationStep::Operand& operand,
                      const std::vector<std::string>& steps) {
    using Kind = ActivationStep::Operand::Kind;
    if (operand.kind == Kind::kSource) return rewrite.source;
    if (operand.kind == Kind::kStep) return steps.at(static_cast<size_t>(operand.step));
    graph::RefTensor number = graph::RefTensor::zeros({rewrite.type.type, {}});
    number.floats = {operand.number};
    return graph_.add_initializer(rewrite.target + ".number", number.type, number.to_bytes());
  }

  void replace_activation(const Rewrite& rewrite) {
    const size_t writer = graph_.writer(rewrite.target);
    graph_.free_name_of(rewrite.target);
    const ActivationForm& form = form_of(rewrite.activation);
    std::vector<onnx::NodeProto> nodes;
    std::vector<std::string> results;
    for (const ActivationStep& step : form.steps) {
      onnx::NodeProto node;
      node.set_op_type(std::string(step.op));
      node.set_name(graph_.unique(fmt::format("{}.{}", rewrite.target, rewrite.activation)));
      for (const auto& o : step.operands) node.add_input(operand(rewrite, o, results));
      for (const auto& a : step.attributes) *node.add_attribute() = float_attribute(a.name, a.value);
      const bool is_last = results.size() + 1 == form.steps.size();
      results.push_back(is_last ? rewrite.target : graph_.unique(node.name() + ".value"));
      node.add_output(results.back());
      nodes.push_back(std::move(node));
    }
    graph_.insert_behind(writer, nodes);
  }

  void add_pointwise(const Rewrite& rewrite) {
    const std::vector<size_t> activation = graph_.between(rewrite.source, rewrite.target);
    std::vector<onnx::NodeProto> nodes(1);
    for (const size_t n : activation) nodes.push_back(graph_.node(n));
    const size_t writer = graph_.writer(rewrite.target);
    const std::string before = graph_.free_name_of(rewrite.target);
    onnx::NodeProto& conv = nodes.front();
    conv.set_op_type("Conv");
    conv.set_name(graph_.unique(rewrite.target + ".pointwise"));
    conv.add_input(before);
    conv.add_input(add_filters(rewrite));
    conv.add_input(add_bias(rewrite));
    conv.add_output(graph_.unique(conv.name() + ".value"));
    std::map<std::string, std::string> renamed = {{rewrite.source, conv.output(0)}, {rewrite.target, rewrite.target}};
    for (size_t n = 1; n < nodes.size(); ++n) rename(nodes[n], renamed);
    graph_.insert_behind(writer, nodes);
  }

  // A copy of a node: what it computes has other names, `renamed` says which.
  void rename(onnx::NodeProto& node, std::map<std::string, std::string>& renamed) {
    node.set_name(graph_.unique(node.name() + ".again"));
    for (std::string& input : *node.mutable_input()) {
      if (const auto found = renamed.find(input); found != renamed.end()) input = found->second;
    }
    for (std::string& output : *node.mutable_output()) {
      const auto [known, fresh] = renamed.try_emplace(output);
      if (fresh) known->second = graph_.unique(output + ".again");
      output = known->second;
    }
  }

  std::string add_filters(const Rewrite& rewrite) {
    graph::RefTensor filters = graph::RefTensor::zeros(rewrite.type);
    const double bound = std::sqrt(6.0 / static_cast<double>(rewrite.type.shape.at(1)));
    Draw draw(seed_, rewrite.target);
    for (double& w : filters.floats) w = (2 * draw.number() - 1) * bound;
    return graph_.add_initializer(rewrite.target + ".pointwise.weight", filters.type, filters.to_bytes());
  }

  std::string add_bias(const Rewrite& rewrite) {
    const graph::RefTensor zeros = graph::RefTensor::zeros({rewrite.type.type, {rewrite.type.shape.at(0)}});
    return graph_.add_initializer(rewrite.target + ".pointwise.bias", zeros.type, zeros.to_bytes());
  }

  // The tensors of one axis of channels copy the same elements: statistics stay with what they are of.
  void set_extent(const Rewrite& rewrite) {
    onnx::TensorProto& tensor = graph_.initializer(rewrite.target);
    const TensorData old = read_tensor(tensor, files_);
    TensorType type = old.type;
    const auto axis = static_cast<size_t>(rewrite.axis);
    const int64_t count = std::exchange(type.shape.at(axis), rewrite.extent);
    const int64_t slice = num_elements({type.shape.begin() + rewrite.axis + 1, type.shape.end()}) * type.type.bytes();
    const int64_t outer = num_elements({type.shape.begin(), type.shape.begin() + rewrite.axis});
    std::vector<int64_t> from(static_cast<size_t>(rewrite.extent));
    Draw draw(seed_, fmt::format("{} {}", count, rewrite.extent));
    for (int64_t i = 0; i < rewrite.extent; ++i) from[static_cast<size_t>(i)] = i < count ? i : draw.below(count);
    std::string bytes(static_cast<size_t>(type.bytes()), '\0');
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < (rewrite.is_read ? count : rewrite.extent); ++i) {
        const auto* const source = old.bytes->data() + (o * count + from[static_cast<size_t>(i)]) * slice;
        std::copy_n(reinterpret_cast<const char*>(source), slice, bytes.data() + (o * rewrite.extent + i) * slice);
      }
    }
    replace_elements(tensor, type, std::move(bytes));
  }

  void replace_elements(onnx::TensorProto& tensor, const TensorType& type, std::string bytes) {
    onnx::TensorProto changed;
    changed.set_name(tensor.name());
    changed.set_data_type(tensor.data_type());
    for (const int64_t extent : type.shape) changed.add_dims(extent);
    changed.set_raw_data(std::move(bytes));
    tensor = std::move(changed);
    for (auto& input : *message_.mutable_input()) {  // where initializers are inputs, too
      if (input.name() != tensor.name()) continue;
      auto& shape = *input.mutable_type()->mutable_tensor_type()->mutable_shape();
      shape.clear_dim();
      for (const int64_t extent : type.shape) shape.add_dim()->set_dim_value(extent);
    }
  }

  onnx::GraphProto& message_;
  MainGraph graph_;
  const ExternalData& files_;
  uint64_t seed_;
};

}  // namespace

EditableModel::EditableModel(std::shared_ptr<const onnx::ModelProto> model, std::string folder,
                             std::vector<std::string> link_folders)
    : model_(std::move(model)), folder_(std::move(folder)), link_folders_(std::move(link_folders)) {}

EditableModel EditableModel::read(const std::string& path, std::vector<std::string> link_folders) {
  return {std::make_shared<const onnx::ModelProto>(read_model(path)), data_folder(path), std::move(link_folders)};
}

EditableModel EditableModel::with(std::span<const Rewrite> rewrites, uint64_t seed) const {
  auto changed = std::make_shared<onnx::ModelProto>(*model_);
  const ExternalData files(folder_, link_folders_);
  Rewriter rewriter(*changed->mutable_graph(), files, seed);
  for (const Rewrite& rewrite : rewrites) rewriter.apply(rewrite);
  rewriter.finish();
  return {std::move(changed), folder_, link_folders_};
}

ImportResult EditableModel::import(const graph::OpTable& ops, const ImportOptions& options) const {
  return import_model(*model_, folder_, ops, options);
}

EditableModel EditableModel::with_own_parameters() const {
  auto changed = std::make_shared<onnx::ModelProto>(*model_);
  part_equal_parameters(*changed->mutable_graph());
  return {std::move(changed), folder_, link_folders_};
}

int64_t EditableModel::opset() const {
  int64_t version = 1;
  for (const auto& opset : model_->opset_import()) {
    if (canonical_domain(opset.domain()).empty()) version = opset.version();
  }
  return version;
}

bool EditableModel::has_initializer(const std::string& name) const {
  return std::ranges::any_of(model_->graph().initializer(), [&](const auto& t) { return t.name() == name; });
}

std::map<std::string, TensorType> EditableModel::initializers() const {
  std::map<std::string, TensorType> types;
  for (const auto& tensor : model_->graph().initializer()) {
    if (is_supported(tensor)) types.emplace(tensor.name(), tensor_type(tensor));
  }
  return types;
}

EditableModel EditableModel::with_weights(const Weights& weights) const {
  auto changed = std::make_shared<onnx::ModelProto>(*model_);
  for (onnx::TensorProto& tensor : *changed->mutable_graph()->mutable_initializer()) {
    const auto weight = weights.find(tensor.name());
    if (weight == weights.end()) continue;
    TW_CHECK(tensor_type(tensor) == weight->second.type, "the weight '{}' has another type", tensor.name());
    onnx::TensorProto elements;
    elements.set_name(tensor.name());
    elements.set_doc_string(tensor.doc_string());
    elements.set_data_type(tensor.data_type());
    *elements.mutable_dims() = tensor.dims();
    elements.set_raw_data(weight->second.bytes->data(), weight->second.bytes->size());
    tensor = std::move(elements);
  }
  return {std::move(changed), folder_, link_folders_};
}

std::string EditableModel::bytes() const {
  onnx::ModelProto whole = *model_;
  std::set<std::string> all;
  for (const auto& tensor : whole.graph().initializer()) all.insert(tensor.name());
  std::string bytes = take_skeleton(whole, {}, all, ExternalData(folder_, link_folders_));
  if (bytes.empty()) throw ResourceError("the changed model has more than 2 GiB: a model file cannot hold it");
  return bytes;
}

}  // namespace tw::frontend
