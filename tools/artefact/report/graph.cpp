// The graph before and after fusion: operators inside the boxes of their groups, values with their layouts between.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "artefact/report/layered.h"
#include "artefact/report/sections.h"
#include "artefact/report/svg.h"
#include "artefact/report/text.h"

namespace tw::artefact::report {
namespace {

constexpr double kBox = 230, kLine = 15, kMargin = 30, kCaller = 24;
constexpr size_t kMostOperators = 8, kMostBoxes = 250, kMostFolds = 100;

// A box of the picture: a group, or an input or output of the model.
struct Node {
  int group = -1;
  std::string name = {};                 // of an input or output
  size_t times = 1;                      // how many groups it stands for
  std::vector<std::string> values = {};  // type and layout of what leaves it
};

struct Picture {
  std::vector<Node> nodes;
  std::map<std::pair<int, int>, std::string> edges;  // with the class of their layout
  std::vector<Repeat> repeats;
  size_t left_out = 0;
};

std::vector<size_t> kinds_of(const EntryReport& entry) {
  std::vector<std::string> made(entry.groups.size());
  std::set<std::pair<int, std::string>> seen;
  for (const Flow& f : entry.flows) {
    if (f.from < 0 || !seen.emplace(f.from, f.value).second) continue;
    made[static_cast<size_t>(f.from)] += type_text(f.type) + layout_text(f.layout, f.type.shape);
  }
  std::map<std::string, size_t> known;
  std::vector<size_t> kinds;
  for (size_t g = 0; g < entry.groups.size(); ++g) {
    std::string kind = entry.groups[g].plan.family + made[g];
    for (const OperatorReport& o : entry.groups[g].operators) kind += " " + o.op;
    kinds.push_back(known.try_emplace(kind, known.size()).first->second);
  }
  return kinds;
}

// For each group the one that is drawn for it.
std::vector<size_t> drawn_for(size_t count, const std::vector<Repeat>& repeats) {
  std::vector<size_t> drawn(count);
  for (size_t g = 0; g < count; ++g) drawn[g] = g;
  for (const Repeat& r : repeats) {
    for (size_t i = 0; i < r.length * r.times; ++i) drawn[r.begin + i] = r.begin + i % r.length;
  }
  return drawn;
}

std::string layout_class(const Flow& f) { return f.layout.is_identity() ? "edge" : "edge laid"; }

class Builder {
 public:
  explicit Builder(const EntryReport& entry) : entry_(entry) {
    out_.repeats = find_repeats(kinds_of(entry));
    drawn_ = drawn_for(entry.groups.size(), out_.repeats);
  }

  Picture run() {
    for (const Flow& f : entry_.flows) {
      if (!f.is_constant && f.from < 0) node_of_caller(f.value, inputs_);
    }
    for (size_t g = 0; g < entry_.groups.size(); ++g) {
      if (drawn_[g] != g) continue;
      if (out_.nodes.size() >= kMostBoxes) {
        ++out_.left_out;
        continue;
      }
      groups_[g] = static_cast<int>(out_.nodes.size());
      out_.nodes.push_back({static_cast<int>(g)});
    }
    for (const Repeat& r : out_.repeats) {
      for (size_t i = 0; i < r.length; ++i) {
        if (groups_.contains(r.begin + i)) out_.nodes[static_cast<size_t>(groups_[r.begin + i])].times = r.times;
      }
    }
    for (const Flow& f : entry_.flows) {
      if (!f.is_constant) add(f);
    }
    return std::move(out_);
  }

 private:
  int node_of_caller(const std::string& name, std::map<std::string, int>& known) {
    const auto [found, fresh] = known.try_emplace(name, static_cast<int>(out_.nodes.size()));
    if (fresh) out_.nodes.push_back({-1, name});
    return found->second;
  }
  int node_of(int group) const {
    const auto found = groups_.find(drawn_[static_cast<size_t>(group)]);
    return found == groups_.end() ? -1 : found->second;
  }

