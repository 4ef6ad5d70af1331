#include <cstring>

#include "runtime/device/cuda/launch.h"

namespace tw::runtime::cuda {
namespace {

int tensor_type(format::DataType type) {
  const int64_t bytes = bytes_of(type);
  return bytes == 1 ? kTensorBytes1 : bytes == 2 ? kTensorBytes2 : bytes == 4 ? kTensorBytes4 : kTensorBytes8;
}

}  // namespace

bool encode_map(const Driver& driver, const format::TensorMap& map, DevicePtr address, std::vector<uint8_t>& params) {
  constexpr int kNoInterleave = 0, kZeros = 0;
  const size_t rank = map.shape.size();
  std::array<uint64_t, format::TensorMap::kMaxRank> shape{}, strides{};
  std::array<uint32_t, format::TensorMap::kMaxRank> box{}, steps{};
  auto stride = static_cast<uint64_t>(bytes_of(map.dtype));
  for (size_t d = 0; d < rank; ++d) {
    shape[d] = static_cast<uint64_t>(map.shape[rank - 1 - d]);
    box[d] = static_cast<uint32_t>(map.box[rank - 1 - d]);
    steps[d] = 1;
    stride *= shape[d];
    strides[d] = stride;  // of the dim around this one
  }
  std::array<int, format::TensorMap::kMaxRank> first{}, last{};
  for (size_t d = 0; d < map.windows.extents.size(); ++d) {  // spatial dims, innermost first, behind the channels
    const size_t from = map.windows.extents.size() - 1 - d;
    steps[d + 1] = static_cast<uint32_t>(map.windows.steps[from]);
    first[d] = -static_cast<int>(map.windows.before[from]);
    last[d] = static_cast<int>(map.windows.last_corner(from, map.shape[from + 1]));
  }
  const int64_t line = box[0] * bytes_of(map.dtype);
  const int swizzle = line == 128 ? kSwizzle128 : line == 64 ? kSwizzle64 : kSwizzle32;
  constexpr size_t kAlignment = 64;
  alignas(kAlignment) std::array<uint8_t, format::TensorMap::kBytes> bytes{};
  const auto dims = static_cast<uint32_t>(rank);
  void* const base = reinterpret_cast<void*>(address);
  const int type = tensor_type(map.dtype);
  driver.check(map.windows.empty()
                   ? driver.tensor_map_encode(bytes.data(), type, dims, base, shape.data(), strides.data(), box.data(),
                                              steps.data(), kNoInterleave, swizzle, kPromotion256, kZeros)
                   : driver.window_map_encode(bytes.data(), type, dims, base, shape.data(), strides.data(),
                                              first.data(), last.data(), box[0], box[rank - 1], steps.data(),
                                              kNoInterleave, swizzle, kPromotion256, kZeros),
               "describe a tensor to the GPU");
  uint8_t* place = params.data() + map.offset;
  if (std::memcmp(place, bytes.data(), bytes.size()) == 0) return false;
  std::memcpy(place, bytes.data(), bytes.size());
  return true;
}

}  // namespace tw::runtime::cuda
