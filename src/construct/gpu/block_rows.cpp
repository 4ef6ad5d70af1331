#include "construct/gpu/block_rows.h"

#include <bit>
#include <cmath>
#include <numeric>

#include "construct/elementwise.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

constexpr int64_t kTileThreads = 128;  // short rows share a tile
constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kThreadElements = 32;  // elements in flight of a thread
constexpr int64_t kFewElements = 8;      // the same where rows are too few for all SMs: latency of one row counts
constexpr int64_t kBusyThreads = 512;    // threads of a busy SM
constexpr int64_t kMaxRegisters = 64;    // registers of a thread for elements of a row
constexpr int64_t kRegisterBytes = 4;
constexpr int64_t kFewReaders = 7;  // rows that read the same: of more, products of matrices make tiles

}  // namespace

RowMapping row_mapping(int64_t length, int64_t lanes, int64_t elements) {
  while (lanes > 1 && length / lanes < kWarpThreads) lanes /= 2;
  RowMapping mapping{length, lanes};
  const auto wanted = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(length, elements))));
  mapping.threads = std::clamp(wanted, kWarpThreads, kMaxThreads);
  const int64_t max = std::min(2 * mapping.threads, kMaxThreads);
  const auto distance = [&](int64_t threads) {
    return std::abs(std::log2(static_cast<double>(threads) / static_cast<double>(wanted)));
  };
  int64_t best = 0;
  for (int64_t threads = std::max(kWarpThreads, mapping.threads / 2); threads <= max; threads += kWarpThreads) {
    if (length % (threads * lanes) == 0 && (best == 0 || distance(threads) < distance(best))) best = threads;
  }
  if (best != 0) mapping.threads = best;
  return mapping;
}

BlockRows::BlockRows(const schedule::RowProgram& rows, const TargetInfo& target, Construction& out)
    : program_(rows.program),
      output_(rows.program.computes.back()),
      rows_(rows.rows),
      statistics_(rows.statistics),
      kept_(rows.kept),
      target_(target),
      out_(out) {}

std::string BlockRows::why_declined() {
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
    fills_up_ = c.name() == output_.name() && !c.is_reduction() && length_ != 1 && length > length_;
    if (fills_up_) continue;
    if (length_ != 1 && length != length_) return "rows of different lengths";
    length_ = length;
  }
  if (length_ < kWarpThreads) return "rows shorter than a warp";
  const int64_t share = row_count() * length_ / (std::max(1, target_.compute_units) * kBusyThreads);
  mapping_ = row_mapping(length_, widest_access(), std::clamp(share, kFewElements, kThreadElements));
  find_held();
  in_registers_ = mapping_.is_even() && !fills_up_ &&
                  kept_bytes(kRegisterBytes) * mapping_.chunks() * mapping_.lanes <= kMaxRegisters * kRegisterBytes;
  // Where an SM has few rows and nothing else to do, what these share is on its way while they are summed.
  if (!in_registers_ || tile_rows() > 1 || mapping_.chunks() * mapping_.lanes > kFewElements) fetched_inputs_.clear();
  if (in_registers_ || shared_bytes() <= max_shared()) return {};
  reads_again_ = !held_inputs_.empty();
  held_inputs_.clear();
  return shared_bytes() <= max_shared() ? std::string() : kTooLong;
}

bool BlockRows::fits_turns(int64_t elements, int64_t sums, int64_t together) {
  int64_t lanes = widest_access();
  mapping_ = row_mapping(length_, lanes, elements);
  for (; lanes > 1 && !mapping_.is_even(); mapping_ = row_mapping(length_, lanes, elements)) lanes /= 2;
  held_inputs_.clear(), fetched_inputs_.clear();
  find_held();
  mapping_.rows_by = RowsBy::kTurns;
  in_registers_ = mapping_.is_even() && !fills_up_;
  const int64_t bytes = kept_bytes(kRegisterBytes) * together + kRegisterBytes * (sums + std::ssize(fetched_inputs_));
  return in_registers_ && bytes * mapping_.chunks() * mapping_.lanes <= RowMapping::kTurnRegisters * kRegisterBytes;
}

