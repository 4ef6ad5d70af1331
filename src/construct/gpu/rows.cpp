// Reductions along rows on GPUs: softmax, layer norm, means. A tile is one row or a few; the threads of a row keep its
// elements, so that each is read from memory once, and combine their partial results.
#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "construct/construct.h"
#include "construct/elementwise.h"
#include "construct/gpu/row_mapping.h"
#include "core/model_units.h"
#include "schedule/match/contraction.h"
#include "schedule/match/stages.h"
#include "support/math.h"
#include "te/axes.h"
#include "te/reads.h"
#include "te/rewrite.h"
#include "te/sum_terms.h"

namespace tw::construct {
namespace {

constexpr int64_t kTileThreads = 128;  // short rows share a tile
constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kThreadElements = 32;  // elements in flight of a thread
constexpr int64_t kFewElements = 8;      // the same where rows are too few for all SMs: latency of one row counts
constexpr int64_t kBusyThreads = 512;    // threads of a busy SM
constexpr int64_t kMaxRegisters = 64;    // registers of a thread for elements of a row
constexpr int64_t kRegisterBytes = 4;
constexpr int64_t kReservedShared = 4096;  // bytes of shared memory
constexpr int64_t kFewReaders = 7;         // rows that read the same: of more, products of matrices make tiles

// Threads near the number wanted such that no thread asks whether its element exists, where there are such.
RowMapping row_mapping(int64_t length, int64_t lanes, int64_t elements) {
  while (lanes > 1 && (length % lanes != 0 || length / lanes < kWarpThreads)) lanes /= 2;
  RowMapping mapping{length, lanes};
  const int64_t vectors = length / mapping.lanes;
  const auto wanted = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(length, elements))));
  mapping.threads = std::clamp(wanted, kWarpThreads, kMaxThreads);
  const int64_t max = std::min(2 * mapping.threads, kMaxThreads);
  const auto distance = [&](int64_t threads) {
    return std::abs(std::log2(static_cast<double>(threads) / static_cast<double>(wanted)));
  };
  int64_t best = 0;
  for (int64_t threads = std::max(kWarpThreads, mapping.threads / 2); threads <= max; threads += kWarpThreads) {
    if (vectors % threads == 0 && (best == 0 || distance(threads) < distance(best))) best = threads;
  }
  if (best != 0) mapping.threads = best;
  return mapping;
}

class BlockRows {
 public:
  BlockRows(const schedule::RowProgram& rows, const TargetInfo& target, Construction& out)
      : program_(rows.program),
        output_(rows.program.computes.back()),
        rows_(rows.rows),
        statistics_(rows.statistics),
        kept_(rows.kept),
        target_(target),
        out_(out) {}

  // Why the program is none of this family's; empty when it is.
  std::string why_declined() {
    for (const te::Compute& c : program_.computes) {
      if (c.outputs.size() != 1 && (c.is_reduction() || c.name() != output_.name()))
        return "a stage with several outputs";
      if (c.axes.size() > rows_ + 1 || (c.is_reduction() && c.axes.size() != rows_))
        return "a stage with several axes besides the rows";
      if (c.reduce_axes.size() > 1) return "a reduction over several axes";
      if (c.is_reduction() && !has_rows_of_its_own(c)) return "sums of terms that rows share";
      const int64_t length = c.is_reduction() ? c.reduce_axes[0].extent : elements(c);
      if (length == 0) return "no elements";
      if (length == 1) continue;
      if (length_ != 1 && length != length_) return "rows of different lengths";
      length_ = length;
    }
    if (length_ < kWarpThreads) return "rows shorter than a warp";
    int64_t bytes = 1;
    for (const te::Tensor& t : output_.outputs)
      bytes = elements(output_) > 1 ? std::max<int64_t>(bytes, t.type.bytes()) : bytes;
    for (const te::Tensor& input : program_.inputs) bytes = std::max<int64_t>(bytes, input.type.bytes());
    const int64_t share = row_count() * length_ / (std::max(1, target_.compute_units) * kBusyThreads);
    mapping_ = row_mapping(length_, target_.vector_bytes / bytes, std::clamp(share, kFewElements, kThreadElements));
    find_held();
    in_registers_ = mapping_.is_even() &&
                    kept_bytes(kRegisterBytes) * mapping_.chunks() * mapping_.lanes <= kMaxRegisters * kRegisterBytes;
    // Where an SM has few rows and nothing else to do, what these share is on its way while they are summed.
    if (!in_registers_ || tile_rows() > 1 || mapping_.chunks() * mapping_.lanes > kFewElements) fetched_inputs_.clear();
    if (in_registers_ || shared_bytes() <= max_shared()) return {};
    held_inputs_.clear();  // they are read again
    return shared_bytes() <= max_shared() ? std::string() : kTooLong;
  }
  static constexpr const char* kTooLong = "rows longer than a tile holds";

