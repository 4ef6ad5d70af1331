#include "runtime/extents.h"

#include "runtime/format/error.h"

namespace tw::runtime {
namespace {

const std::vector<format::ExtentDim>& dims_of(const format::Extent& extent, TensorRole role) {
  return role == TensorRole::kInput ? extent.inputs : extent.outputs;
}

const format::ExtentDim* find_dim(const format::Extent& extent, TensorRole role, size_t tensor, size_t dim) {
  for (const format::ExtentDim& row : dims_of(extent, role)) {
    if (row.tensor == static_cast<int64_t>(tensor) && row.dim == static_cast<int64_t>(dim)) return &row;
  }
  return nullptr;
}

}  // namespace

EntryShapes::EntryShapes(const format::Entry& entry) : entry_(entry) {
  for (size_t e = 0; e < entry.extents.size(); ++e) extents_[e] = entry.extents[e].bound;
}

bool EntryShapes::read(const DLTensor* inputs, Parts parts) {
  for (size_t e = 0; e < entry_.extents.size(); ++e) {
    const format::Extent& extent = entry_.extents[e];
    const format::ExtentDim& first = extent.inputs.front();
    extents_[e] = inputs[first.tensor].shape[first.dim] / first.times;
    const bool has_room = extents_[e] <= extent.bound || (parts == Parts::kYes && extent.in_parts);
    if (extents_[e] < extent.least || !has_room) return false;
  }
  for (size_t i = 0; i < entry_.inputs.size(); ++i) {
    if (!has_shape(TensorRole::kInput, i, inputs[i])) return false;
  }
  return true;
}

bool EntryShapes::is_at_bounds() const {
  for (size_t e = 0; e < entry_.extents.size(); ++e) {
    if (extents_[e] != entry_.extents[e].bound) return false;
  }
  return true;
}

int EntryShapes::beyond_bounds() const {
  for (size_t e = 0; e < entry_.extents.size(); ++e) {
    if (extents_[e] > entry_.extents[e].bound) return static_cast<int>(e);
  }
  return -1;
}

int64_t EntryShapes::extent(TensorRole role, size_t tensor, size_t dim) const {
  for (size_t e = 0; e < entry_.extents.size(); ++e) {
    const format::ExtentDim* row = find_dim(entry_.extents[e], role, tensor, dim);
    if (row != nullptr) return extents_[e] * row->times;
  }
  return specs(role)[tensor].shape[dim];
}

int64_t EntryShapes::bytes(TensorRole role, size_t tensor) const {
  const format::TensorSpec& spec = specs(role)[tensor];
  int64_t bytes = format::bytes_of(spec.dtype);
  for (size_t d = 0; d < spec.shape.size(); ++d) bytes *= extent(role, tensor, d);
  return bytes;
}

bool EntryShapes::has_shape(TensorRole role, size_t tensor, const DLTensor& given) const {
  const size_t rank = specs(role)[tensor].shape.size();
  for (size_t d = 0; d < rank; ++d) {
    if (given.shape[d] != extent(role, tensor, d)) return false;
  }
  return true;
}

std::vector<int64_t> EntryShapes::shape(TensorRole role, size_t tensor) const {
  std::vector<int64_t> shape = specs(role)[tensor].shape;
  for (size_t d = 0; d < shape.size(); ++d) shape[d] = extent(role, tensor, d);
  return shape;
}

bool EntryShapes::is_smaller(TensorRole role, size_t tensor) const {
  const std::vector<int64_t>& shape = specs(role)[tensor].shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (extent(role, tensor, d) != shape[d]) return true;
  }
  return false;
}

std::string shapes_text(const format::Entry& entry, size_t input) {
  const format::TensorSpec& spec = entry.inputs[input];
  std::string text = spec.name;
  for (size_t d = 0; d < spec.shape.size(); ++d) {
    text += d == 0 ? '[' : ',';
    for (const format::Extent& extent : entry.extents) {
      const format::ExtentDim* row = find_dim(extent, TensorRole::kInput, input, d);
      if (row != nullptr) text += format::join(extent.least * row->times, "..");
    }
    format::append(text, spec.shape[d]);
  }
  return text + (spec.shape.empty() ? "[]" : "]");
}

}  // namespace tw::runtime