  // Edges from one copy of a repeated block to the next go back to the first: they are not drawn.
  void add(const Flow& f) {
    const int from = f.from < 0 ? node_of_caller(f.value, inputs_) : node_of(f.from);
    if (from < 0) return;
    const int to = f.to < 0 ? node_of_caller(f.value, outputs_) : node_of(f.to);
    const bool is_first = f.from < 0 || drawn_[static_cast<size_t>(f.from)] == static_cast<size_t>(f.from);
    if (is_first && named_.insert({from, f.value}).second)
      out_.nodes[static_cast<size_t>(from)].values.push_back(fmt::format(
          "{} {}, {}", type_text(f.type), layout_text(f.layout, f.type.shape), count_text(f.type.elements(), "word")));
    if (to >= 0 && from < to) out_.edges.try_emplace({from, to}, layout_class(f));
  }

  const EntryReport& entry_;
  Picture out_;
  std::vector<size_t> drawn_;
  std::map<std::string, int> inputs_, outputs_;
  std::map<size_t, int> groups_;
  std::set<std::pair<int, std::string>> named_;
};

double height_of(const EntryReport& entry, const Node& node) {
  if (node.group < 0) return kCaller;
  const size_t operators = entry.groups[static_cast<size_t>(node.group)].operators.size();
  return 26 + kLine * static_cast<double>(std::min(operators, kMostOperators + 1));
}

// The colour of the family that computes most groups of the class.
std::string_view class_of(const OperatorReport& o) {
  constexpr std::string_view kFamilies[] = {"contraction", "rows", "generic"};
  return kFamilies[static_cast<size_t>(o.operator_class)];
}

void draw_operator(Svg& svg, const OperatorReport& o, const PlacedBox& box, double y) {
  constexpr double kMark = 8;
  svg.rect(box.x + 6, y - kMark, kMark, kMark, "tile " + family_class(class_of(o)));
  svg.text(box.x + 18, y, shortened(fmt::format("{} ({})", o.name, o.op), 29), "op");
  if (o.flop_per_word > 0)
    svg.text(box.x + box.width - 5, y, fmt::format("{:.3g}", o.flop_per_word), "tick", Anchor::kEnd);
}

void draw_group(Svg& svg, const Report& report, const Node& node, const PlacedBox& box) {
  const GroupReport& g = report.explained.groups[static_cast<size_t>(node.group)];
  svg.open_group(node.group, title_of(report, g)).rect(box.x, box.y, box.width, box.height, "node");
  svg.rect(box.x, box.y, box.width, 20, "tile " + family_class(g.plan.family));
  const std::string times = node.times > 1 ? fmt::format(", {} times", node.times) : "";
  const double us = best_known_us(g);
  svg.text(box.x + 6, box.y + 14, fmt::format("{}{}{}", g.plan.family, us > 0 ? ", " + time_text(us) : "", times),
           "on " + family_class(g.plan.family));
  double y = box.y + 34;
  for (size_t i = 0; i < g.operators.size(); ++i, y += kLine) {
    if (i == kMostOperators) {
      svg.text(box.x + 8, y, fmt::format("{} more operators", g.operators.size() - i), "tick");
      break;
    }
    draw_operator(svg, g.operators[i], box, y);
  }
  svg.close();
}

void draw_values(Svg& svg, const Node& node, const PlacedBox& box) {
  if (node.values.empty()) return;
  const std::string more = node.values.size() > 1 ? fmt::format(" and {} more", node.values.size() - 1) : "";
  svg.text(box.x + box.width / 2 + 8, box.y + box.height + 14, shortened(node.values.front(), 44) + more, "tick");
}

void draw_edge(Svg& svg, const PlacedEdge& edge, const std::string& classes) {
  std::string d = fmt::format("M{:.1f} {:.1f}", edge.points[0].first, edge.points[0].second);
  for (size_t i = 1; i < edge.points.size(); ++i) {
    const auto [x0, y0] = edge.points[i - 1];
    const auto [x, y] = edge.points[i];
    const double middle = (y0 + y) / 2;
    d += fmt::format("C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", x0, middle, x, middle, x, y);
  }
  svg.path(d, classes);
}

std::string drawing(const Report& report, const Picture& picture) {
  const EntryReport& entry = report.explained;
  Placement placed;
  for (const Node& n : picture.nodes) placed.boxes.push_back({kBox, height_of(entry, n)});
  for (const auto& [ends, classes] : picture.edges) placed.edges.push_back({ends.first, ends.second});
  placed = place_in_layers(std::move(placed));
  for (PlacedBox& b : placed.boxes) b.x += kMargin, b.y += kMargin;
  for (PlacedEdge& e : placed.edges) {
    for (auto& [x, y] : e.points) x += kMargin, y += kMargin;
  }
  Svg svg(placed.width + 2 * kMargin + 80, placed.height + 2 * kMargin,
          "Graph: groups as boxes with their operators, values between them");
  size_t e = 0;
  for (const auto& [ends, classes] : picture.edges) draw_edge(svg, placed.edges[e++], classes);
  for (size_t n = 0; n < picture.nodes.size(); ++n) {
    const Node& node = picture.nodes[n];
    const PlacedBox& box = placed.boxes[n];
    draw_values(svg, node, box);
    if (node.group >= 0) {
      draw_group(svg, report, node, box);
      continue;
    }
    svg.open_titled(shortened(node.name, 200)).rect(box.x, box.y, box.width, box.height, "node caller");
    svg.text(box.x + box.width / 2, box.y + 16, shortened(node.name, 34), "op", Anchor::kMiddle).close();
  }
  return svg.finish();
}

std::string folds(const EntryReport& entry, const Picture& picture) {
  std::string out;
  for (size_t i = 0; i < std::min(picture.repeats.size(), kMostFolds); ++i) {
    const Repeat& r = picture.repeats[i];
    out += fmt::format("<li>{} from {} on: {} times</li>", count_text(static_cast<int64_t>(r.length), "group"),
                       isolated(shortened(entry.groups[r.begin].plan.name, 60)), r.times);
  }
  return out.empty() ? "" : "<p>Blocks that repeat are drawn once:</p><ul>" + out + "</ul>\n";
}

std::string edges_table(const Report& report) {
  const EntryReport& entry = report.explained;
  const size_t most = report.limits.details;
  if (entry.edges.empty()) return "";
  Table table("Edges between operators: fused or apart, and why", {{"From"}, {"To"}, {"Value"}, {"Fused"}, {"Why"}});
  const auto rank = [](const plan::EdgeReason& e) { return e.is_fused; };  // those apart first: they cost memory
  std::vector<const plan::EdgeReason*> order;
  for (const plan::EdgeReason& e : entry.edges) order.push_back(&e);
  std::ranges::stable_sort(order, {}, [&](const plan::EdgeReason* e) { return rank(*e); });
  for (size_t i = 0; i < std::min(order.size(), most); ++i) {
    const plan::EdgeReason& e = *order[i];
    table.row({isolated(shortened(e.from, 50)), isolated(shortened(e.to, 50)), isolated(shortened(e.value, 50)),
               e.is_fused ? "fused" : "apart", escaped(shortened(e.why.text, 300))});
  }
  std::string out = "<details><summary>Why operators are fused or apart</summary>" + table.finish();
  if (order.size() > most)
    out +=
        fmt::format("<p class=\"note\">{} more edges: tilewright explain --why shows them.</p>", order.size() - most);
  return out + "</details>\n";
}

}  // namespace

std::string graph_section(const Report& report) {
  const EntryReport& entry = report.explained;
  const Picture picture = Builder(entry).run();
  int64_t operators = 0;
  for (const GroupReport& g : entry.groups) operators += static_cast<int64_t>(g.operators.size());
  std::string body =
      fmt::format("<p>{} before fusion (simplified, without constants), {} after it.</p>\n",
                  count_text(operators, "operator"), count_text(static_cast<int64_t>(entry.groups.size()), "group"));
  body += folds(entry, picture) + "<div class=\"tall\">" + drawing(report, picture) + "</div>\n";
  if (picture.left_out > 0)
    body += fmt::format("<p class=\"note\">{} more groups are not drawn.</p>\n", picture.left_out);
  return section(
      "graph", "Graph before and after fusion",
      "A box is a group: one kernel, or a few. Inside stand the operators that it was before, in their order, with the "
      "colour of their class (contraction, normalization or element-wise, in the colours of the families contraction, "
      "rows and generic) and their flop for each word that they read or write. "
      "Behind a box stands what leaves it, with its layout and its words (elements); a thick line is a value that is "
      "not stored row by "
      "row.",
      body + edges_table(report));
}

}  // namespace tw::artefact::report