std::set<std::string> BlockRows::keepers() const {
  std::set<std::string> names;
  for (const te::Compute& c : program_.computes) {
    if (keeps_row(c)) names.insert(c.name());
  }
  return names;
}

void BlockRows::schedule_tiles() {
  lay_out_kept();
  const std::string tile = tile_output();
  schedule_turns({output_.name(), tile, output_.name(), tile, ""}, s());
  out_.trace = {fmt::format("{} rows a tile, {} threads a row, {} times {} elements a thread", tile_rows(),
                            mapping_.threads, mapping_.chunks(), mapping_.lanes)};
}

void BlockRows::lay_out_kept() {
  const Layout kept = in_registers_ ? mapping_.layout(rows_) : Layout();
  for (const te::Compute& c : program_.computes) {
    if (!keeps_row(c) || !in_registers_) continue;
    if (kept_.contains(c.name())) {
      out_.schedule.layout(c.name(), kept);
    } else {
      out_.constant_layouts[c.name()] = kept;
    }
  }
  for (const std::string& input : held_inputs_) s().cache_read(input, {}).layout(input + ".cache", kept);
  for (const std::string& input : fetched_inputs_)
    s().cache_read(input, {}).layout(input + ".cache", mapping_.layout(0));
}

void BlockRows::schedule_turns(const Turns& turns, schedule::Schedule& s) const {
  const loop::Scope scope = in_registers_ ? loop::Scope::kRegister : loop::Scope::kStack;
  for (const te::Compute& c : program_.computes) {
    if (is_number(c)) s.inline_stage(c.name());
  }
  for (auto c = program_.computes.rbegin(); c != program_.computes.rend(); ++c) {
    if (statistics_.contains(c->name())) {
      s.write_at(c->name(), turns.consumer, turns.rows, turns.read);
    } else if (c->name() != output_.name() && !is_number(*c)) {
      s.compute_at(c->name(), turns.consumer, turns.rows,
                   keeps_row(*c) || is_of_threads(*c) ? scope : loop::Scope::kStack);
    }
  }
  for (const std::string& input : held_inputs_) s.compute_at(input + ".cache", turns.consumer, turns.rows, scope);
  for (const std::string& input : fetched_inputs_)
    s.compute_at(input + ".cache", turns.root, turns.outside, loop::Scope::kRegister);
  for (const te::Compute& c : program_.computes) {
    if (c.name() != output_.name() && !is_number(c)) tile_stage(c, s);
  }
  for (const std::string& input : held_inputs_) tile_kept(input + ".cache", s);
  for (const std::string& input : fetched_inputs_) mapping_.map_axes_to_threads(s, input + ".cache", 0);
}

std::string BlockRows::held_name(const std::string& tensor) const {
  const bool held = std::ranges::find(held_inputs_, tensor) != held_inputs_.end();
  return tensor + (held ? ".cache" : "");
}

