#include "runtime/tensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tw::runtime {
namespace {

using format::ErrorCode;
using format::TensorSpec;

/// Names a tensor in messages; made only when there is something to say.
struct Which {
  const char* role;
  const TensorSpec* spec;
};

template <typename... Parts>
[[noreturn]] void refuse(const Which& which, const Parts&... parts) {
  format::fail(ErrorCode::kInvalidArgument, which.role, " '", which.spec->name, "' ", parts...);
}

using Json = nlohmann::json;

std::vector<int64_t> shape_of(const DLTensor& tensor) {
  if (tensor.shape == nullptr || tensor.ndim < 0) return {};
  return {tensor.shape, tensor.shape + tensor.ndim};
}

/// What TwApi::status_details says where shapes are at fault.
std::string shape_details(Json given, Json compiled) {
  const Json details = {{"given", std::move(given)}, {"compiled", std::move(compiled)}};
  return details.dump(-1, ' ', false, Json::error_handler_t::replace);  // names in models need not be UTF-8
}

/// The same as `refuse` where the tensor's shape is what is wrong with it.
template <typename... Parts>
[[noreturn]] void refuse_shape(const Which& which, const DLTensor& tensor, const Parts&... parts) {
  const std::string& name = which.spec->name;
  throw format::Error(ErrorCode::kInvalidArgument, format::join(which.role, " '", name, "' ", parts...),
                      shape_details({{name, shape_of(tensor)}}, Json::array({{{name, which.spec->shape}}})));
}

std::string type_text(DLDataType type) {
  constexpr format::DataType kLast = format::DataType::kF64;
  for (int i = 0; i <= static_cast<int>(kLast); ++i) {
    const auto candidate = static_cast<format::DataType>(i);
    const DLDataType known = to_dlpack(candidate);
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1) return std::string(name_of(candidate));
  }
  return format::join("DLPack type (code ", int{type.code}, ", bits ", int{type.bits}, ", lanes ", int{type.lanes},
                      ")");
}

std::string shape_text(const DLTensor& tensor) { return format::shape_text(shape_of(tensor)); }

void check_type_and_rank(const Which& which, const DLTensor& tensor) {
  const DLDataType type = to_dlpack(which.spec->dtype);
  if (tensor.dtype.code != type.code || tensor.dtype.bits != type.bits || tensor.dtype.lanes != 1) {
    refuse(which, "is ", type_text(tensor.dtype), ", the model wants ", name_of(which.spec->dtype));
  }
  const auto rank = static_cast<int32_t>(which.spec->shape.size());
  if (tensor.ndim != rank) refuse_shape(which, tensor, "has ", tensor.ndim, " dimensions, the model wants ", rank);
  if (rank > 0 && tensor.shape == nullptr) refuse(which, "has no shape array");
}

bool is_compact(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

uintptr_t address(const DLTensor& tensor) { return reinterpret_cast<uintptr_t>(address_of(tensor)); }

/// What is left to check of a tensor of the right shape.
void check_memory(const Which& which, const DeviceModel& device, const DLTensor& tensor) {
  if (!is_compact(tensor)) refuse(which, "is strided: pass a contiguous (row-major) copy");
  if (!device.accepts(tensor.device)) {
    refuse(which, "is on DLPack device type ", static_cast<int>(tensor.device.device_type), " number ",
           tensor.device.device_id, ", which this model cannot use");
  }
  if (format::tensor_bytes(*which.spec) == 0) return;
  if (tensor.data == nullptr) refuse(which, "has no data");
  const auto alignment = static_cast<uintptr_t>(format::bytes_of(which.spec->dtype));
  if (address(tensor) % alignment != 0) refuse(which, "is not aligned to its ", alignment, "-byte elements");
}

struct Region {
  uintptr_t begin, end;
};

bool overlap(Region a, Region b) { return a.begin < a.end && b.begin < b.end && a.begin < b.end && b.begin < a.end; }

Region region_of(const EntryShapes& shapes, TensorRole role, size_t index, const DLTensor* tensors) {
  const uintptr_t begin = address(tensors[index]);
  return {begin, begin + static_cast<uintptr_t>(shapes.bytes(role, index))};
}

void check_overlaps(const EntryShapes& shapes, const DLTensor* inputs, const DLTensor* outputs) {
  const format::Entry& entry = shapes.entry();
  for (size_t i = 0; i < entry.outputs.size(); ++i) {
    const Which output{"output", &entry.outputs[i]};
    const Region own = region_of(shapes, TensorRole::kOutput, i, outputs);
    for (size_t j = 0; j < entry.inputs.size(); ++j) {
      if (overlap(own, region_of(shapes, TensorRole::kInput, j, inputs)))
        refuse(output, "overlaps input '", entry.inputs[j].name, "'");
    }
    for (size_t j = 0; j < i; ++j) {
      if (overlap(own, region_of(shapes, TensorRole::kOutput, j, outputs)))
        refuse(output, "overlaps output '", entry.outputs[j].name, "'");
    }
  }
}

void check_shape(const EntryShapes& shapes, TensorRole role, size_t index, const DLTensor& tensor) {
  if (shapes.has_shape(role, index, tensor)) return;
  const bool is_input = role == TensorRole::kInput;
  const Which which{is_input ? "input" : "output", &(is_input ? shapes.entry().inputs : shapes.entry().outputs)[index]};
  refuse_shape(which, tensor, "has shape ", shape_text(tensor), ", wanted is ",
               format::shape_text(shapes.shape(role, index)));
}

std::string names_of(const std::vector<TensorSpec>& specs) {
  std::string text;
  for (const TensorSpec& spec : specs) text += (text.empty() ? "" : ", ") + spec.name;
  return text.empty() ? "none" : text;
}

std::string shapes_of(const format::Entry& entry) {
  std::string text;
  for (size_t i = 0; i < entry.inputs.size(); ++i) text += (i == 0 ? "" : " ") + shapes_text(entry, i);
  return text;
}

std::string details_of(Entries entries, const DLTensor* inputs) {
  Json given = Json::object(), compiled = Json::array();
  for (const format::Entry& entry : entries) {
    Json shapes = Json::object();
    for (const TensorSpec& spec : entry.inputs) shapes[spec.name] = spec.shape;
    compiled.push_back(std::move(shapes));
  }
  const auto& specs = entries.front().inputs;
  for (size_t i = 0; i < specs.size(); ++i) given[specs[i].name] = shape_of(inputs[i]);
  return shape_details(std::move(given), std::move(compiled));
}

[[noreturn]] void fail_no_such_shape(Entries entries, const DLTensor* inputs) {
  std::string given, compiled;
  const auto& specs = entries.front().inputs;
  for (size_t i = 0; i < specs.size(); ++i) given += (i == 0 ? "" : " ") + specs[i].name + shape_text(inputs[i]);
  constexpr size_t kMaxListed = 32;
  for (size_t i = 0; i < std::min(entries.size(), kMaxListed); ++i) {
    compiled += (i == 0 ? "" : "; ") + shapes_of(entries[i]);
  }
  if (entries.size() > kMaxListed) compiled += "; ...";
  throw format::Error(ErrorCode::kNoSuchShape,
                      format::join("the model was not compiled for ", given, "; compiled shapes: ", compiled),
                      details_of(entries, inputs));
}

void check_count(const char* role, const std::vector<TensorSpec>& specs, int count) {
  if (count != static_cast<int>(specs.size())) {
    format::fail(ErrorCode::kInvalidArgument, count, " ", role, " given, the model has ", specs.size(), ": ",
                 names_of(specs));
  }
}

void require_tensors(const char* role, const std::vector<TensorSpec>& specs, const DLTensor* tensors) {
  if (tensors == nullptr && !specs.empty()) format::fail(ErrorCode::kInvalidArgument, "the ", role, " array is null");
}

}  // namespace

