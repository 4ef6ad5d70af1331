#include "templates/rows.h"

#include <numeric>

#include "cost/gemm_tile.h"
#include "support/error.h"
#include "support/join.h"
#include "support/math.h"

namespace tw::templates {
namespace {

constexpr Row sm90(int m, int n, int cluster_m, int cluster_n) {
  return {Family::kGemmSm90, m, n, 64, cluster_m, cluster_n};
}
constexpr Row pingpong(int m, int n, int cluster_m) { return {Family::kGemmSm90, m, n, 64, cluster_m, 1, true}; }
constexpr Row stream_k(int m, int n) { return {Family::kGemmSm90, m, n, 64, 2, 1, false, true}; }
constexpr Row conv90(int m, int n) { return {Family::kConvSm90, m, n, 64}; }
struct Warps {
  int m, n, stages;
};
constexpr Row sm80(Family family, int m, int n, int k, Warps warps) {
  return {family, m, n, k, 1, 1, false, false, warps.m, warps.n, warps.stages};
}

// Of CUTLASS's instances for Hopper those that win somewhere (cuBLAS's choices, PyTorch's presets, quack's lists):
// tiles with fewer sums than a thread has registers, at least three stages. The two of 208 columns spill with the
// headers of CUTLASS 4.2 and are refused when they are built; later ones spill less.
constexpr Row kRows[] = {
    sm90(128, 256, 2, 1),
    sm90(256, 128, 2, 1),
    sm90(128, 128, 2, 1),
    pingpong(128, 128, 2),
    pingpong(64, 128, 2),
    pingpong(64, 256, 2),
    pingpong(64, 64, 1),
    pingpong(128, 192, 2),
    sm90(256, 160, 2, 1),
    sm90(256, 192, 2, 1),
    sm90(128, 192, 2, 1),
    sm90(128, 224, 2, 1),
    sm90(256, 208, 2, 1),
    sm90(256, 64, 2, 1),
    sm90(128, 64, 2, 1),
    pingpong(128, 160, 2),
    pingpong(192, 128, 2),
    pingpong(64, 192, 2),
    pingpong(128, 208, 2),
    pingpong(64, 32, 1),
    sm90(128, 256, 1, 2),
    pingpong(64, 128, 1),
    stream_k(128, 256),
    stream_k(128, 128),
    conv90(128, 128),
    conv90(64, 128),
    conv90(128, 64),
    conv90(64, 64),
    sm80(Family::kGemmSm80, 128, 128, 32, {2, 2, 4}),
    sm80(Family::kGemmSm80, 128, 256, 32, {2, 4, 3}),
    sm80(Family::kGemmSm80, 256, 128, 32, {4, 2, 3}),
    sm80(Family::kGemmSm80, 128, 64, 32, {2, 2, 6}),
    sm80(Family::kGemmSm80, 64, 128, 32, {2, 2, 6}),
    sm80(Family::kGemmSm80, 64, 64, 64, {2, 2, 5}),
    sm80(Family::kGemmSm80, 128, 128, 64, {2, 2, 3}),
    sm80(Family::kGemmSm80, 256, 64, 64, {4, 1, 3}),
    sm80(Family::kConvSm80, 128, 128, 32, {2, 2, 4}),
    sm80(Family::kConvSm80, 128, 256, 32, {2, 4, 3}),
    sm80(Family::kConvSm80, 256, 64, 32, {4, 1, 4}),
    sm80(Family::kConvSm80, 128, 64, 64, {2, 2, 3}),
    sm80(Family::kConvSm80, 64, 64, 64, {2, 2, 5}),
    sm80(Family::kConvSm80, 128, 128, 64, {2, 2, 3}),
    sm80(Family::kConvSm80, 64, 128, 64, {2, 2, 3}),
};

constexpr int64_t kAccessBytes = 16;
constexpr int64_t kMaxBytes = int64_t{1} << 31;  // of a tensor that 32-bit offsets reach

// The largest access that lines of so many elements are made of.
int access_of(int64_t elements, DataType type) {
  return static_cast<int>(std::gcd(elements * type.bytes(), kAccessBytes));
}
int64_t line_of_a(const GemmDescriptor& p) { return p.is_conv ? p.channels : p.a_by_rows ? p.k : p.m; }
int64_t line_of_b(const GemmDescriptor& p) { return p.is_conv ? p.channels : p.b_by_rows ? p.n : p.k; }
// Of TMA all lines are multiples of 16 bytes; what a thread copies in the background has 4 bytes at least.
bool fits_copies(const Row& row, int64_t line, DataType type) {
  constexpr int kMinCopied = 4;
  return access_of(line, type) >= (architecture_of(row.family) == "sm_90a" ? kAccessBytes : kMinCopied);
}
bool lines_of_a(const Row& row, const GemmDescriptor& p) { return fits_copies(row, line_of_a(p), p.operand); }
bool lines_of_b(const Row& row, const GemmDescriptor& p) { return fits_copies(row, line_of_b(p), p.operand); }
bool lines_of_out(const Row&, const GemmDescriptor& p) { return access_of(p.n, p.output) == kAccessBytes; }
bool has_operands(const Row&, const GemmDescriptor& p) { return p.operand.is_half() || p.operand == DataType::f32(); }
bool is_tf32(const GemmDescriptor& p) { return p.operand == DataType::f32(); }
bool has_steps_in_lines(const Row&, const GemmDescriptor& p) { return !is_tf32(p) || (p.a_by_rows && !p.b_by_rows); }
bool is_product(const Row&, const GemmDescriptor& p) { return !p.is_conv; }
bool is_window(const Row&, const GemmDescriptor& p) { return p.is_conv && p.batch == 1; }
bool has_channels(const Row& row, const GemmDescriptor& p) { return fits_copies(row, p.channels, p.operand); }
bool has_small_window(const Row&, const GemmDescriptor& p) {
  constexpr int64_t kMax = 32;
  return std::ranges::max(p.window) <= kMax;
}
bool has_small_tensors(const Row&, const GemmDescriptor& p) {
  const int64_t pixels = p.image[0] * p.image[1] * p.image[2];
  return p.images * pixels * p.channels * p.operand.bytes() < kMaxBytes && p.m * p.n * p.output.bytes() < kMaxBytes &&
         p.k * p.n * p.operand.bytes() < kMaxBytes;
}
bool has_near_window(const Row&, const GemmDescriptor& p) {
  const bool deep = p.dims > 2;
  const int64_t max_pad = deep ? 16 : 128, max_offset = deep ? 31 : 255;
  for (size_t d = 0; d < p.window.size(); ++d)
    if (p.pad[d] > max_pad || (p.window[d] - 1) * p.dilation[d] >= max_offset) return false;
  return true;
}
bool has_int_extents(const Row& row, const GemmDescriptor& p) {
  return std::max({p.m, p.n, p.k}) < kMaxBytes && (row.family != Family::kGemmSm80 || p.batch < 1 << 16);
}
// The cooperative scheme wants a tile for each warp group of a cluster; a wave of half-empty clusters is for others.
bool fills_cluster(const Row& row, const GemmDescriptor& p) {
  return p.m > int64_t{row.tile_m} * (row.cluster_m - 1) && p.n > int64_t{row.tile_n} * (row.cluster_n - 1);
}
// Stream-K leaves no block less than so many steps of a sum (CUTLASS's min_iters_per_sk_unit_).
constexpr int kMinSteps = 8;
bool has_long_sums(const Row& row, const GemmDescriptor& p) {
  return !row.stream_k || p.k >= 2 * kMinSteps * row.tile_k;
}

constexpr Constraint kType = {"operands of f16, bf16 or tf32: the instructions of the templates", has_operands};
constexpr Constraint kLinesOfOut = {"columns * bytes of the result % 16: TMA stores lines of such multiples",
                                    lines_of_out};
constexpr Constraint kGemm = {"a product of matrices: the template loads lines, no windows", is_product};
constexpr Constraint kConv = {"a convolution without groups: the template computes addresses of windows", is_window};
constexpr Constraint kChannels = {"channels * bytes % 16: a window is loaded by lines of such multiples", has_channels};
constexpr Constraint kFewChannels = {"channels * bytes % 4: copies in the background are of 4, 8 or 16 bytes",
                                     has_channels};
constexpr Constraint kCluster = {"rows and columns for every block of a cluster", fills_cluster};
constexpr Constraint kExtents = {"extents below 2^31 and, by warps, 65535 matrices: what a launch can say",
                                 has_int_extents};
constexpr Constraint kSmall = {"tensors below 2^31 bytes: their offsets have 32 bits", has_small_tensors};

constexpr Constraint kGemmSm90[] = {
    kType,
    kGemm,
    {"lines of a * bytes % 16: TMA lines are multiples of 16 bytes", lines_of_a},
    {"lines of b * bytes % 16: TMA lines are multiples of 16 bytes", lines_of_b},
    kLinesOfOut,
    kCluster,
    kExtents,
    {"tf32: steps of the sum next to each other in both operands, as its instruction reads them", has_steps_in_lines},
    {"sums of 1024 products where blocks share them: each adds up 512 at least", has_long_sums},
};
constexpr Constraint kGemmSm80[] = {
    kType,
    kGemm,
    {"lines of a * bytes % 4: copies in the background are of 4, 8 or 16 bytes", lines_of_a},
    {"lines of b * bytes % 4: copies in the background are of 4, 8 or 16 bytes", lines_of_b},
    kExtents,
};
constexpr Constraint kConvSm90[] = {
    kType,
    kConv,
    kChannels,
    kLinesOfOut,
    kSmall,
    {"padding <= 128 and (window - 1) * dilation < 255, of three dims 16 and 31: im2col offsets have 8 or 5 bits",
     has_near_window}};
constexpr Constraint kConvSm80[] = {
    kType,
    kConv,
    kFewChannels,
    kSmall,
    {"windows up to 32 x 32: a mask of 32 bits says which rows are inside", has_small_window}};

}  // namespace

std::span<const Row> rows() { return kRows; }

int steps_of_tile(const Row& row, DataType operand) { return row.tile_k * DataType::f16().bytes() / operand.bytes(); }

Access access_of(const GemmDescriptor& p) {
  return {std::min(access_of(line_of_a(p), p.operand), access_of(line_of_b(p), p.operand)), access_of(p.n, p.output)};
}

std::string_view architecture_of(Family family) {
  return family == Family::kGemmSm90 || family == Family::kConvSm90 ? "sm_90a" : "sm_80";
}

bool is_for(Family family, std::string_view target) {
  return architecture_of(family) == "sm_80" || target.ends_with(architecture_of(family));
}

bool is_conv(Family family) { return family == Family::kConvSm90 || family == Family::kConvSm80; }

std::string name_of(const Row& row) {
  const std::string head = fmt::format("{}_{}_{}x{}x{}", is_conv(row.family) ? "conv" : "gemm",
                                       architecture_of(row.family).substr(0, 5) == "sm_90" ? "sm90" : "sm80",
                                       row.tile_m, row.tile_n, row.tile_k);
  if (row.family == Family::kConvSm90) return head;
  if (row.family != Family::kGemmSm90) return fmt::format("{}_{}x{}_{}", head, row.warps_m, row.warps_n, row.stages);
  return fmt::format("{}_{}_{}x{}", head,
                     row.stream_k   ? "stream_k"
                     : row.pingpong ? "pingpong"
                                    : "cooperative",
                     row.cluster_m, row.cluster_n);
}

const Row& row_named(std::string_view name) {
  const auto row = std::ranges::find(rows(), name, name_of);
  if (row == rows().end()) throw UserError("there is no template '{}'", name);
  return *row;
}

std::span<const Constraint> constraints(Family family) {
  constexpr std::span<const Constraint> kOfFamilies[] = {kGemmSm90, kConvSm90, kGemmSm80, kConvSm80};
  return kOfFamilies[static_cast<size_t>(family)];
}

std::string why_declined(const Row& row, const GemmDescriptor& product, const TargetInfo& target) {
  if (!is_for(row.family, target.name)) return fmt::format("{} has no {}", target.name, architecture_of(row.family));
  for (const Constraint& constraint : constraints(row.family)) {
    if (!constraint.holds(row, product)) return std::string(constraint.text);
  }
  return "";
}

double predicted_cycles(const Row& row, const GemmDescriptor& p, const TargetInfo& target) {
  const int steps = steps_of_tile(row, p.operand), shared_steps = row.stream_k ? kMinSteps : 0;
  const cost::TemplateTile tile{row.tile_m,  row.tile_n,  steps,        row.cluster_m, row.cluster_n,
                                row.warps_m, row.warps_n, shared_steps, row.pingpong};
  const cost::GemmProblem problem{p.batch, p.m, p.n, p.k, p.operand.bytes(), p.output.bytes()};
  return cost::template_cycles(tile, problem, target);
}

std::vector<const Row*> ranked(const GemmDescriptor& product, const TargetInfo& target) {
  std::vector<std::pair<double, const Row*>> order;
  for (const Row& row : rows()) {
    if (why_declined(row, product, target).empty()) order.emplace_back(predicted_cycles(row, product, target), &row);
  }
  std::ranges::stable_sort(order, {}, [](const auto& entry) { return entry.first; });
  return mapped(order, [](const auto& entry) { return entry.second; });
}

}  // namespace tw::templates
