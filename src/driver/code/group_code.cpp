#include "driver/code/group_code.h"

#include <bit>

#include "dataflow/work.h"
#include "schedule/match/contraction.h"
#include "support/join.h"
#include "te/join_outputs.h"
#include "te/merge_axes.h"
#include "te/reads.h"
#include "te/rewrite.h"
#include "transform/storage_order.h"

namespace tw::driver {
namespace {

// The value of the graph of groups behind a value of the group's body, or kAbsent for a constant of the body itself.
graph::ValueId outer_value(const GroupInputs& in, graph::ValueId inner) {
  const graph::Graph& body = *in.group.body;
  if (const int64_t i = index_of(body.inputs, inner); i >= 0) return in.group.inputs[i];
  const int64_t o = index_of(body.outputs, inner);
  return o >= 0 ? in.group.outputs[o] : graph::kAbsent;
}

double scalar_of(const graph::Value& value) {
  const graph::RefTensor t = graph::RefTensor::from_bytes(value.type, *value.constant);
  return t.at(0);
}

// 64-bit integers beyond 2^53 would not survive the way through a double.
bool is_bindable_scalar(const graph::Value& value) {
  if (!value.is_constant() || value.type.elements() != 1) return false;
  return value.type.type.is_float() || value.type.type.bits() <= 32 || std::abs(scalar_of(value)) < 9e15;
}

// New names by position for inputs, so that groups of equal maths have equal programs.
te::Program rename_inputs(const te::Program& program, std::map<std::string, std::string>& names) {
  te::Program out = program;
  for (size_t i = 0; i < out.inputs.size(); ++i) {
    const std::string fresh = fmt::format("x{}", i);
    names[out.inputs[i].name] = fresh;
    out.inputs[i].name = fresh;
  }
  for (te::Compute& c : out.computes) {
    for (Expr& body : c.body) {
      body = rewrite(body, [&](const Expr& e) -> Expr {
        return e.op() != Op::kLoad || !names.contains(e->name) ? Expr() : te::read_from(e, names[e->name]);
      });
    }
  }
  out.name = "group";
  return out;
}

// Layouts of activations: what the graph says for inputs and outputs; intermediate tensors follow these.
std::map<std::string, Layout> activation_layouts(const GroupInputs& in, const GroupTe& te) {
  std::map<std::string, Layout> layouts;
  for (const auto& [tensor, id] : te.values) {
    const graph::Value& value = in.graph.value(id);
    if (!value.is_kept() && !value.layout.is_identity()) layouts[tensor] = value.layout;
  }
  layouts.merge(te::followed_layouts(te.program, layouts));
  return layouts;
}

void merge_axes(GroupTe& te) {
  const std::map<std::string, Layout> merged = te::mergeable_axes(te.program);
  if (merged.empty()) return;
  te.program = te::merge_reductions(te::apply_layouts(te.program, merged));
  for (auto& [tensor, layout] : te.kept) {
    if (const auto found = merged.find(tensor); found != merged.end()) layout = layout.then(found->second);
  }
}

// The states whose next values the group computes.
std::vector<transform::StateNames> states_of(const GroupInputs& in) {
  std::vector<transform::StateNames> states;
  std::ranges::copy_if(in.states, std::back_inserter(states), [&](const transform::StateNames& names) {
    return std::ranges::any_of(in.group.outputs,
                               [&](graph::ValueId out) { return in.graph.value(out).name == names.after; });
  });
  return states;
}

// The program of `body`, the group's or part of it, in the layouts of the graph's values.
GroupTe te_of(const GroupInputs& in, const graph::Graph& body) {
  const graph::GroupProgram group = graph::to_te(body, in.ops);
  GroupTe te;
  std::map<std::string, double> scalars;
  std::map<std::string, graph::ValueId> inputs;
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    const std::string& tensor = group.program.inputs[i].name;
    const graph::ValueId outer = outer_value(in, group.inputs[i]);
    const graph::Value& value = outer == graph::kAbsent ? body.value(group.inputs[i]) : in.graph.value(outer);
    if (is_bindable_scalar(value)) {
      scalars[tensor] = scalar_of(value);
    } else {
      TW_CHECK(outer != graph::kAbsent, "group {} holds the constant {} of its own", in.group.name, value.name);
      inputs[tensor] = outer;
    }
  }
  std::map<std::string, std::string> names;
  te.program = rename_inputs(te::bind_scalars(te::drop_unit_reductions(group.program), scalars), names);
  for (const auto& [tensor, outer] : inputs) {
    te.values[names.at(tensor)] = outer;
    if (in.graph.value(outer).is_kept()) te.kept[names.at(tensor)] = Layout();
  }
  for (size_t i = 0; i < group.output_tensors.size(); ++i) te.values[group.output_tensors[i]] = in.group.outputs[i];
  te.program =
      te::order_reductions(te::join_outputs(te::join_sums(te::apply_layouts(te.program, activation_layouts(in, te)))));
  return te;
}

// The group's body with the rows alone that its update_slice puts into the state.
graph::Graph rows_of(const graph::Graph& body) {
  graph::Graph rows = body;
  graph::Node& last = rows.nodes.back();
  rows.values[last.outputs[0]].type = body.value(last.inputs[1]).type;
  last = {.op = "identity", .name = last.name, .inputs = {last.inputs[1]}, .outputs = last.outputs};
  const std::vector<std::vector<int>> readers = rows.consumers();
  std::erase_if(rows.inputs, [&](graph::ValueId id) { return readers[id].empty(); });
  return rows;
}

// The rows that an update_slice puts into a state.
GroupTe slice_te(const GroupInputs& in) {
  const graph::Node& node = in.group.body->nodes.back();
  const graph::ValueId position = outer_value(in, node.inputs[2]);
  TW_CHECK(position != graph::kAbsent, "group {} computes the position of {}", in.group.name, node.name);
  const graph::Value& state = in.graph.value(in.group.outputs[0]);
  const auto axis = static_cast<size_t>(node.int_attr("axis"));
  GroupTe te = te_of(in, rows_of(*in.group.body));
  InPlaceTe slice{te.program.outputs.front(), "", "position", in.graph.value(position).type.type};
  slice.positions = in.graph.value(position).type.elements();
  slice.extent = state.type.shape[axis];
  const std::optional<std::vector<int64_t>> order = transform::storage_order(state.layout, state.type.shape.size());
  TW_CHECK(order.has_value(), "the state '{}' is stored as {}", state.name, to_string(state.layout));
  slice.axis = static_cast<int>(index_of(*order, static_cast<int64_t>(axis)));
  slice.batch = static_cast<int>(index_of(*order, int64_t{0}));
  te.values[slice.position] = position;
  if (in.graph.value(position).is_kept()) te.kept[slice.position] = Layout();
  te.in_place = {slice};
  return te;
}

// Those of the states that the group reads, too.
std::vector<InPlaceTe> in_place_of(const GroupInputs& in, const GroupTe& te,
                                   const std::vector<transform::StateNames>& states) {
  std::vector<InPlaceTe> all;
  for (const transform::StateNames& state : states) {
    const graph::ValueId before = in.graph.find_value(state.before), after = in.graph.find_value(state.after);
    InPlaceTe out;
    for (const auto& [tensor, id] : te.values) {
      if (id == before) out.before = tensor;
      if (id == after) out.next = tensor;
    }
    if (out.before.empty()) continue;
    verify_in_place(te.program, out);
    all.push_back(out);
  }
  return all;
}

// Of `dims` dims that become others by fusing: whether each is one with that behind it. None are, if they change in
// another way, too.
std::vector<bool> fused_dims(const Layout& layout, size_t dims) {
  std::vector<std::vector<size_t>> now;
  for (size_t d = 0; d < dims; ++d) now.push_back({d});
  for (const LayoutPrimitive& p : layout.primitives()) {
    if (p.op != LayoutOp::kFuse) return std::vector<bool>(dims, false);
    const auto first = now.begin() + p.dim, end = first + p.args[0];
    for (auto next = first + 1; next != end; ++next) first->insert(first->end(), next->begin(), next->end());
    now.erase(first + 1, end);
  }
  std::vector<bool> joined(dims, false);
  for (const std::vector<size_t>& fused : now) {
    for (size_t i = 0; i + 1 < fused.size(); ++i) joined[fused[i]] = true;
  }
  return joined;
}

// Fields one behind the other, each with its size.
class Key {
 public:
  void add(int64_t number) { text_.append(reinterpret_cast<const char*>(&number), sizeof(number)); }
  void add(double number) { add(std::bit_cast<int64_t>(number)); }
  void add(std::string_view text) {
    add(std::ssize(text));
    text_ += text;
  }
  template <typename T>
  void add(const std::vector<T>& list) {
    add(std::ssize(list));
    for (const T& x : list) {
      if constexpr (std::is_arithmetic_v<T>)
        add(static_cast<std::conditional_t<std::is_integral_v<T>, int64_t, T>>(x));
      else
        add(std::string_view(x));
    }
  }
  void add(const TensorType& type) {
    add(static_cast<int64_t>(type.type.scalar()));
    add(type.shape);
  }
  void add(const graph::Node& node) {
    add(std::string_view(node.op));
    add(node.inputs);
    add(node.outputs);
    add(std::ssize(node.attrs));
    for (const auto& [name, value] : node.attrs) {
      add(std::string_view(name));
      add(static_cast<int64_t>(value.index()));
      std::visit([&](const auto& v) { add_value(v); }, value);
    }
  }
  std::string take() { return std::move(text_); }

