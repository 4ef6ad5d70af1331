#include "frontend/onnx/windows/window.h"

#include "frontend/onnx/limits.h"
#include "support/math.h"

namespace tw::frontend {

std::vector<int64_t> checked_list(std::vector<int64_t> list, size_t size, int64_t low, std::string_view name) {
  if (list.size() != size) throw UserError("attribute '{}' has {} values, it must have {}", name, list.size(), size);
  for (int64_t value : list) {
    if (value < low || value > kMaxAttribute)
      throw UserError("attribute '{}' holds {}, the least is {}", name, value, low);
  }
  return list;
}

Shape spatial_of(const Shape& shape) {
  if (shape.size() < 3) throw UserError("{} must have shape (N, C, D1, ...)", to_string(shape));
  return {shape.begin() + 2, shape.end()};
}

int64_t group_of(NodeContext& c) {
  const int64_t group = c.int_or("group", 1);
  if (group < 1 || group > kMaxAttribute) throw UserError("attribute 'group' is {}", group);
  return group;
}

graph::Attrs conv_attrs(const Window& w, int64_t group) {
  return {{"strides", w.strides}, {"dilations", w.dilations}, {"pads", w.pads}, {"group", group}};
}

graph::Attrs conv_attributes(NodeContext& c, const Shape& x, const Shape& w) {
  const int64_t group = group_of(c);
  const Shape spatial = spatial_of(x);
  if (w.size() != x.size()) throw UserError("the weights must have the input's rank");
  const Window window = read_window(c, spatial, spatial_of(w));
  for (size_t d = 0; d < spatial.size(); ++d) {
    const int64_t padded = spatial[d] + window.pads[d] + window.pads[d + spatial.size()];
    if (padded < window.dilated_kernel(d)) {
      throw UserError("spatial dimension {}: the kernel spans {} elements, the padded input has {}", d,
                      window.dilated_kernel(d), padded);
    }
  }
  if (x[1] != w[1] * group || w[0] % group != 0) {
    throw UserError("input {} has {} channels, weights {} with group {} take {}", to_string(x), x[1], to_string(w),
                    group, w[1] * group);
  }
  return conv_attrs(window, group);
}

std::vector<int64_t> list_or(NodeContext& c, const std::string& key, size_t size, int64_t fallback) {
  return checked_list(c.ints_or(key, std::vector<int64_t>(size, fallback)), size, fallback, key);
}

Window read_steps(NodeContext& c, size_t rank, const std::vector<int64_t>& kernel) {
  Window w;
  w.kernel = kernel.empty() ? c.ints_attr("kernel_shape") : c.ints_or("kernel_shape", kernel);
  w.kernel = checked_list(std::move(w.kernel), rank, 1, "kernel_shape");
  if (!kernel.empty() && w.kernel != kernel) {
    throw UserError("kernel_shape {} differs from the weights' {}", to_string(w.kernel), to_string(kernel));
  }
  w.strides = list_or(c, "strides", rank, 1);
  w.dilations = list_or(c, "dilations", rank, 1);
  for (size_t d = 0; d < rank; ++d) {
    if (w.kernel[d] > kMaxAttribute / w.dilations[d])
      throw UserError("kernel {} with dilation {}", w.kernel[d], w.dilations[d]);
  }
  return w;
}

void share_padding(Window& w, size_t d, int64_t total, std::string_view mode) {
  w.pads[d] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
  w.pads[d + w.kernel.size()] = total - w.pads[d];
}

Window read_window(NodeContext& c, const Shape& spatial, const std::vector<int64_t>& kernel) {
  const size_t n = spatial.size();
  Window w = read_steps(c, n, kernel);
  const std::string mode = c.choice("auto_pad", {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"});
  if (mode == "NOTSET") {
    w.pads = list_or(c, "pads", 2 * n, 0);
    return w;
  }
  c.ignore_attr("pads");
  w.pads.assign(2 * n, 0);
  for (size_t d = 0; d < n && mode != "VALID"; ++d) {
    const int64_t outputs = ceil_div(spatial[d], w.strides[d]);
    const int64_t total = std::max<int64_t>((outputs - 1) * w.strides[d] + w.dilated_kernel(d) - spatial[d], 0);
    share_padding(w, d, total, mode);
  }
  return w;
}

}  // namespace tw::frontend
