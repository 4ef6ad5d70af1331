// The library of templates: kernels that are parameters of a text, as rows of one table. Which rows compute a product,
// why others do not, and which are likely to be fast. docs/internals/adr/0019-templates-ship-as-data.md.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data_type.h"
#include "core/target_info.h"

namespace tw::templates {

/// One text each (cutlass/*.cu): CUTLASS 3.x for warp groups and TMA, 2.x for warps.
enum class Family : uint8_t { kGemmSm90, kConvSm90, kGemmSm80, kConvSm80 };

struct Row {
  Family family = Family::kGemmSm90;
  int tile_m = 0, tile_n = 0, tile_k = 0;    ///< of a block; tile_k of 16-bit operands, half of it for tf32
  int cluster_m = 1, cluster_n = 1;          ///< blocks that share what they load
  bool pingpong = false;                     ///< each group of warps has a tile of its own; else they share one
  bool stream_k = false;                     ///< blocks have equal shares of all sums, wherever tiles begin
  int warps_m = 0, warps_n = 0, stages = 0;  ///< CUTLASS 2.x; 3.x has as many stages as fit
};

/// Bytes that lines of tensors are multiples of, 16 at most.
struct Access {
  int operands = 16, output = 16;
};

/// out[b, m, n] = sum over k of a[b, m, k] * b[b, k, n]. Convolutions (images, spatial dims, channels) are such
/// products with m = images * output pixels, k = window * channels. Operands of f32 are read as tf32.
struct GemmDescriptor {
  int64_t m = 1, n = 1, k = 1, batch = 1;
  bool a_by_rows = true, b_by_rows = true;  ///< else columns are contiguous
  DataType operand = DataType::f16(), output = DataType::f16();
  bool is_conv = false;
  int64_t images = 1, channels = 1;
  static constexpr int kMaxDims = 3;
  using Extents = std::array<int64_t, kMaxDims>;
  int dims = 2;  ///< of the following that are used, the first ones
  Extents image = {1, 1, 1}, window = {1, 1, 1}, out = {1, 1, 1}, stride = {1, 1, 1}, dilation = {1, 1, 1};
  Extents pad = {0, 0, 0};  ///< before
};
/// Steps of a sum that a tile of `row` takes at once.
int steps_of_tile(const Row& row, DataType operand);
/// Of the lines of `product`'s tensors.
Access access_of(const GemmDescriptor& product);

/// All rows; those of a family in the order in which they are built.
std::span<const Row> rows();
/// "gemm_sm90_128x256x64_cooperative_2x1": what --only and messages call it.
std::string name_of(const Row& row);
/// The row of that name; UserError where this build has none.
const Row& row_named(std::string_view name);
/// What its instructions are of: "sm_90a", "sm_80".
std::string_view architecture_of(Family family);
/// Whether it is compiled for a target of this name, "cuda:sm_90a": rows for warps run on all that came after them.
bool is_for(Family family, std::string_view target);
bool is_conv(Family family);

/// A condition on products, with the reason why rows of the family want it.
struct Constraint {
  std::string_view text;
  bool (*holds)(const Row& row, const GemmDescriptor& product);
};
std::span<const Constraint> constraints(Family family);
/// Why `row` does not compute `product`, or cannot on `target`; empty if it does.
std::string why_declined(const Row& row, const GemmDescriptor& product, const TargetInfo& target);

/// Predicted time, in cycles of an SM (cost/gemm_tile.h).
double predicted_cycles(const Row& row, const GemmDescriptor& product, const TargetInfo& target);
/// Rows that compute `product` on `target`, best predicted first.
std::vector<const Row*> ranked(const GemmDescriptor& product, const TargetInfo& target);

}  // namespace tw::templates