 private:
  void add_value(const std::string& v) { add(std::string_view(v)); }
  template <typename T>
  void add_value(const T& v) {
    add(v);
  }
  std::string text_;
};

enum class ValueSource : uint8_t { kRead, kStored, kBound };  // at run time; a constant in memory; one in the code

}  // namespace

std::string text_of(const GroupTe& te) {
  std::string text = te::to_string(te.program);
  for (const auto& [tensor, layout] : te.kept) text += fmt::format("constant {}\n", tensor);
  return text;
}

GroupTe build_te(const GroupInputs& in) {
  const std::vector<transform::StateNames> states = states_of(in);
  const auto is_slice = [&](const transform::StateNames& state) {
    return transform::in_place(in.ops, in.graph, in.group, in.graph.find_value(state.before), in.group.outputs[0]) ==
           transform::InPlace::kSlice;
  };
  if (std::ranges::any_of(states, is_slice)) return slice_te(in);
  GroupTe te = te_of(in, *in.group.body);
  merge_axes(te);
  te.in_place = in_place_of(in, te, states);
  return te;
}

std::map<graph::ValueId, std::vector<bool>> joined_dims(const GroupInputs& in) {
  const GroupTe te = te_of(in, *in.group.body);
  const std::map<std::string, Layout> merged = te::mergeable_axes(te.program);
  std::map<graph::ValueId, std::vector<bool>> joined;
  for (const auto& [tensor, id] : te.values) {
    if (in.graph.value(id).is_kept()) continue;
    const Layout layout = value_or(merged, tensor, Layout());
    const std::vector<bool> here = fused_dims(layout, in.graph.value(id).type.shape.size());
    const auto [all, fresh] = joined.try_emplace(id, here);
    for (size_t d = 0; !fresh && d < here.size(); ++d) all->second[d] = all->second[d] && here[d];
  }
  return joined;
}

