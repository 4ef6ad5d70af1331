#include "advise/advice.h"

#include <algorithm>
#include <tuple>

#include "advise/activations.h"
#include "advise/channels.h"
#include "frontend/onnx/edit/activations.h"

namespace tw::advise {
namespace {

using frontend::Rewrite;
using graph::Graph;
using graph::Node;

std::string times(size_t count) { return count == 1 ? "once" : fmt::format("{} times", count); }

class Adviser {
 public:
  Adviser(const frontend::EditableModel& model, const Graph& graph, const transform::TransformContext& context,
          const AdviceOptions& options)
      : model_(model), graph_(graph), context_(context), options_(options) {}

  std::vector<Advice> run() {
    activations_ = find_activations(graph_, context_);
    advise_activations();
    advise_deepening();
    advise_alignment();
    return std::move(advice_);
  }

 private:
  const Node& node(int n) const { return graph_.nodes[static_cast<size_t>(n)]; }
  const TensorType& type(graph::ValueId id) const { return graph_.value(id).type; }
  const std::string& name(graph::ValueId id) const { return graph_.value(id).name; }

  // ---- Other activations in the place of each that is there.

  void advise_activations() {
    std::map<std::string, std::vector<const Activation*>> by_op;
    for (const Activation& a : activations_) by_op[a.op].push_back(&a);
    for (const auto& [op, places] : by_op) {
      for (const frontend::ActivationForm& form : frontend::activation_forms()) {
        if (form.name == op || form.since > model_.opset()) continue;
        Advice advice{AdviceKind::kActivation,
                      fmt::format("{} instead of {}, {}", form.name, op, times(places.size()))};
        for (const Activation* a : places) {
          advice.nodes.push_back(node(graph_.producer(a->result)).name);
          Rewrite rewrite{Rewrite::Kind::kActivation, name(a->result), name(a->source), std::string(form.name)};
          rewrite.type = type(a->source);
          advice.rewrites.push_back(std::move(rewrite));
        }
        advice_.push_back(std::move(advice));
      }
    }
  }

  // ---- 1 x 1 convolutions behind 3 x 3 ones and their activations.

  struct Layer {
    const Activation* activation;
    const Node* conv;
  };

  void advise_deepening() {
    const std::vector<Layer> layers = deepenable();
    std::map<std::tuple<Shape, Shape>, std::vector<Layer>> alike;  // by shapes of weights and result
    for (const Layer& l : layers) alike[{type(l.conv->inputs[1]).shape, type(l.conv->outputs[0]).shape}].push_back(l);
    std::vector<Layer> first = layers;
    for (const Layer& l : layers) {
      const Shape &w = type(l.conv->inputs[1]).shape, &y = type(l.conv->outputs[0]).shape;
      const std::vector<Layer>& same = alike[{w, y}];
      if (same.front().conv != l.conv) continue;
      deepen(fmt::format("behind {} to {} channels at {}, {}", w[1], w[0], fmt::join(y.begin() + 2, y.end(), "x"),
                         times(same.size())),
             same);
    }
    const auto count = static_cast<size_t>(options_.first_layers);
    if (count > 1 && layers.size() > count)
      deepen(fmt::format("behind the first {} of {}", count, layers.size()),
             {layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(count)});
    if (alike.size() > 1) deepen("behind all but the last", {layers.begin(), layers.end() - 1});
  }

  // In the order of the model.
  std::vector<Layer> deepenable() const {
    std::vector<Layer> layers;
    for (const Activation& a : activations_) {
      for (const int n : a.contractions) {
        if (!is_3x3(node(n)) || type(node(n).outputs[0]).shape != type(a.result).shape) continue;
        layers.push_back({&a, &node(n)});
        break;
      }
    }
    return layers;
  }

  bool is_3x3(const Node& conv) const {
    if (conv.op != "conv" || conv.int_attr_or("group", 1) != 1) return false;
    const Shape& w = type(conv.inputs[1]).shape;
    return std::all_of(w.begin() + 2, w.end(), [](int64_t extent) { return extent == 3; });
  }

  void deepen(std::string what, const std::vector<Layer>& layers) {
    Advice advice{AdviceKind::kDeepen, std::move(what)};
    for (const Layer& l : layers) {
      const TensorType& weights = type(l.conv->inputs[1]);
      Rewrite rewrite{Rewrite::Kind::kPointwise, name(l.activation->result), name(l.activation->source)};
      rewrite.type = {weights.type, Shape(weights.shape.size(), 1)};
      rewrite.type.shape[0] = rewrite.type.shape[1] = weights.shape[0];
      advice.nodes.push_back(l.conv->name);
      advice.rewrites.push_back(std::move(rewrite));
    }
    advice_.push_back(std::move(advice));
  }

