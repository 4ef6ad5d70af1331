// Extents of entries that inputs say.
#include <set>

#include "runtime/format/error.h"
#include "runtime/format/validate_parts.h"

namespace tw::format {
namespace {

constexpr Require require{"manifest: "};

using Taken = std::set<std::pair<int64_t, int64_t>>;  // tensors and their dims

void check_dims(const Extent& extent, const std::vector<ExtentDim>& dims, const std::vector<TensorSpec>& specs,
                Taken& taken) {
  for (const ExtentDim& row : dims) {
    require(static_cast<uint64_t>(row.tensor) < specs.size(), "extent '", extent.name, "' is one of a missing tensor");
    const TensorSpec& spec = specs[static_cast<size_t>(row.tensor)];
    const bool is_dim = static_cast<uint64_t>(row.dim) < spec.shape.size();
    require(is_dim && row.times >= 1 && spec.shape[static_cast<size_t>(row.dim)] / row.times == extent.bound &&
                spec.shape[static_cast<size_t>(row.dim)] % row.times == 0,
            "extent '", extent.name, "' is not that of tensor '", spec.name, "'");
    require(!extent.in_parts || row.dim == 0, "extent '", extent.name, "' of tensor '", spec.name, "' has no parts");
    require(taken.insert({row.tensor, row.dim}).second, "tensor '", spec.name, "' has two extents in one dimension");
  }
}

}  // namespace

void check_extents(const Entry& entry) {
  require(entry.extents.size() <= Extent::kMost, "entry '", entry.name, "' has more than ", Extent::kMost, " extents");
  std::set<std::string_view> names;
  Taken inputs, outputs;
  for (const Extent& extent : entry.extents) {
    require(!extent.name.empty() && names.insert(extent.name).second, "entry '", entry.name, "' has extent '",
            extent.name, "' twice or without a name");
    require(extent.least >= 1 && extent.least < extent.bound, "extent '", extent.name, "' goes from ", extent.least,
            " to ", extent.bound);
    require(!extent.inputs.empty(), "no input says extent '", extent.name, "'");
    check_dims(extent, extent.inputs, entry.inputs, inputs);
    check_dims(extent, extent.outputs, entry.outputs, outputs);
  }
}

}  // namespace tw::format
