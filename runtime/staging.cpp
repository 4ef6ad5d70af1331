#include "runtime/staging.h"

#include <algorithm>
#include <cstring>

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

/// Copies between a tensor at the extents and the entry's own. Both are row-major.
class SubTensor {
 public:
  SubTensor(const EntryShapes& shapes, TensorRole role, size_t tensor)
      : shapes_(shapes),
        role_(role),
        tensor_(tensor),
        spec_((role == TensorRole::kInput ? shapes.entry().inputs : shapes.entry().outputs)[tensor]) {}

  void spread(uint8_t* whole, const uint8_t* part) const {
    spread(0, whole, format::tensor_bytes(spec_), part, shapes_.bytes(role_, tensor_));
  }
  void gather(const uint8_t* whole, uint8_t* part) const {
    gather(0, whole, format::tensor_bytes(spec_), part, shapes_.bytes(role_, tensor_));
  }

 private:
  void spread(size_t dim, uint8_t* whole, int64_t whole_bytes, const uint8_t* part, int64_t part_bytes) const {
    if (whole_bytes == part_bytes) {
      std::memcpy(whole, part, static_cast<size_t>(part_bytes));
      return;
    }
    const int64_t rows = spec_.shape[dim], given = shapes_.extent(role_, tensor_, dim);
    const int64_t row = whole_bytes / rows, given_row = part_bytes / given;
    for (int64_t i = 0; i < given; ++i) spread(dim + 1, whole + i * row, row, part + i * given_row, given_row);
    for (int64_t i = given; i < rows; ++i)
      std::memcpy(whole + i * row, whole + (given - 1) * row, static_cast<size_t>(row));
  }

  void gather(size_t dim, const uint8_t* whole, int64_t whole_bytes, uint8_t* part, int64_t part_bytes) const {
    if (whole_bytes == part_bytes) {
      std::memcpy(part, whole, static_cast<size_t>(part_bytes));
      return;
    }
    const int64_t rows = spec_.shape[dim], wanted = shapes_.extent(role_, tensor_, dim);
    const int64_t row = whole_bytes / rows, wanted_row = part_bytes / wanted;
    for (int64_t i = 0; i < wanted; ++i) gather(dim + 1, whole + i * row, row, part + i * wanted_row, wanted_row);
  }

  const EntryShapes& shapes_;
  TensorRole role_;
  size_t tensor_;
  const format::TensorSpec& spec_;
};

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
    SubTensor(shapes, TensorRole::kInput, i)
        .spread(static_cast<uint8_t*>(inputs_[i].data), static_cast<const uint8_t*>(address_of(inputs[i])));
  }
  for (size_t o = 0; o < entry.outputs.size(); ++o) {
    outputs_[o] = outputs[o];
    if (shapes.is_smaller(TensorRole::kOutput, o)) point(outputs_[o], entry.outputs[o], offset);
  }
}

void Staging::finish(const EntryShapes& shapes, const DLTensor* outputs) const {
  for (size_t o = 0; o < shapes.entry().outputs.size(); ++o) {
    if (!shapes.is_smaller(TensorRole::kOutput, o)) continue;
    SubTensor(shapes, TensorRole::kOutput, o)
        .gather(static_cast<const uint8_t*>(outputs_[o].data), static_cast<uint8_t*>(address_of(outputs[o])));
  }
}

}  // namespace tw::runtime
