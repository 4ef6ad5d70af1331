#include "runtime/staging.h"

#include <algorithm>
#include <cstring>

#include "runtime/sub_tensor.h"
#include "runtime/tensors.h"

namespace tw::runtime {
namespace {

constexpr size_t kAlignment = 64;

size_t room_for(const format::TensorSpec& spec) {
  return (static_cast<size_t>(format::tensor_bytes(spec)) + kAlignment - 1) / kAlignment * kAlignment;
}

/// Of all tensors that may be smaller than the entry's.
size_t room_for(const format::Entry& entry) {
  size_t bytes = 0;
  for (const auto* specs : {&entry.inputs, &entry.outputs}) {
    for (const format::TensorSpec& spec : *specs) bytes += entry.extents.empty() ? 0 : room_for(spec);
  }
  return bytes;
}

}  // namespace

Staging::Staging(const format::Manifest& manifest, const Options& options) {
  size_t bytes = 0, inputs = 0, outputs = 0;
  for (const format::Entry& entry : manifest.entries) {
    bytes = std::max(bytes, room_for(entry));
    inputs = std::max(inputs, entry.inputs.size());
    outputs = std::max(outputs, entry.outputs.size());
  }
  memory_ = Memory::allocate(bytes, options.allocator, "inputs and outputs of smaller extents");
  memory_.populate();
  inputs_.resize(inputs);
  outputs_.resize(outputs);
}

void Staging::point(DLTensor& tensor, const format::TensorSpec& spec, size_t& offset) {
  tensor.data = memory_.data() + offset;
  tensor.byte_offset = 0;
  offset += room_for(spec);
}

void Staging::stage(const EntryShapes& shapes, const DLTensor* inputs, const DLTensor* outputs) {
  const format::Entry& entry = shapes.entry();
  size_t offset = 0;
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    inputs_[i] = inputs[i];
    if (!shapes.is_smaller(TensorRole::kInput, i)) continue;
    point(inputs_[i], entry.inputs[i], offset);
    auto* const whole = static_cast<uint8_t*>(inputs_[i].data);
    const auto* const part = static_cast<const uint8_t*>(address_of(inputs[i]));
    SubTensor(shapes, TensorRole::kInput, i)
        .spread([&](int64_t to, int64_t from, int64_t bytes) { std::memcpy(whole + to, part + from, bytes); },
                [&](int64_t to, int64_t from, int64_t bytes) { std::memcpy(whole + to, whole + from, bytes); });
  }
  for (size_t o = 0; o < entry.outputs.size(); ++o) {
    outputs_[o] = outputs[o];
    if (shapes.is_smaller(TensorRole::kOutput, o)) point(outputs_[o], entry.outputs[o], offset);
  }
}

void Staging::finish(const EntryShapes& shapes, const DLTensor* outputs) const {
  for (size_t o = 0; o < shapes.entry().outputs.size(); ++o) {
    if (!shapes.is_smaller(TensorRole::kOutput, o)) continue;
    const auto* const whole = static_cast<const uint8_t*>(outputs_[o].data);
    auto* const part = static_cast<uint8_t*>(address_of(outputs[o]));
    SubTensor(shapes, TensorRole::kOutput, o).gather([&](int64_t to, int64_t from, int64_t bytes) {
      std::memcpy(part + to, whole + from, bytes);
    });
  }
}

}  // namespace tw::runtime
