// What constructors and passes ask about the stages of a program before they are scheduled: which are inlined, which
// follow another one point by point, which share rows.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "support/error.h"

namespace tw::schedule {

/// Inlines every stage that is element-wise, no output and cheap to repeat: those read once, pure reads, and what is
/// made for what follows a sum of products but not of that. Returns the program with them inlined; appends the
/// primitives to `s`. Stages for which `keep` returns true stay.
te::Program inline_stages(
    Schedule& s, const te::Program& program,
    const std::function<bool(const te::Compute&)>& keep = [](const te::Compute&) { return false; });

/// Of each stage that is neither output nor reduction the one stage to which all that is made of it leads, everything
/// read at its own point: computed there, it is computed once and needs no place in memory. Others are left out.
std::map<std::string, std::string> point_ends(const te::Program& program);

/// The maths of `program` under a schedule of primitives that change nothing else.
te::Program rewritten(const te::Program& program, const Schedule& s);

/// The stage that owns the tiles: the only output among `source` and what follows it. Declines when something follows
/// that is not computed point by point from it.
Result<std::string> epilogue_output(const te::Program& program, const te::Compute& source);

/// The reduction of a program that has one; declines none and several.
Result<const te::Compute*> only_reduction(const te::Program& program);

/// All elements in one number or several, and what follows these.
struct Total {
  te::Program program;
  std::vector<std::string> sums = {};  // each of one axis of elements that lie beside each other
  int64_t elements = 0;
};
/// What is summed is inlined, by primitives behind those of `s`.
Result<Total> match_total(Schedule& s, const te::Program& program);

/// Whether the innermost reduction axis runs along contiguous elements of what is read.
bool reduces_contiguous(const te::Compute& compute);

/// An output without elements, or a sum of no terms: nothing to cut into tiles.
bool has_empty_axis(const te::Compute& compute);

/// Whether its body selects, as padding does: guards that must not reach an innermost loop.
bool has_select(const te::Compute& compute);

/// Whether its body calls an elementary function.
bool calls_function(const te::Compute& compute);

/// The number of leading axes that all stages of `program` share with the last one; 0: it is no row program.
size_t common_rows(const te::Program& program);

/// A program whose stages all share their leading axes, its rows, with the last one, its output.
struct RowProgram {
  te::Program program;
  size_t rows = 0;
  std::set<std::string> statistics = {};  // further outputs, of one element for each row: copies that nothing reads
  std::set<std::string> kept = {};        // what outputs are copies of: stages that the primitives make
};

/// What part_outputs() changes.
struct PartedOutputs {
  te::Program& program;
  std::set<std::string>&outputs, &kept;  // as of a RowProgram
};
/// Makes each of `outputs` a copy that nothing reads, made of one stage point by point; the primitives are appended to
/// `s`.
void part_outputs(Schedule& s, const std::vector<std::string>& outputs, const PartedOutputs& parted);

/// `program` as a row program, with what is cheap to repeat inlined (the primitives are appended to `s`). Declines
/// where nothing is reduced, or it is none.
Result<RowProgram> row_program(Schedule& s, const te::Program& program);

/// Why a thread of a GPU does not compute whole rows, all stages of each; empty when it does: they are short.
std::string why_not_by_thread(const RowProgram& rows);

/// A division or an elementary function of each row that other stages read at every point: it stays a stage.
bool is_once_a_row(const te::Program& program, const te::Compute& c);

}  // namespace tw::schedule
