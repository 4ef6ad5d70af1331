// Rows of a program in a thread block of a GPU: the threads of a row keep its elements, so that each is read from
// memory once, and combine their partial results.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "construct/construct.h"
#include "construct/gpu/row_mapping.h"
#include "schedule/match/stages.h"

namespace tw::construct {

/// Threads near the number wanted such that no thread asks whether its element exists, where there are such; `elements`
/// of each. `lanes`: elements of one access, with which each row begins.
RowMapping row_mapping(int64_t length, int64_t lanes, int64_t elements);

class BlockRows {
 public:
  /// All outlive it. Layouts and loops go to `out`.
  BlockRows(const schedule::RowProgram& rows, const TargetInfo& target, Construction& out);

  /// Why the program is none of this family's; empty when it is. Before anything else.
  std::string why_declined();
  static constexpr const char* kTooLong = "rows longer than a tile holds";
  /// Stages that keep a row's elements.
  std::set<std::string> keepers() const;
  bool is_in_registers() const { return in_registers_; }
  /// Whether inputs that several stages read have no place in the tile's memory beside what is kept.
  bool reads_again() const { return reads_again_; }

  /// The last stage owns the tiles: a row each, or a few.
  void schedule_tiles();

  /// A kernel of another stage that takes rows one after the other, `together` at a time, in loop `rows` of `consumer`;
  /// in loop `outside` of `root`, around that, is what all rows read.
  struct Turns {
    std::string root, outside, consumer, rows;
    std::string read;  // a tensor that the consumer reads at these rows; empty: outputs are as far as others read them
  };
  /// Whether rows and `sums` elements more for each of theirs fit into registers, with `elements` of a row a thread.
  /// Before schedule_turns().
  bool fits_turns(int64_t elements, int64_t sums, int64_t together);
  /// Layouts of what stays in registers, and copies of inputs there.
  void lay_out_kept();
  /// All stages but the last one, behind lay_out_kept().
  void schedule_turns(const Turns& turns, schedule::Schedule& s) const;
  const RowMapping& mapping() const { return mapping_; }
  /// The input itself, or its copy in registers.
  std::string held_name(const std::string& tensor) const;

 private:
  schedule::Schedule& s() { return out_.schedule; }
  bool has_rows_of_its_own(const te::Compute& c) const;
  int64_t row_count() const;
  int64_t elements(const te::Compute& c) const { return c.axes.size() > rows_ ? c.axes[rows_].extent : 1; }
  bool is_stored(const te::Compute& c) const { return c.name() == output_.name() || statistics_.contains(c.name()); }
  bool keeps_row(const te::Compute& c) const { return elements(c) > 1 && !is_stored(c); }
  /// A number of each row made of others, which every thread computes for itself where it is read, as it has sums.
  bool is_number(const te::Compute& c) const {
    return in_registers_ && elements(c) == 1 && !c.is_reduction() && !is_stored(c);
  }
  int64_t tile_rows() const;
  bool is_of_threads(const te::Compute& sum) const;
  int64_t widest_access() const;
  void find_held();
  bool is_own_element(const te::Compute& c, const Expr& read) const;
  int64_t kept_bytes(int64_t min) const;
  int64_t shared_bytes() const { return kept_bytes(1) * tile_rows() * length_; }
  int64_t max_shared() const;
  std::string tile_output();
  std::string element_axis(const te::Compute& c) const;
  void tile_stage(const te::Compute& c, schedule::Schedule& s) const;
  void tile_kept(const std::string& stage, schedule::Schedule& s) const;

  const te::Program& program_;
  const te::Compute& output_;
  size_t rows_;
  const std::set<std::string>&statistics_, &kept_;
  const TargetInfo& target_;
  Construction& out_;
  int64_t length_ = 1;
  RowMapping mapping_;
  bool fills_up_ = false;      // the output: its rows are longer than all others, with what lies behind them
  bool in_registers_ = false;  // where kept rows are stored; else in the tile's shared memory
  bool reads_again_ = false;
  std::vector<std::string> held_inputs_;
  std::vector<std::string> fetched_inputs_;  // vectors that all rows share
};

}  // namespace tw::construct
