// Between the two products of an attention, a model that masks scores by window splits the batch into images and their
// windows, and joins it again behind the sum with the mask. The sum is one of joined batches here, to which the mask is
// repeated: tiles read it through that, and the two products may be one chain.
#include "transform/editor.h"
#include "transform/passes.h"
#include "transform/roles.h"

namespace tw::transform {
namespace {

// For each dim of `joined` the dims of `split` that it has in one, so many from there on. Nothing where these are not
// dims that come together, or where the last two are others.
using Runs = std::vector<Ints>;

std::optional<Runs> runs_of(const Shape& split, const Shape& joined) {
  if (joined.size() < 3 || split.size() <= joined.size() || num_elements(split) == 0) return std::nullopt;
  if (!std::equal(split.end() - 2, split.end(), joined.end() - 2)) return std::nullopt;
  Runs runs(joined.size());
  size_t d = 0;
  for (size_t j = 0; j + 2 < joined.size(); ++j) {
    int64_t extent = 1;
    while (d + 2 < split.size() && (extent < joined[j] || (j + 3 == joined.size() && split[d] == 1))) {
      extent *= split[d];
      runs[j].push_back(static_cast<int64_t>(d++));
    }
    if (extent != joined[j]) return std::nullopt;
  }
  if (d + 2 != split.size()) return std::nullopt;
  for (size_t j = joined.size() - 2; j < joined.size(); ++j) runs[j] = {static_cast<int64_t>(d++)};
  return runs;
}

class BatchJoiner {
 public:
  BatchJoiner(const graph::Graph& graph, const graph::OpTable& ops) : editor_(graph, ops) {}

  graph::Graph run() {
    editor_.for_each_old([&](const Node& node) { join(node); });
    return editor_.finish();
  }

 private:
  void join(const Node& node) {
    if (!is_pointwise(editor_.ops(), node) || node.outputs.size() != 1 || node.inputs.size() != 2) return;
    for (const size_t k : {0, 1}) {
      const Node* split = editor_.producer(node.inputs[k], "reshape");
      if (split == nullptr || editor_.use_count(node.inputs[k]) != 1) continue;
      const ValueId x = split->inputs[0];
      const Shape whole = editor_.shape(node.outputs[0]), joined = editor_.shape(x);
      if (editor_.shape(node.inputs[k]) != whole || !is_joined_again(node, joined)) continue;
      const std::optional<Runs> runs = runs_of(whole, joined);
      if (!runs) continue;
      Node moved = node;
      moved.inputs[k] = x;
      moved.inputs[1 - k] = repeated(node.inputs[1 - k], whole, *runs);
      const ValueId value = editor_.add(std::move(moved));
      editor_.replace(editor_.node(reader_of(node)).outputs[0], value);
      return;
    }
  }

  size_t reader_of(const Node& node) const { return static_cast<size_t>(editor_.readers(node.outputs[0])[0]); }

  bool is_joined_again(const Node& node, const Shape& joined) const {
    if (editor_.use_count(node.outputs[0]) != 1 || editor_.readers(node.outputs[0]).empty()) return false;
    const Node& reader = editor_.node(reader_of(node));
    return reader.op == "reshape" && editor_.shape(reader.outputs[0]) == joined;
  }

  // What is broadcast to the shape `whole`, for joined dims: repeated along those dims of a run that it lacks.
  ValueId repeated(ValueId id, const Shape& whole, const Runs& runs) {
    const Shape own = editor_.shape(id);
    Shape apart(whole.size() - own.size(), 1), joined;
    apart.insert(apart.end(), own.begin(), own.end());
    Shape full = apart;
    for (const Ints& run : runs) {
      const bool has_any = std::ranges::any_of(run, [&](int64_t d) { return apart[d] > 1; });
      joined.push_back(1);
      for (const int64_t d : run) {
        if (has_any) full[d] = whole[d];
        joined.back() *= full[d];
      }
    }
    const std::string name = editor_.value(id).name;
    if (apart != own) id = editor_.emit(name, "reshape", {id}, {{"shape", apart}});
    if (full != apart) id = editor_.emit(name, "expand", {id}, {{"shape", full}});
    return editor_.emit(name, "reshape", {id}, {{"shape", joined}});
  }

  Editor editor_;
};

}  // namespace

// On CPUs the mask would be copied.
graph::Graph join_batches(const graph::Graph& graph, const TransformContext& context) {
  if (context.target.kind == DeviceKind::kCpu) return graph;
  return BatchJoiner(graph, context.ops).run();
}

}  // namespace tw::transform
