// Where boxes of a graph stand: layers from top to bottom (Sugiyama, Tagawa and Toda, 1981: longest paths, places for
// edges that pass layers, barycentres). Private to the report.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace tw::artefact::report {

struct PlacedBox {
  double width = 0, height = 0;  // given
  double x = 0, y = 0;           // of its upper left corner
};

struct PlacedEdge {
  int from = 0, to = 0;                                // boxes, from < to
  std::vector<std::pair<double, double>> points = {};  // from the bottom of the one to the top of the other
};

struct Placement {
  std::vector<PlacedBox> boxes;
  std::vector<PlacedEdge> edges;
  double width = 0, height = 0;
};

/// Fills in places. Pre: edges go from smaller indices to larger ones.
Placement place_in_layers(Placement given);

/// A run of equal items that repeats: [begin, begin + length) and `times` in all, one behind the other.
struct Repeat {
  size_t begin = 0, length = 0, times = 0;
};
/// Repeats in `items` that do not overlap, the one that saves most first found; each saves at least 3 items.
std::vector<Repeat> find_repeats(const std::vector<size_t>& items);

}  // namespace tw::artefact::report
