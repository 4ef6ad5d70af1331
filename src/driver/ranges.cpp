#include "driver/ranges.h"

#include "driver/other_extents.h"
#include "ops/list.h"
#include "support/join.h"
#include "transform/rewrite/live_extents.h"

namespace tw::driver {
namespace {

using graph::Graph;
using graph::ValueId;
using transform::LiveRows;

// Ranges of the import that hold more than one extent, and what comes out of runs.
std::vector<transform::LiveExtent> live_extents(const frontend::ImportResult& model,
                                                const frontend::ImportOptions& import, const LeastExtents& all) {
  std::vector<transform::LiveExtent> extents;
  for (const auto& [name, least] : all) {
    const int64_t bound = import.dims.at(name);
    if (least < bound) extents.push_back({name, least, bound});
  }
  for (const frontend::CountedRows& rows : model.counted)
    extents.push_back({rows.name, 0, rows.bound, rows.rows, rows.count});
  return extents;
}

class RangeReader {
 public:
  RangeReader(const frontend::ImportResult& model, const frontend::ImportOptions& import, const LeastExtents& least,
              const LeastExtents& smallest)
      : model_(model), import_(import), smallest_(smallest), extents_(live_extents(model, import, least)) {}

  FunctionGraph run() {
    if (extents_.empty()) return {"", model_.graph};
    if (model_.skeleton.empty()) throw refusal(extents_.front(), "the model is too large for what varies");
    whole_ = import_again(model_, import_).graph;
    for (size_t e = 0; e < extents_.size(); ++e) read(static_cast<int>(e));
    transform::LiveGraph live;
    try {
      live = transform::serve_smaller_extents(model_.graph, ops::all_ops(), extents_, dims_);
    } catch (const Unsupported& error) {
      throw refusal_of_one(error.what());
    }
    FunctionGraph out{"", std::move(live.graph)};
    for (const auto& [id, rows] : live.outputs) check_output(out.graph.value(id), rows);
    for (size_t e = 0; e < extents_.size(); ++e) {
      if (extents_[e].is_counted()) continue;
      out.extents.push_back(describe(e, out.graph, live.outputs));
      const auto is_first = [](const format::ExtentDim& row) { return row.dim == 0; };
      out.extents.back().in_parts = live.rows_are_apart[e] && std::ranges::all_of(out.extents.back().outputs, is_first);
    }
    for (const int e : live.counted) say_count(extents_[static_cast<size_t>(e)], live.outputs, e, out);
    return out;
  }

 private:
  Unsupported refusal(const transform::LiveExtent& extent, const std::string& why) const {
    if (extent.is_counted())
      return Unsupported(
          "the number of rows of '{}' comes out of each run: {}. Fix what it comes from, --const NAME=@FILE",
          extent.name, why);
    const int64_t least = value_or(smallest_, extent.name, extent.least);
    return Unsupported("--dim {0}={1}..{2}: {3}. List the sizes instead: --dim {0}={4}", extent.name, least,
                       extent.bound, why, fmt::join(halves(least, extent.bound), ","));
  }

  // Some sizes of a range: its ends, and halves of the larger one.
  static std::vector<int64_t> halves(int64_t least, int64_t most) {
    constexpr size_t kMany = 3;
    std::vector<int64_t> sizes = {most};
    while (sizes.size() < kMany && sizes.front() / 2 > least) sizes.insert(sizes.begin(), sizes.front() / 2);
    if (least < sizes.front()) sizes.insert(sizes.begin(), least);
    return sizes;
  }

  // Of the first extent that is refused by itself; `why`: where it takes several.
  Unsupported refusal_of_one(const std::string& why) const {
    for (size_t e = 0; extents_.size() > 1 && e < extents_.size(); ++e) {
      transform::DependentDims alone = dims_;
      for (auto& [graph, values] : alone) {
        for (auto& [id, rows] : values) {
          std::erase_if(rows, [&](const LiveRows& r) { return r.length != static_cast<int>(e); });
          for (LiveRows& r : rows) r.length = 0;
        }
      }
      try {
        transform::serve_smaller_extents(model_.graph, ops::all_ops(), std::span(&extents_[e], 1), alone);
      } catch (const Unsupported& error) {
        return refusal(extents_[e], error.what());
      }
    }
    return refusal(extents_.front(), why);
  }

  static void say_count(const transform::LiveExtent& extent, const transform::RowsOfValues& outputs, int e,
                        FunctionGraph& out) {
    std::vector<std::string> names;
    for (const ValueId id : out.graph.outputs) {
      const auto found = outputs.find(id);
      if (found != outputs.end() && std::ranges::count(found->second, e, &LiveRows::length) > 0)
        names.push_back("'" + out.graph.value(id).name + "'");
    }
    out.warnings.push_back(fmt::format(
        "how many rows there are comes out of each run: {} {} room for {}, the output "
        "'{}' says how many of them hold something",
        fmt::join(names, ", "), names.size() == 1 ? "has" : "have", extent.bound, transform::output_of(extent)));
  }

  // What depends on the extent: values whose shapes are others one below the bound.
  void read(int e) {
    const transform::LiveExtent& extent = extents_[static_cast<size_t>(e)];
    const Graph smaller = imported(extent, extent.bound - 1);
    if (const int64_t least = std::max<int64_t>(1, extent.least); least < extent.bound - 1) imported(extent, least);
    take_graph(model_.graph, smaller, e);
  }