  // Stages that keep a row's elements.
  std::set<std::string> keepers() const {
    std::set<std::string> names;
    for (const te::Compute& c : program_.computes) {
      if (keeps_row(c)) names.insert(c.name());
    }
    return names;
  }

  void run() {
    const Layout kept = in_registers_ ? mapping_.layout(rows_) : Layout();
    for (const te::Compute& c : program_.computes) {
      if (!keeps_row(c) || !in_registers_) continue;
      if (kept_.contains(c.name())) {
        out_.schedule.layout(c.name(), kept);
      } else {
        out_.constant_layouts[c.name()] = kept;
      }
    }
    for (const std::string& input : held_inputs_) out_.schedule.cache_read(input, {}).layout(input + ".cache", kept);
    for (const std::string& input : fetched_inputs_)
      out_.schedule.cache_read(input, {}).layout(input + ".cache", mapping_.layout(0));
    const std::string tile = tile_output();
    const loop::Scope scope = in_registers_ ? loop::Scope::kRegister : loop::Scope::kStack;
    for (auto c = program_.computes.rbegin(); c != program_.computes.rend(); ++c) {
      if (statistics_.contains(c->name())) {
        s().write_at(c->name(), output_.name(), tile);
      } else if (c->name() != output_.name()) {
        attach(c->name(), tile, keeps_row(*c) ? scope : loop::Scope::kStack);
      }
    }
    for (const std::string& input : held_inputs_) attach(input + ".cache", tile, scope);
    for (const std::string& input : fetched_inputs_) attach(input + ".cache", tile, loop::Scope::kRegister);
    for (const te::Compute& c : program_.computes) {
      if (c.name() != output_.name()) tile_stage(c);
    }
    for (const std::string& input : held_inputs_) tile_kept(input + ".cache");
    for (const std::string& input : fetched_inputs_) mapping_.map_axes_to_threads(s(), input + ".cache", 0);
    out_.trace = {fmt::format("{} rows a tile, {} threads a row, {} times {} elements a thread", tile_rows(),
                              mapping_.threads, mapping_.chunks(), mapping_.lanes)};
  }

 private:
  schedule::Schedule& s() { return out_.schedule; }
  // Whether each row reads contiguous elements that no other row reads, or that few do. Elsewhere, in a product of
  // matrices, threads of different rows do better side by side.
  bool has_rows_of_its_own(const te::Compute& c) const {
    bool found = false;
    te::visit_reads(c, [&](const Expr& read) {
      int64_t readers = 1;
      for (size_t d = 0; d < rows_; ++d) {
        const auto uses = [&](const Expr& i) { return uses_var(i, c.axes[d].name); };
        if (std::ranges::none_of(read->args, uses)) readers *= c.axes[d].extent;
      }
      const bool contiguous = !read->args.empty() && uses_var(read->args.back(), c.reduce_axes[0].name);
      found = found || (contiguous && readers <= kFewReaders);
    });
    return found;
  }
  int64_t row_count() const { return num_elements(output_.outputs[0].shape) / elements(output_); }
  int64_t elements(const te::Compute& c) const { return c.axes.size() > rows_ ? c.axes[rows_].extent : 1; }
  bool keeps_row(const te::Compute& c) const { return elements(c) > 1 && c.name() != output_.name(); }

  // Short rows share a tile, when the last axis of rows can be tiled and there are tiles for all SMs.
  int64_t tile_rows() const {
    int64_t rows = std::max<int64_t>(1, kTileThreads / mapping_.threads);
    while (rows > 1 && (output_.axes[rows_ - 1].extent % rows != 0 || row_count() < rows * target_.compute_units))
      rows /= 2;
    return rows;
  }

