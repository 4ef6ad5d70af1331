#include "frontend/onnx/shape_binding.h"

#include <onnx-ml.pb.h>

#include <algorithm>
#include <cctype>

#include "frontend/onnx/file/element_type.h"
#include "frontend/onnx/file/tensor_data.h"
#include "frontend/onnx/limits.h"
#include "support/join.h"
#include "support/text.h"

namespace tw::frontend {
namespace {

constexpr int64_t kUnknown = -1;           // some exporters write it as the extent, too
constexpr std::string_view kNoName = "?";  // what some exporters call every unknown dimension, equal or not

const char* kind_of(const onnx::TypeProto& type) {
  static const std::map<int, const char*> kKinds = {{onnx::TypeProto::kSequenceType, "a sequence"},
                                                    {onnx::TypeProto::kMapType, "a map"},
                                                    {onnx::TypeProto::kOptionalType, "an optional"},
                                                    {onnx::TypeProto::kSparseTensorType, "a sparse tensor"},
                                                    {onnx::TypeProto::kOpaqueType, "opaque"}};
  return value_or(kKinds, type.value_case(), "of no type");
}

// "f32[batch,3,?,224]", as the model declares it.
std::string to_string(const DeclaredType& declared) {
  if (!declared.dims) return tw::to_string(declared.type) + "[unknown rank]";
  std::vector<std::string> parts;
  for (size_t d = 0; d < declared.dims->size(); ++d) {
    const int64_t extent = (*declared.dims)[d];
    parts.push_back(extent >= 0 ? std::to_string(extent) : declared.symbols[d].empty() ? "?" : declared.symbols[d]);
  }
  return fmt::format("{}[{}]", tw::to_string(declared.type), fmt::join(parts, ","));
}

// A size that such dimensions often have: by name, else by place in [batch, channels, height, width] or [batch,
// length].
int64_t example_extent(const DeclaredType& declared, size_t d) {
  constexpr std::pair<std::string_view, int64_t> kNames[] = {
      {"batch", 1},  {"height", 224}, {"width", 224},    {"channel", 3}, {"seq", 128}, {"len", 128}, {"token", 128},
      {"time", 128}, {"frame", 128},  {"sample", 16000}, {"h", 224},     {"w", 224},   {"t", 128},   {"l", 128}};
  std::string name = declared.symbols[d];
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& [part, extent] : kNames) {
    if (part.size() == 1 ? name == part : name.find(part) != std::string::npos) return extent;
  }
  if (d == 0) return 1;
  if (declared.dims->size() < 4) return 128;
  return d == 1 ? 3 : 224;
}

std::string shape_option(const std::string& name, const Shape& shape) {
  return fmt::format("--shape {}:{}", name, fmt::join(shape, "x"));
}

}  // namespace

DeclaredType declared_type(const onnx::ValueInfoProto& value) {
  const std::string what = fmt::format("value '{}'", value.name());
  if (!value.type().has_tensor_type()) {
    throw Unsupported("{} is {}; only dense tensors are supported", what, kind_of(value.type()));
  }
  const auto& tensor = value.type().tensor_type();
  DeclaredType result{.type = element_type(tensor.elem_type(), what), .dims = {}, .symbols = {}};
  if (!tensor.has_shape()) return result;
  result.dims.emplace();
  for (const auto& dim : tensor.shape().dim()) {
    if (dim.has_dim_value() && (dim.dim_value() < kUnknown || dim.dim_value() > kMaxElements)) {
      throw UserError("{} has a dimension of {}", what, dim.dim_value());
    }
    result.dims->push_back(dim.has_dim_value() ? dim.dim_value() : kUnknown);
    result.symbols.push_back(dim.has_dim_param() && dim.dim_param() != kNoName ? dim.dim_param() : "");
  }
  return result;
}

std::string describe_type(const onnx::ValueInfoProto& value) {
  try {
    return to_string(declared_type(value));
  } catch (const Unsupported&) {
    if (!value.type().has_tensor_type()) return kind_of(value.type());
    return onnx_type_name(value.type().tensor_type().elem_type());
  } catch (const UserError& e) {
    return e.what();
  }
}

bool is_open(const onnx::ValueInfoProto& value) {
  const auto& type = value.type();
  if (!type.has_tensor_type()) return false;
  const auto& dims = type.tensor_type().shape().dim();
  return !type.tensor_type().has_shape() ||
         std::ranges::any_of(dims, [](const auto& dim) { return !dim.has_dim_value() || dim.dim_value() < 0; });
}

void ShapeBinding::add_inputs(const std::vector<const onnx::ValueInfoProto*>& inputs) {
  for (const auto* input : inputs) inputs_.push_back({input->name(), declared_type(*input)});
  for (const Input& input : inputs_) {
    if (const auto it = options_.shapes.find(input.name); it != options_.shapes.end()) {
      bind(input, it->second, shape_option(input.name, it->second));
    }
    if (const auto it = options_.constants.find(input.name); it != options_.constants.end()) {
      const TensorType& given = it->second.type;
      if (given.type != input.declared.type) {
        throw UserError("--const {}: the tensor is {}, the model's input is {}", input.name, tw::to_string(given),
                        to_string(input.declared));
      }
      bind(input, given.shape, fmt::format("--const {} with shape {}", input.name, tw::to_string(given.shape)));
    }
  }
  check_options_used();
}