  void take_graph(const Graph& graph, const Graph& smaller, int e) {
    if (smaller.nodes.size() != graph.nodes.size()) {
      const transform::LiveExtent& extent = extents_[static_cast<size_t>(e)];
      throw refusal(extent, fmt::format("the graph is another one at {} than at {}", extent.bound - 1, extent.bound));
    }
    const bool is_model = &graph == &model_.graph;
    const auto take = [&](ValueId id, ValueId other, bool is_given) {
      if (id != graph::kAbsent) take_dims(graph, id, smaller.value(other).type.shape, {e, is_given});
    };
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      take(graph.inputs[i], is_model ? smaller.find_value(graph.value(graph.inputs[i]).name) : smaller.inputs[i],
           is_model);
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const graph::Node &node = graph.nodes[n], &same = smaller.nodes[n];
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const bool is_constant = node.inputs[k] != graph::kAbsent && graph.value(node.inputs[k]).is_constant();
        if (is_constant) take(node.inputs[k], same.inputs[k], true);
      }
      for (size_t k = 0; k < node.outputs.size(); ++k) take(node.outputs[k], same.outputs[k], false);
      if (node.body != nullptr) take_graph(*node.body, *same.body, e);
    }
  }

  Graph imported(const transform::LiveExtent& extent, int64_t size) const {
    frontend::ImportOptions other = import_;
    (extent.is_counted() ? other.bounds : other.dims)[extent.name] = size;
    Graph graph;
    try {
      graph = import_again(model_, other).graph;
    } catch (const UserError& error) {
      throw refusal(extent, fmt::format("at {} the model is wrong: {}", size, error.what()));
    }
    if (const std::string what = difference_in_extents(graph, whole_, {size, extent.bound}); !what.empty())
      throw refusal(extent, fmt::format("{} is another one at {} than at {}", what, size, extent.bound));
    return graph;
  }

  // How a value depends on an extent: one that is given has it itself.
  struct Dependence {
    int extent;
    bool is_given;
  };
  void take_dims(const Graph& graph, ValueId id, const Shape& smaller, Dependence on) {
    const graph::Value& value = graph.value(id);
    const transform::LiveExtent& extent = extents_[static_cast<size_t>(on.extent)];
    if (smaller.size() != value.type.shape.size())
      throw refusal(extent, fmt::format("'{}' has another number of dimensions", value.name));
    for (size_t d = 0; d < smaller.size(); ++d) {
      if (smaller[d] == value.type.shape[d]) continue;
      if (on.is_given && (value.type.shape[d] != extent.bound || smaller[d] != extent.bound - 1))
        throw refusal(extent, fmt::format("dimension {} of '{}' is not '{}' itself", d, value.name, extent.name));
      transform::RowsOfValue& rows = dims_[&graph][id];
      const LiveRows found{.dim = d,
                           .length = on.extent,
                           .extent = extent.bound,
                           .least = extent.least,
                           .other = transform::OtherRows::kFinite};
      if (std::ranges::none_of(rows, [&](const LiveRows& r) { return r.is_same(found); })) rows.push_back(found);
    }
  }

  format::Extent describe(size_t e, const Graph& live, const transform::RowsOfValues& outputs) const {
    format::Extent out{extents_[e].name, extents_[e].least, extents_[e].bound, {}, {}};
    const auto add = [&](const transform::RowsOfValue& all, size_t tensor, std::vector<format::ExtentDim>& dims) {
      for (const LiveRows& rows : all) {
        if (rows.length == static_cast<int>(e))
          dims.push_back({static_cast<int64_t>(tensor), static_cast<int64_t>(rows.dim), rows.inner});
      }
    };
    const transform::RowsOfValues none;
    const auto dims = dims_.find(&model_.graph);
    const transform::RowsOfValues& of_model = dims == dims_.end() ? none : dims->second;
    for (size_t i = 0; i < model_.graph.inputs.size(); ++i) {
      if (const auto found = of_model.find(model_.graph.inputs[i]); found != of_model.end())
        add(found->second, i, out.inputs);
    }
    for (size_t o = 0; o < live.outputs.size(); ++o) {
      const auto found = outputs.find(live.outputs[o]);
      if (found == outputs.end()) continue;
      add(found->second, o, out.outputs);
    }
    if (out.inputs.empty()) throw UsageError("--dim {}: no input has that dimension", out.name);
    return out;
  }

  // What a caller gets are the first elements of each dim.
  void check_output(const graph::Value& output, const transform::RowsOfValue& all) const {
    for (const LiveRows& rows : all) {
      const bool is_first = output.type.shape[rows.dim] == rows.inner * rows.extent;
      const bool is_alone = std::ranges::count(all, rows.dim, &LiveRows::dim) == 1;
      if (!is_first || !is_alone)
        throw refusal(
            extents_[static_cast<size_t>(rows.length)],
            fmt::format("output '{}' ({}) has rows of it between others", output.name, to_string(output.type)));
    }
  }

  const frontend::ImportResult& model_;
  const frontend::ImportOptions& import_;
  const LeastExtents& smallest_;
  const std::vector<transform::LiveExtent> extents_;
  Graph whole_;  // as import_again() has it
  transform::DependentDims dims_;
};

}  // namespace

std::vector<int64_t> extents_in_range(int64_t least, int64_t most) {
  constexpr int64_t kRows = 8;  // that kernels compute at once, or a multiple: fewer save little
  constexpr int64_t kPart = 8;  // of an extent that may be left empty
  std::vector<int64_t> extents;
  for (int64_t extent = most; extent >= least;) {
    extents.push_back(extent);
    const int64_t step = std::max(kRows, extent / kPart / kRows * kRows);
    extent = (extent - 1) / kRows * kRows - (step - kRows);
  }
  return extents;
}

FunctionGraph with_ranges(const frontend::ImportResult& model, const frontend::ImportOptions& import,
                          const LeastExtents& least, const LeastExtents& smallest) {
  return RangeReader(model, import, least, smallest).run();
}

}  // namespace tw::driver