  // Inputs that are read at their own point by more than one stage; vectors that all rows share, as scales and shifts
  // of a norm are.
  void find_held() {
    for (const te::Tensor& input : program_.inputs) {
      const bool shared = input.shape == Shape{length_};
      if (!shared && (input.shape.size() != rows_ + 1 || input.shape.back() != length_)) continue;
      size_t readers = 0;
      bool own = true;
      for (const te::Compute& c : program_.computes) {
        const std::vector<Expr> reads = te::reads_of(c, {input});
        readers += reads.empty() ? 0 : 1;
        for (const Expr& read : reads) own = own && is_own_element(c, read);
      }
      if (own && readers > (shared ? 0 : 1)) (shared ? fetched_inputs_ : held_inputs_).push_back(input.name);
    }
  }

  bool is_own_element(const te::Compute& c, const Expr& read) const {
    const auto last = static_cast<int>(read->args.size()) - 1;
    return std::cmp_greater_equal(te::own_axes(c, read), last) && read.arg(last).is_var() &&
           read.arg(last)->name == element_axis(c);
  }

  // Of one element of everything that is kept, each of which takes `min` bytes or more.
  int64_t kept_bytes(int64_t min) const {
    int64_t bytes = 0;
    const auto add = [&](const te::Tensor& t) { bytes += std::max<int64_t>(min, t.type.bytes()); };
    for (const te::Tensor& input : program_.inputs) {
      if (std::ranges::find(held_inputs_, input.name) != held_inputs_.end()) add(input);
    }
    for (const te::Compute& c : program_.computes) {
      if (keeps_row(c)) add(c.outputs[0]);
    }
    return bytes;
  }
  int64_t shared_bytes() const { return kept_bytes(1) * tile_rows() * length_; }
  // Of a tile: what combining needs, and what the hardware keeps for itself, stay free.
  int64_t max_shared() const { return target_.levels.front().capacity_bytes - kReservedShared; }

  // Tiles and threads of the output. Returns the loop that holds a tile.
  std::string tile_output() {
    const std::string& name = output_.name();
    std::vector<std::string> tiles = axis_names(output_.axes);
    tiles.resize(rows_);
    const std::string row = tiles.back();
    s().split(name, row, {tile_rows()});
    tiles.back() = row + ".0";
    mapping_.map_to_threads(s(), name, row + ".1", element_axis(output_));
    s().parallel(name, tiles);
    return row + ".0";
  }

  std::string element_axis(const te::Compute& c) const {
    if (c.is_reduction()) return c.reduce_axes[0].name;
    return c.axes.size() > rows_ ? c.axes[rows_].name : std::string();
  }

  void attach(const std::string& stage, const std::string& tile, loop::Scope scope) {
    s().compute_at(stage, output_.name(), tile, scope);
  }

  void tile_stage(const te::Compute& c) {
    if (keeps_row(c)) return tile_kept(c.name());
    mapping_.map_to_threads(s(), c.name(), c.axes[rows_ - 1].name, element_axis(c));
  }

  // A stage that keeps rows. In registers its axes are the rows, then threads, chunks, lanes.
  void tile_kept(const std::string& stage) {
    const auto axis = [&](size_t d) { return fmt::format("i{}", d); };
    if (!in_registers_) return mapping_.map_to_threads(s(), stage, axis(rows_ - 1), axis(rows_));
    s().threads(stage, axis(rows_ - 1));
    mapping_.map_axes_to_threads(s(), stage, rows_);
  }

  const te::Program& program_;
  const te::Compute& output_;
  size_t rows_;
  const std::set<std::string>&statistics_, &kept_;
  const TargetInfo& target_;
  Construction& out_;
  int64_t length_ = 1;
  RowMapping mapping_;
  bool in_registers_ = false;  // where kept rows are stored; else in the tile's shared memory
  std::vector<std::string> held_inputs_;
  std::vector<std::string> fetched_inputs_;
};

