#include "artefact/report/layered.h"

#include <algorithm>
#include <numeric>

namespace tw::artefact::report {
namespace {

constexpr double kGap = 26, kLayerGap = 44, kPass = 14;
constexpr int kSweeps = 6;

// A box, or the place where an edge passes a layer.
struct Place {
  size_t layer = 0;
  double width = 0, x = 0;
  std::vector<size_t> above = {}, below = {};
};

class Layers {
 public:
  explicit Layers(const Placement& given) {
    for (const PlacedBox& box : given.boxes) places_.push_back({0, box.width});
    for (const PlacedEdge& e : given.edges) {  // boxes stand in topological order, but their edges need not
      edges_.emplace_back(static_cast<size_t>(e.from), static_cast<size_t>(e.to));
    }
    find_layers();
    for (size_t e = 0; e < edges_.size(); ++e) chains_.push_back(chain(edges_[e]));
    rows_.resize(1 + std::ranges::max(places_, {}, &Place::layer).layer);
    for (size_t p = 0; p < places_.size(); ++p) rows_[places_[p].layer].push_back(p);
  }

  void arrange() {
    for (std::vector<size_t>& row : rows_) pack(row);
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (size_t i = 0; i < rows_.size(); ++i) settle(rows_[down ? i : rows_.size() - 1 - i], down);
    }
    const double left = std::ranges::min(places_, {}, &Place::x).x;
    for (Place& p : places_) p.x -= left;
  }

  const Place& place(size_t i) const { return places_[i]; }
  const std::vector<size_t>& chain_of(size_t edge) const { return chains_[edge]; }
  size_t count() const { return rows_.size(); }
  double width() const {
    double most = 0;
    for (const Place& p : places_) most = std::max(most, p.x + p.width);
    return most;
  }

 private:
  void find_layers() {
    auto sorted = edges_;
    std::ranges::sort(sorted);
    for (const auto& [from, to] : sorted) places_[to].layer = std::max(places_[to].layer, places_[from].layer + 1);
  }

  // The places that an edge goes through, its boxes first and last.
  std::vector<size_t> chain(std::pair<size_t, size_t> edge) {
    std::vector<size_t> all = {edge.first};
    for (size_t layer = places_[edge.first].layer + 1; layer < places_[edge.second].layer; ++layer) {
      places_.push_back({layer, kPass});
      all.push_back(places_.size() - 1);
    }
    all.push_back(edge.second);
    for (size_t i = 0; i + 1 < all.size(); ++i) {
      places_[all[i]].below.push_back(all[i + 1]);
      places_[all[i + 1]].above.push_back(all[i]);
    }
    return all;
  }

  double middle(size_t p) const { return places_[p].x + places_[p].width / 2; }

  void pack(const std::vector<size_t>& row) {
    double all = -kGap;
    for (const size_t p : row) all += places_[p].width + kGap;
    double x = -all / 2;
    for (const size_t p : row) {
      places_[p].x = x;
      x += places_[p].width + kGap;
    }
  }

  // Orders a row by the mean of its neighbours above (or below), and moves it as near to these means as it may.
  void settle(std::vector<size_t>& row, bool down) {
    std::vector<std::pair<double, size_t>> wanted;
    for (const size_t p : row) {
      const std::vector<size_t>& near = down ? places_[p].above : places_[p].below;
      double mean = middle(p);
      if (!near.empty()) {
        mean = 0;
        for (const size_t n : near) mean += middle(n) / static_cast<double>(near.size());
      }
      wanted.emplace_back(mean, p);
    }
    std::ranges::stable_sort(wanted, {}, [](const auto& w) { return w.first; });
    double end = -1e300, slack = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      row[i] = wanted[i].second;
      Place& place = places_[row[i]];
      place.x = std::max(wanted[i].first - place.width / 2, end);
      slack += (place.x + place.width / 2 - wanted[i].first) / static_cast<double>(wanted.size());
      end = place.x + place.width + kGap;
    }
    for (const size_t p : row) places_[p].x -= slack;  // what was pushed to the right comes back by half
  }

  std::vector<Place> places_;
  std::vector<std::pair<size_t, size_t>> edges_;
  std::vector<std::vector<size_t>> chains_, rows_;
};

size_t times_at(const std::vector<size_t>& items, size_t begin, size_t length) {
  size_t end = begin + length;
  while (end + length <= items.size() && std::equal(items.begin() + static_cast<std::ptrdiff_t>(begin),
                                                    items.begin() + static_cast<std::ptrdiff_t>(begin + length),
                                                    items.begin() + static_cast<std::ptrdiff_t>(end)))
    end += length;
  return (end - begin) / length;
}

}  // namespace

Placement place_in_layers(Placement given) {
  if (given.boxes.empty()) return given;
  Layers layers(given);
  layers.arrange();
  std::vector<double> heights(layers.count()), tops(layers.count());
  for (size_t b = 0; b < given.boxes.size(); ++b) {
    double& height = heights[layers.place(b).layer];
    height = std::max(height, given.boxes[b].height);
  }
  for (size_t l = 0; l + 1 < tops.size(); ++l) tops[l + 1] = tops[l] + heights[l] + kLayerGap;
  for (size_t b = 0; b < given.boxes.size(); ++b) {
    given.boxes[b].x = layers.place(b).x;
    given.boxes[b].y = tops[layers.place(b).layer];
  }
  for (size_t e = 0; e < given.edges.size(); ++e) {
    PlacedEdge& edge = given.edges[e];
    const PlacedBox& from = given.boxes[static_cast<size_t>(edge.from)];
    edge.points = {{from.x + from.width / 2, from.y + from.height}};
    for (const size_t p : layers.chain_of(e)) {
      const size_t layer = layers.place(p).layer;
      const double x = layers.place(p).x + layers.place(p).width / 2;
      if (p < given.boxes.size()) continue;
      edge.points.emplace_back(x, tops[layer]);
      edge.points.emplace_back(x, tops[layer] + heights[layer]);
    }
    const PlacedBox& to = given.boxes[static_cast<size_t>(edge.to)];
    edge.points.emplace_back(to.x + to.width / 2, to.y);
  }
  given.width = layers.width();
  given.height = tops.back() + heights.back();
  return given;
}

std::vector<Repeat> find_repeats(const std::vector<size_t>& items) {
  constexpr size_t kLongest = 100, kLeastSaved = 3;
  std::vector<Repeat> found;
  for (size_t begin = 0; begin < items.size();) {
    Repeat best;
    for (size_t length = 1; length <= std::min(kLongest, (items.size() - begin) / 2); ++length) {
      const size_t times = times_at(items, begin, length);
      if ((times - 1) * length > (best.times == 0 ? 0 : (best.times - 1) * best.length)) best = {begin, length, times};
    }
    const bool is_worth_it = best.times > 1 && (best.times - 1) * best.length >= kLeastSaved;
    if (is_worth_it) found.push_back(best);
    begin += is_worth_it ? best.length * best.times : 1;
  }
  return found;
}

}  // namespace tw::artefact::report