std::string te_key(const GroupInputs& in) {
  const graph::Graph& body = *in.group.body;
  Key key;
  key.add(std::ssize(body.nodes));
  for (const graph::Node& node : body.nodes) key.add(node);
  key.add(body.inputs);
  key.add(body.outputs);
  for (size_t v = 0; v < body.values.size(); ++v) {
    const graph::Value& inner = body.values[v];
    const graph::ValueId outer = outer_value(in, static_cast<graph::ValueId>(v));
    const graph::Value& value = outer == graph::kAbsent ? inner : in.graph.value(outer);
    const ValueSource source = is_bindable_scalar(value) ? ValueSource::kBound
                               : value.is_kept()         ? ValueSource::kStored
                                                         : ValueSource::kRead;
    key.add(inner.type);
    key.add(static_cast<int64_t>(source));
    if (source == ValueSource::kBound) key.add(scalar_of(value));
    key.add(std::string_view(value.layout.is_identity() ? "" : to_string(value.layout)));
  }
  // Which state it is, and who else reads it, decides how the group is computed: no other group shares its key.
  if (!states_of(in).empty()) key.add(int64_t{in.group.outputs[0]});
  return key.take();
}

GroupTe te_like(const GroupTe& te, const graph::Node& other, const graph::Node& group) {
  GroupTe out = {{}, te.values, te.kept, te.in_place};
  for (auto& [tensor, id] : out.values) {
    const int64_t i = index_of(other.inputs, id);
    id = i >= 0 ? group.inputs[i] : group.outputs[index_of(other.outputs, id)];
  }
  return out;
}