void ShapeBinding::bind(const Input& input, const Shape& shape, std::string_view option) {
  check_extents(shape, option);
  const DeclaredType& declared = input.declared;
  const auto contradict = [&](std::string_view why) {
    throw ShapeContradiction(
        fmt::format("{} contradicts the model: input '{}' is {}{}", option, input.name, to_string(declared), why),
        input.name, shape, declared);
  };
  if (!declared.dims) return;
  if (declared.dims->size() != shape.size()) contradict("");
  for (size_t d = 0; d < shape.size(); ++d) {
    if ((*declared.dims)[d] >= 0 && (*declared.dims)[d] != shape[d]) contradict("");
    const std::string& symbol = declared.symbols[d];
    if (symbol.empty()) continue;
    const auto [it, added] = symbols_.emplace(symbol, shape[d]);
    if (it->second != shape[d]) contradict(fmt::format(", and {} is already {}", symbol, it->second));
  }
}

void ShapeBinding::check_options_used() const {
  const std::vector<std::string> names = mapped(inputs_, &Input::name);
  const auto check_input = [&](std::string_view option, const std::string& name) {
    if (std::ranges::find(names, name) != names.end()) return;
    throw UserError("{} {}: the model has no such input{}", option, name, suggestion_or_all(name, names));
  };
  for (const auto& [name, shape] : options_.shapes) check_input("--shape", name);
  for (const auto& [name, tensor] : options_.constants) check_input("--const", name);
  std::vector<std::string> known;
  for (const Input& input : inputs_) {
    for (const std::string& symbol : input.declared.symbols) {
      if (!symbol.empty()) known.push_back(symbol);
    }
  }
  std::ranges::sort(known);
  known.erase(std::unique(known.begin(), known.end()), known.end());
  for (const auto& [name, value] : options_.dims) {
    if (value < 1)
      throw UsageError("--dim {}={}: a dimension is 1 or more; a tensor without elements computes nothing", name,
                       value);
    if (std::ranges::find(known, name) != known.end()) continue;
    throw UserError("--dim {}={}: no input has a dimension of that name{}", name, value,
                    suggestion_or_all(name, known));
  }
}

int64_t ShapeBinding::extent(const DeclaredType& declared, size_t d) const {
  const int64_t fixed = (*declared.dims)[d];
  if (fixed >= 0 || declared.symbols[d].empty()) return fixed;
  return value_or(symbols_, declared.symbols[d], -1);
}

std::vector<TensorType> ShapeBinding::input_types() const {
  std::vector<TensorType> types;
  std::string unbound, several;
  for (const Input& input : inputs_) {
    TensorType type{input.declared.type, {}};
    const auto given = options_.shapes.find(input.name);
    const auto constant = options_.constants.find(input.name);
    if (given != options_.shapes.end()) {
      type.shape = given->second;
    } else if (constant != options_.constants.end()) {
      type.shape = constant->second.type.shape;
    } else if (!input.declared.dims) {
      unbound += fmt::format("\n  input '{}' has no shape: give --shape {}:1x3x224x224 (an example: choose your sizes)",
                             input.name, input.name);
    } else {
      std::string dims;
      Shape example;
      bool has_nameless = false;
      for (size_t d = 0; d < input.declared.dims->size(); ++d) {
        const int64_t known = extent(input.declared, d);
        type.shape.push_back(known);
        example.push_back(known < 0 ? example_extent(input.declared, d) : known);
        has_nameless = has_nameless || (known < 0 && input.declared.symbols[d].empty());
        if (const std::string& symbol = input.declared.symbols[d]; known < 0 && !symbol.empty()) {
          dims += fmt::format("--dim {}={} ", symbol, example[d]);
          const int64_t least = std::max<int64_t>(example[d] / 4, 1);
          several = fmt::format("\nseveral sizes go into one artefact: --dim {}={},{},{}", symbol, least, 2 * least,
                                4 * least);
        }
      }
      if (has_nameless) dims.clear();  // no --dim says those
      if (example != type.shape) {
        unbound +=
            fmt::format("\n  input '{}' is {}: give {}{}{} (examples: choose your sizes)", input.name,
                        to_string(input.declared), dims, dims.empty() ? "" : "or ", shape_option(input.name, example));
      }
    }
    types.push_back(std::move(type));
  }
  if (!unbound.empty()) throw UserError("every dimension must be known at compile time:" + unbound + several);
  for (size_t i = 0; i < types.size(); ++i) check_extents(types[i].shape, fmt::format("input '{}'", inputs_[i].name));
  return types;
}

std::string ShapeBinding::disagreement(const DeclaredType& declared, const TensorType& actual) const {
  bool fits = !declared.dims || declared.dims->size() == actual.shape.size();
  for (size_t d = 0; fits && declared.dims && d < actual.shape.size(); ++d) {
    const int64_t wanted = extent(declared, d);
    fits = wanted < 0 || wanted == actual.shape[d];
  }
  if (declared.type == actual.type && fits) return {};
  return fmt::format("the model declares {}, its inputs give {}", to_string(declared), tw::to_string(actual));
}

}  // namespace tw::frontend
