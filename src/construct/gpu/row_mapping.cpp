#include "construct/gpu/row_mapping.h"

#include <fmt/format.h>

#include "support/join.h"
#include "support/math.h"

namespace tw::construct {

int64_t RowMapping::chunks() const { return ceil_div(length, threads * lanes); }

Layout RowMapping::layout(size_t rows) const {
  std::vector<int64_t> order = sequence(rows + 3);
  std::swap(order[rows], order[rows + 1]);
  return Layout().split(static_cast<int>(rows), {chunks(), threads, lanes}).reorder(std::move(order));
}

void RowMapping::map_to_threads(schedule::Schedule& s, const std::string& stage, const std::string& row,
                                const std::string& elements) const {
  std::vector<std::string> order = row_loops(s, stage, row);
  if (!elements.empty()) {
    s.split(stage, elements, lanes > 1 ? std::vector<int64_t>{threads, lanes} : std::vector<int64_t>{threads});
    append(order, {elements + ".1", elements + ".0"});
    s.reorder(stage, order);
  }
  mark_rows(s, stage, row);
  if (elements.empty()) return;
  s.threads(stage, elements + ".1");
  mark(s, stage, elements + ".0", elements + ".2");
}

// Also of a sum, whose result one thread stores: it is one of a loop of threads that has one turn.
std::vector<std::string> RowMapping::row_loops(schedule::Schedule& s, const std::string& stage,
                                               const std::string& row) const {
  if (rows_by == RowsBy::kThreads) return {row};
  s.split(stage, row, {1});
  return {row + ".0", row + ".1"};
}

void RowMapping::mark_rows(schedule::Schedule& s, const std::string& stage, const std::string& row) const {
  if (rows_by == RowsBy::kThreads)
    s.threads(stage, row);
  else
    s.unroll(stage, row + ".0").threads(stage, row + ".1");
}

void RowMapping::map_rows(schedule::Schedule& s, const std::string& stage, const std::string& row) const {
  row_loops(s, stage, row);
  mark_rows(s, stage, row);
}

void RowMapping::map_axes_to_threads(schedule::Schedule& s, const std::string& stage, size_t first) const {
  const auto axis = [&](size_t d) { return fmt::format("i{}", first + d); };
  s.threads(stage, axis(0));
  mark(s, stage, axis(1), axis(2));
}

void RowMapping::mark(schedule::Schedule& s, const std::string& stage, const std::string& chunk,
                      const std::string& lane) const {
  constexpr int64_t kMaxUnrolled = 16;  // unless registers may hold the elements, which have constant places there
  if (chunks() <= kMaxUnrolled || chunks() * lanes <= kTurnRegisters) s.unroll(stage, chunk);
  if (lanes > 1) s.vectorize(stage, lane);
}

}  // namespace tw::construct