double contraction_flop(const te::Program& program) {
  double flop = 0;
  for (const te::Compute& c : program.computes) {
    const Result<schedule::Contraction> match = schedule::match_contraction(c);
    if (match.ok() && !dataflow::is_read_on_demand(program, c.name())) flop += 2 * schedule::count_products(*match);
  }
  return flop;
}

lower::LowerOptions lowering_for(const TargetInfo& target, Precision precision) {
  lower::LowerOptions options;
  options.vector_bytes = target.vector_bytes;
  options.has =
      target.kind == DeviceKind::kCpu
          ? Instructions{has_feature(target, "fma"), has_feature(target, "sse4.1") || has_feature(target, "neon")}
          : Instructions{.halves = true, .approximations = precision != Precision::kStrict};
  return options;
}

loop::Program lower_group(const te::Program& program, const plan::GroupPlan& plan, const GroupOptions& options,
                          std::span<const InPlaceTe> in_place) {
  const te::Program stored = te::apply_layouts(program, plan.layouts);
  if (options.dump_te) options.dump_te(stored);
  lower::RunOptions run = options.lower;
  run.lower.inner_divisor = schedule::gathers(plan.schedule) ? 0 : te::common_divisor(program);
  const loop::Program scheduled = schedule::apply(stored, plan.schedule);
  return lower::lower(put_in_place(scheduled, in_place), run);
}

LoweredGroup lower_planned(const te::Program& program, const plan::GroupPlan& plan, const GroupOptions& options,
                           std::span<const InPlaceTe> in_place) {
  LoweredGroup out;
  try {
    out.loops = std::make_shared<const loop::Program>(lower_group(program, plan, options, in_place));
  } catch (const InternalError& error) {
    if (options.origin == PlanOrigin::kOurs) throw;
    throw UsageError("--plan does not fit group {}: {}", plan.name, error.what());
  } catch (const UserError& error) {
    if (options.origin == PlanOrigin::kUser)
      throw UsageError("--plan does not fit group {}: {}", plan.name, error.what());
    throw InternalError("group {}: the schedule of family {} does not fit: {}", plan.name, plan.family, error.what());
  }
  out.flop = contraction_flop(program);
  return out;
}

std::map<std::string, Param> describe_params(const GroupInputs& in, const GroupTe& te, const loop::Program& loops,
                                             const std::map<std::string, Layout>& layouts) {
  std::map<std::string, Param> params;
  for (const loop::Kernel& kernel : loops.kernels) {
    for (const loop::Buffer& buffer : kernel.params) {
      Param param;
      param.bytes = buffer.size() * buffer.type.bytes();
      if (const auto value = te.values.find(buffer.name); value == te.values.end()) {
        param.kind = Param::Kind::kTemporary;
      } else {
        param.value = value->second;
        const auto constant = te.kept.find(buffer.name);
        if (constant != te.kept.end()) {
          param.kind = Param::Kind::kConstant;
          param.layout = constant->second.then(value_or(layouts, buffer.name, Layout()));
          const auto storage = param.layout.storage_shape(in.graph.value(param.value).type.shape);
          TW_CHECK(num_elements(storage) == buffer.size(), "constant {} of group {}: storage and parameter differ",
                   buffer.name, in.group.name);
        }
      }
      params[buffer.name] = param;
    }
  }
  return params;
}

}  // namespace tw::driver