// Constants whose elements a sum meets apart from each other are stored with its axis last: the matrix of a product
// with a vector.
std::map<std::string, Layout> layouts_along_sums(const GroupTask& task) {
  std::map<std::string, Layout> layouts;
  for (const te::Compute& c : task.program.computes) {
    if (c.reduce_axes.size() != 1) continue;
    te::visit_reads(c, [&](const Expr& read) {
      const int dim = te::dim_of_axis(read, c.reduce_axes[0].name);
      const auto last = static_cast<int>(read->args.size()) - 1;
      if (!task.kept.contains(read->name) || dim < 0 || dim == last) return;
      layouts[read->name] = dim_last(read->args.size(), dim);
    });
  }
  return layouts;
}

// All elements in one sum: tiles sum parts of them as rows, and one thread adds those.
Result<Candidates> construct_total(const GroupTask& task, const TargetInfo& target) {
  constexpr int64_t kMaxParts = 128;  // parts loaded at once
  Construction out;
  schedule::Schedule& s = out.schedule;
  te::Program program = schedule::inline_stages(s, task.program);
  std::set<std::string> terms;
  for (const te::Compute& c : program.computes) {
    if (!c.is_reduction() && te::num_points(c.axes) > 1 && terms.insert(c.name()).second) s.inline_stage(c.name());
  }
  program = te::inline_computes(program, terms);
  const Result<const te::Compute*> found = schedule::only_reduction(program);
  if (!found.ok()) return Reason{found.reason()};
  const te::Compute& sum = **found;
  const bool total = te::num_points(sum.axes) == 1 && sum.outputs.size() == 1 && task.program.outputs.size() == 1;
  if (!total || sum.reduce_axes.size() != 1 || !schedule::reduces_contiguous(sum))
    return declined("a reduction over several axes, or of elements apart");
  const auto& [elements, length] = sum.reduce_axes[0];
  if (length < kWarpThreads) return declined("rows shorter than a warp");
  int64_t bytes = 1, parts = kMaxParts;
  for (const te::Tensor& input : program.inputs) bytes = std::max<int64_t>(bytes, input.type.bytes());
  while (parts > 1 && (length % parts != 0 || length / parts < kMaxThreads * kFewElements)) parts /= 2;
  const RowMapping mapping = row_mapping(length / parts, target.vector_bytes / bytes, kFewElements);
  const std::string partial = sum.name() + ".rf", part = fmt::format("i{}", sum.axes.size());
  s.rfactor_blocks(sum.name(), elements, parts).split(partial, part, {1});
  mapping.map_to_threads(s, partial, part + ".1", elements);
  std::vector<std::string> tiles = axis_names(sum.axes);
  tiles.push_back(part + ".0");
  s.parallel(partial, tiles).unroll(sum.name(), "r0");
  out.trace = {fmt::format("{} parts, {} threads each, {} times {} elements a thread", parts, mapping.threads,
                           mapping.chunks(), mapping.lanes)};
  return Candidates{std::move(out)};
}

}  // namespace

Result<Candidates> construct_gpu_rows(const GroupTask& task, const TargetInfo& target) {
  if (!task.program.computes.empty() && te::num_points(task.program.computes.back().axes) == 1) {
    Result<Candidates> total = construct_total(task, target);
    if (total.ok() || task.program.computes.back().axes.empty()) return total;
  }
  Construction out;
  out.constant_layouts = layouts_along_sums(task);
  const Result<schedule::RowProgram> found =
      schedule::row_program(out.schedule, te::apply_layouts(task.program, out.constant_layouts));
  if (!found.ok()) return Reason{found.reason()};
  schedule::RowProgram rows = *found;
  for (;;) {
    BlockRows block(rows, target, out);
    const std::string reason = block.why_declined();
    if (reason.empty()) {
      block.run();
      return Candidates{std::move(out)};
    }
    if (reason != BlockRows::kTooLong) return declined("{}", reason);
    const std::set<std::string> unkept = block.keepers();
    // Rows of which a tile cannot keep an element: what would be kept is computed where it is read.
    for (const te::Compute& c : rows.program.computes) {
      if (unkept.contains(c.name())) out.schedule.inline_stage(c.name());
    }
    rows.program = te::inline_computes(rows.program, unkept);
  }
}

}  // namespace tw::construct
