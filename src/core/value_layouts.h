// How the values of a graph are stored, by their names: what passes decide and plans keep.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "core/layout.h"

namespace tw {

struct ValueLayouts {
  /// Of each value that a node computes: as its node writes it; of each state: as it is kept.
  std::map<std::string, Layout> values;
  /// Reads of a value in another layout than it is written in, from a copy: by the first value that the reading node
  /// computes and the number of its input. All other reads take the value as it is written.
  std::map<std::pair<std::string, int64_t>, Layout> reads;
  friend bool operator==(const ValueLayouts&, const ValueLayouts&) = default;
};

}  // namespace tw
