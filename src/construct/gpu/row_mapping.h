// Rows of a tile whose elements lie over threads: of softmax and norms, and between the products of a chain.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace tw::construct {

/// What runs the rows of a tile: threads beside each other, or each thread one after the other, unrolled.
enum class RowsBy : uint8_t { kThreads, kTurns };

/// Element (chunk * threads + t) * lanes + v of a row of `length` is thread t's.
struct RowMapping {
  static constexpr int64_t kTurnRegisters = 128;  // of a thread, at most, for elements of rows and for their sums
  int64_t length = 1;
  int64_t lanes = 1;
  int64_t threads = 1;
  RowsBy rows_by = RowsBy::kThreads;

  int64_t chunks() const;
  bool is_even() const { return length % (threads * lanes) == 0; }
  /// [rows.., length] with `rows` dims of rows -> [rows.., threads, chunks, lanes]: a thread's elements are stored
  /// together.
  Layout layout(size_t rows) const;
  /// The loops of a stage along `row` and, unless it is empty, along `elements`: threads outside, then chunks, vectors.
  void map_to_threads(schedule::Schedule& s, const std::string& stage, const std::string& row,
                      const std::string& elements) const;
  /// The loop of rows.
  void map_rows(schedule::Schedule& s, const std::string& stage, const std::string& row) const;
  /// Those of a stage in such a layout, whose axes from number `first` on are threads, chunks and lanes.
  void map_axes_to_threads(schedule::Schedule& s, const std::string& stage, size_t first) const;

 private:
  std::vector<std::string> row_loops(schedule::Schedule& s, const std::string& stage, const std::string& row) const;
  void mark_rows(schedule::Schedule& s, const std::string& stage, const std::string& row) const;
  void mark(schedule::Schedule& s, const std::string& stage, const std::string& chunk, const std::string& lane) const;
};

}  // namespace tw::construct