DLDataType to_dlpack(format::DataType type) {
  using format::DataType;
  const char kind = name_of(type).front();  // of "i8", "u8", "f32"
  const DLDataTypeCode code = type == DataType::kBool   ? kDLBool
                              : type == DataType::kBF16 ? kDLBfloat
                              : kind == 'i'             ? kDLInt
                              : kind == 'u'             ? kDLUInt
                                                        : kDLFloat;
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(format::bytes_of(type) * 8), 1};
}

int find_entry(Entries entries, const DLTensor* inputs, int input_count) {
  const auto& specs = entries.front().inputs;
  check_count("inputs", specs, input_count);
  require_tensors("inputs", specs, inputs);
  for (size_t i = 0; i < specs.size(); ++i) check_type_and_rank({"input", &specs[i]}, inputs[i]);
  for (const EntryShapes::Parts parts : {EntryShapes::Parts::kNo, EntryShapes::Parts::kYes}) {
    for (size_t e = 0; e < entries.size(); ++e) {
      if (EntryShapes(entries[e]).read(inputs, parts)) return static_cast<int>(e);
    }
  }
  fail_no_such_shape(entries, inputs);
}

void* address_of(const DLTensor& tensor) { return static_cast<uint8_t*>(tensor.data) + tensor.byte_offset; }

void check_state(const TensorSpec& spec, const DeviceModel& device, const DLTensor& tensor) {
  const Which state{"state", &spec};
  check_type_and_rank(state, tensor);
  if (!std::equal(spec.shape.begin(), spec.shape.end(), tensor.shape))
    refuse_shape(state, tensor, "has shape ", shape_text(tensor), ", wanted is ", format::shape_text(spec.shape));
  check_memory(state, device, tensor);
}

void check_output_count(Entries entries, int count) { check_count("outputs", entries.front().outputs, count); }

EntryShapes read_shapes(const format::Entry& entry, const DLTensor* inputs) {
  require_tensors("inputs", entry.inputs, inputs);
  for (size_t i = 0; i < entry.inputs.size(); ++i) check_type_and_rank({"input", &entry.inputs[i]}, inputs[i]);
  EntryShapes shapes(entry);
  if (shapes.read(inputs, EntryShapes::Parts::kYes)) return shapes;
  for (size_t i = 0; i < entry.inputs.size(); ++i) check_shape(shapes, TensorRole::kInput, i, inputs[i]);
  fail_no_such_shape({&entry, 1}, inputs);
}

EntryShapes check_tensors(const format::Entry& entry, const DeviceModel& device, const DLTensor* inputs,
                          const DLTensor* outputs) {
  const EntryShapes shapes = read_shapes(entry, inputs);
  require_tensors("outputs", entry.outputs, outputs);
  for (size_t i = 0; i < entry.inputs.size(); ++i) check_memory({"input", &entry.inputs[i]}, device, inputs[i]);
  for (size_t o = 0; o < entry.outputs.size(); ++o) {
    const Which output{"output", &entry.outputs[o]};
    check_type_and_rank(output, outputs[o]);
    check_shape(shapes, TensorRole::kOutput, o, outputs[o]);
    check_memory(output, device, outputs[o]);
  }
  check_overlaps(shapes, inputs, outputs);
  return shapes;
}

}  // namespace tw::runtime