// Whether each row reads contiguous elements that no other row reads, or that few do. Elsewhere, in a product of
// matrices, threads of different rows do better side by side.
bool BlockRows::has_rows_of_its_own(const te::Compute& c) const {
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

int64_t BlockRows::row_count() const { return num_elements(output_.outputs[0].shape) / elements(output_); }

// Short rows share a tile, when the last axis of rows can be tiled and there are tiles for all SMs.
int64_t BlockRows::tile_rows() const {
  int64_t rows = std::max<int64_t>(1, kTileThreads / mapping_.threads);
  while (rows > 1 && (output_.axes[rows_ - 1].extent % rows != 0 || row_count() < rows * target_.compute_units))
    rows /= 2;
  return rows;
}

// Elements of one access: as many of the widest type that lies along rows in memory as a vector holds, or fewer, so
// that each line there begins with a whole access. Lines may be longer than rows. What rows are chosen by does not
// count.
int64_t BlockRows::widest_access() const {
  int64_t bytes = 1, together = target_.vector_bytes;
  const auto add = [&](const te::Tensor& t) {
    if (t.shape.empty() || t.shape.back() < length_) return;
    bytes = std::max<int64_t>(bytes, t.type.bytes());
    if (t.shape.size() > 1) together = std::gcd(together, t.shape.back());
  };
  for (const te::Compute& c : program_.computes) {
    if (is_stored(c)) std::ranges::for_each(c.outputs, add);
    for (const te::Tensor& input : program_.inputs) {
      const auto lies_along = [&](const Expr& read) {
        return !read->args.empty() && uses_var(read->args.back(), element_axis(c));
      };
      if (std::ranges::any_of(te::reads_of(c, {input}), lies_along)) add(input);
    }
  }
  return std::min(together, target_.vector_bytes / bytes);
}

// Whether every thread of a row may have its sum in a register. Of several rows a tile, threads that store numbers have
// others' rows.
bool BlockRows::is_of_threads(const te::Compute& sum) const {
  const bool one_row = mapping_.rows_by == RowsBy::kTurns || tile_rows() == 1;
  return one_row || std::ranges::none_of(program_.computes, [&](const te::Compute& c) {
           return is_stored(c) && elements(c) == 1 && te::depends_on(program_, c, sum.name());
         });
}

// Inputs that are read at their own point by more than one stage; vectors that all rows share, as scales and shifts of
// a norm are.
void BlockRows::find_held() {
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

bool BlockRows::is_own_element(const te::Compute& c, const Expr& read) const {
  const auto last = static_cast<int>(read->args.size()) - 1;
  return std::cmp_greater_equal(te::own_axes(c, read), last) && read.arg(last).is_var() &&
         read.arg(last)->name == element_axis(c);
}

// Of one element of everything that is kept, each of which takes `min` bytes or more.
int64_t BlockRows::kept_bytes(int64_t min) const {
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

// Of a tile: what combining needs, and what the hardware keeps for itself, stay free.
int64_t BlockRows::max_shared() const { return target_.levels.front().capacity_bytes - kReservedShared; }

// Tiles and threads of the output. Returns the loop that holds a tile.
std::string BlockRows::tile_output() {
  const std::string& name = output_.name();
  std::vector<std::string> tiles = te::axis_names(output_.axes);
  tiles.resize(rows_);
  const std::string row = tiles.back();
  s().split(name, row, {tile_rows()});
  tiles.back() = row + ".0";
  mapping_.map_to_threads(s(), name, row + ".1", element_axis(output_));
  s().parallel(name, tiles);
  return row + ".0";
}

std::string BlockRows::element_axis(const te::Compute& c) const {
  if (c.is_reduction()) return c.reduce_axes[0].name;
  return c.axes.size() > rows_ ? c.axes[rows_].name : std::string();
}

void BlockRows::tile_stage(const te::Compute& c, schedule::Schedule& s) const {
  if (keeps_row(c)) return tile_kept(c.name(), s);
  mapping_.map_to_threads(s, c.name(), c.axes[rows_ - 1].name, element_axis(c));
}

// A stage that keeps rows. In registers its axes are the rows, then threads, chunks, lanes.
void BlockRows::tile_kept(const std::string& stage, schedule::Schedule& s) const {
  const auto axis = [&](size_t d) { return fmt::format("i{}", d); };
  if (!in_registers_) return mapping_.map_to_threads(s, stage, axis(rows_ - 1), axis(rows_));
  mapping_.map_rows(s, stage, axis(rows_ - 1));
  mapping_.map_axes_to_threads(s, stage, rows_);
}

}  // namespace tw::construct
