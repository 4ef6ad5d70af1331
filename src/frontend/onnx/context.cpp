#include "frontend/onnx/context.h"

#include <fmt/ranges.h>

#include "frontend/onnx/file/element_type.h"

namespace tw::frontend {

namespace {

std::string node_label(const onnx::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  for (const std::string& output : node.output()) {
    if (!output.empty()) return output;
  }
  return node.op_type();
}

}  // namespace

NodeContext::NodeContext(ModelImport& importer, const onnx::NodeProto& node, NameScope& scope, int64_t opset)
    : importer_(importer),
      node_(node),
      scope_(scope),
      opset_(opset),
      name_(node_label(node)),
      emitter_(importer.builder(), scope.prefix + name_) {}

ValueId NodeContext::input(size_t k) const {
  if (!has(k)) throw UserError("input {} is required", k);
  return inputs_[k];
}

std::vector<ValueId> NodeContext::all_inputs() const {
  if (inputs_.empty()) throw UserError("at least one input is required");
  for (size_t k = 0; k < inputs_.size(); ++k) (void)input(k);
  return inputs_;
}

TensorType NodeContext::type(size_t k) const { return importer_.builder().type(input(k)); }

const onnx::AttributeProto* NodeContext::find_attr(const std::string& key) const {
  used_.insert(key);
  for (const auto& attribute : node_.attribute()) {
    if (attribute.name() != key) continue;
    if (attribute.ref_attr_name().empty()) return &attribute;
    return value_or(scope_.attributes, attribute.ref_attr_name(), nullptr);
  }
  return nullptr;
}

const onnx::AttributeProto* NodeContext::find_attr(const std::string& key,
                                                   onnx::AttributeProto::AttributeType kind) const {
  const onnx::AttributeProto* attribute = find_attr(key);
  if (attribute == nullptr || attribute->type() == kind) return attribute;
  throw UserError("attribute '{}' is of kind {}, it must be {}", key,
                  onnx::AttributeProto::AttributeType_Name(attribute->type()),
                  onnx::AttributeProto::AttributeType_Name(kind));
}

const onnx::AttributeProto& NodeContext::required_attr(const std::string& key,
                                                       onnx::AttributeProto::AttributeType kind) const {
  const onnx::AttributeProto* attribute = find_attr(key, kind);
  if (attribute == nullptr) throw UserError("attribute '{}' is required", key);
  return *attribute;
}

int64_t NodeContext::int_attr(const std::string& key) const {
  return required_attr(key, onnx::AttributeProto::INT).i();
}

std::vector<int64_t> NodeContext::ints_attr(const std::string& key) const {
  const auto& list = required_attr(key, onnx::AttributeProto::INTS).ints();
  return {list.begin(), list.end()};
}

std::string NodeContext::string_attr(const std::string& key) const {
  return required_attr(key, onnx::AttributeProto::STRING).s();
}

const onnx::GraphProto& NodeContext::graph_attr(const std::string& key) const {
  return required_attr(key, onnx::AttributeProto::GRAPH).g();
}

double NodeContext::float_or(const std::string& key, double fallback) const {
  const auto* attribute = find_attr(key, onnx::AttributeProto::FLOAT);
  return attribute ? attribute->f() : fallback;
}

std::vector<double> NodeContext::floats_or(const std::string& key, const std::vector<double>& fallback) const {
  const auto* attribute = find_attr(key, onnx::AttributeProto::FLOATS);
  return attribute ? std::vector<double>(attribute->floats().begin(), attribute->floats().end()) : fallback;
}

std::vector<std::string> NodeContext::strings_or(const std::string& key,
                                                 const std::vector<std::string>& fallback) const {
  const auto* attribute = find_attr(key, onnx::AttributeProto::STRINGS);
  return attribute ? std::vector<std::string>(attribute->strings().begin(), attribute->strings().end()) : fallback;
}

const onnx::TensorProto* NodeContext::tensor_attr(const std::string& key) const {
  const auto* attribute = find_attr(key, onnx::AttributeProto::TENSOR);
  return attribute ? &attribute->t() : nullptr;
}

std::vector<std::string> NodeContext::unused_attrs() const {
  std::vector<std::string> unused;
  for (const auto& attribute : node_.attribute()) {
    // consumed_inputs of ONNX's first opsets says what may be overwritten: it has no effect on results.
    if (attribute.name() != "consumed_inputs" && used_.count(attribute.name()) == 0) unused.push_back(attribute.name());
  }
  return unused;
}

int64_t NodeContext::axis_or(const std::string& key, int64_t fallback, int64_t rank) const {
  return normalize_axis(int_or(key, fallback), rank, fmt::format("attribute '{}'", key));
}

std::string NodeContext::choice(const std::string& key, std::initializer_list<std::string_view> choices) const {
  std::string value = string_or(key, std::string(*choices.begin()));
  if (std::ranges::find(choices, value) == choices.end())
    throw UserError("attribute '{}' is '{}', it must be one of {}", key, value, fmt::join(choices, ", "));
  return value;
}

DataType NodeContext::type_or(const std::string& key, DataType fallback) const {
  const int64_t type = int_or(key, 0);
  return type == 0 ? fallback : element_type(static_cast<int32_t>(type), fmt::format("attribute '{}'", key));
}

bool NodeContext::is_constant(size_t k) const { return has(k) && importer_.builder().is_constant(inputs_[k]); }

graph::RefTensor NodeContext::constant(size_t k, std::string_view role) const {
  const ValueId id = input(k);
  GraphBuilder& builder = importer_.builder();
  if (builder.is_constant(id)) return builder.constant(id);
  const std::vector<std::string> inputs = builder.inputs_behind(id);
  if (inputs.empty()) return builder.evaluate(id);
  const auto options = mapped(inputs, [](const auto& name) { return fmt::format("--const {}=@file.npy", name); });
  throw ConstantNeeded(
      fmt::format("input '{}' must be known at compile time, but is computed from model input{} {}; bind with {}", role,
                  inputs.size() == 1 ? "" : "s", fmt::join(inputs, ", "), fmt::join(options, " ")),
      inputs);
}

std::vector<int64_t> NodeContext::const_ints(size_t k, std::string_view role) const {
  graph::RefTensor tensor = constant(k, role);
  if (tensor.is_float() || tensor.type.shape.size() > 1) {
    throw UserError("input '{}' is {}, it must be a list of integers", role, to_string(tensor.type));
  }
  return std::move(tensor.ints);
}

std::vector<double> NodeContext::const_floats(size_t k, std::string_view role) const {
  graph::RefTensor tensor = constant(k, role);
  if (!tensor.is_float() || tensor.type.shape.size() > 1) {
    throw UserError("input '{}' is {}, it must be a list of floats", role, to_string(tensor.type));
  }
  return std::move(tensor.floats);
}

int64_t NodeContext::const_int(size_t k, std::string_view role) const {
  const std::vector<int64_t> list = const_ints(k, role);
  if (list.size() != 1) throw UserError("input '{}' must hold one integer, it holds {}", role, list.size());
  return list[0];
}

double NodeContext::const_float(size_t k, std::string_view role) const {
  const graph::RefTensor tensor = constant(k, role);
  if (tensor.type.elements() != 1) {
    throw UserError("input '{}' is {}, it must hold one number", role, to_string(tensor.type));
  }
  return tensor.at(0);
}

Shape along_axis(int64_t rank, int64_t axis, int64_t extent) {
  Shape shape(rank, 1);
  shape[axis] = extent;
  return shape;
}

int64_t normalize_axis(int64_t axis, int64_t rank, std::string_view what) {
  if (axis < -rank || axis >= rank) {
    throw UserError("{} is {}, outside [{}, {}] for a tensor of rank {}", what, axis, -rank, rank - 1, rank);
  }
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> normalize_axes(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& axis : axes) axis = normalize_axis(axis, rank);
  std::ranges::sort(axes);
  if (std::ranges::adjacent_find(axes) != axes.end()) throw UserError("an axis repeats in [{}]", fmt::join(axes, ", "));
  return axes;
}

}  // namespace tw::frontend