  // ---- Channels that fill vectors: of registers, and on GPUs of accesses to memory.

  // Of one number, behind results of one extent.
  struct Narrow {
    int64_t extent, wider;
    std::vector<Channels> places;
    Shape spatial;
  };

  void advise_alignment() {
    std::vector<Narrow> all;
    std::set<Axis> seen;
    for (const Node& node : graph_.nodes) {
      if (node.op != "conv" && node.op != "matmul") continue;
      const Shape& shape = type(node.outputs.front()).shape;
      const auto rank = static_cast<int64_t>(shape.size());
      const Axis start{node.outputs.front(), node.op == "conv" ? 1 : rank - 1};
      if (rank < 2 || seen.contains(start)) continue;
      const int64_t channels = shape[static_cast<size_t>(start.axis)];
      const int64_t lanes = context_.target.lanes(stored_type(type(start.value).type));
      if (channels % lanes == 0) continue;
      const Result<Channels> found = find_channels(graph_, context_.ops, start);
      if (!found.ok() || !is_in_file(*found)) continue;
      seen.insert(found->axes.begin(), found->axes.end());
      const Shape spatial(shape.begin() + (node.op == "conv" ? 2 : rank), shape.end());
      const auto same =
          std::ranges::find_if(all, [&](const Narrow& n) { return n.extent == channels && n.spatial == spatial; });
      if (same != all.end()) {
        same->places.push_back(*found);
      } else {
        all.push_back({channels, (channels + lanes - 1) / lanes * lanes, {*found}, spatial});
      }
    }
    for (const Narrow& narrow : all) widen(narrow);
  }

  // Elements that a node makes are not the file's to widen.
  bool is_in_file(const Channels& channels) const {
    return std::ranges::all_of(channels.axes, [&](const Axis& axis) {
      return !graph_.value(axis.value).is_constant() || model_.has_initializer(name(axis.value));
    });
  }

  // As pass `mixed-precision` has it.
  DataType stored_type(DataType type) const { return type == DataType::f32() ? context_.dtype : type; }

  void widen(const Narrow& narrow) {
    const std::string at = narrow.spatial.empty() ? "" : fmt::format(" at {}", fmt::join(narrow.spatial, "x"));
    Advice advice{AdviceKind::kAlign, fmt::format("{} channels instead of {}{}, {}", narrow.wider, narrow.extent, at,
                                                  times(narrow.places.size()))};
    std::set<graph::ValueId> widened;
    for (const Channels& channels : narrow.places) {
      for (const Axis& axis : channels.axes) {
        if (!graph_.value(axis.value).is_constant()) continue;
        Rewrite rewrite{Rewrite::Kind::kExtent, name(axis.value)};
        rewrite.axis = axis.axis;
        rewrite.extent = narrow.wider;
        rewrite.is_read = channels.summed.contains(axis);
        advice.rewrites.push_back(std::move(rewrite));
        widened.insert(axis.value);
      }
      for (const graph::ValueId id : channels.per_channel) {
        Rewrite rewrite{Rewrite::Kind::kGroup, name(id)};
        rewrite.extent = narrow.wider;
        advice.rewrites.push_back(std::move(rewrite));
      }
    }
    for (const Node& node : graph_.nodes) {
      if (std::ranges::any_of(node.inputs, [&](graph::ValueId id) { return widened.contains(id); }))
        advice.nodes.push_back(node.name);
    }
    advice_.push_back(std::move(advice));
  }

  const frontend::EditableModel& model_;
  const Graph& graph_;
  const transform::TransformContext& context_;
  const AdviceOptions& options_;
  std::vector<Activation> activations_;
  std::vector<Advice> advice_;
};

}  // namespace

std::string_view kind_name(AdviceKind kind) {
  constexpr std::string_view kNames[] = {"activation", "deepen", "align"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<Advice> find_advice(const frontend::EditableModel& model, const Graph& graph,
                                const transform::TransformContext& context, const AdviceOptions& options) {
  return Adviser(model, graph, context, options).run();
}

std::vector<Rewrite> joined_rewrites(const std::vector<const Advice*>& advice) {
  std::vector<Rewrite> all;
  for (const Advice* a : advice) {
    for (const Rewrite& rewrite : a->rewrites) {
      const auto same = std::ranges::find_if(all, [&](const Rewrite& r) {
        return std::tie(r.kind, r.target, r.axis) == std::tie(rewrite.kind, rewrite.target, rewrite.axis);
      });
      if (same == all.end()) {
        all.push_back(rewrite);
      } else if (*same != rewrite) {
        throw UsageError("'{}' would be changed in two ways: apply one of them", rewrite.target);
      }
    }
  }
  std::ranges::stable_sort(all, std::less<>(), &Rewrite::kind);
  return all;
}

}  // namespace tw::advise
