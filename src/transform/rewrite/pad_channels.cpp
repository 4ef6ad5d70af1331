// Channels that fill whole accesses (Bolt, mechanism B6). Where the threads of a tile copy the operands of a product of
// 16-bit floats into shared memory, one access moves neighbours along the channels: of 8 channels all, of
// 46 two at a time, of 3 each alone and not in the background. Zeros are added to the channels of both operands,
// up to a whole access, or half of one for a few channels, where that saves more time than it costs. Measuring also
// tries more of it: where it costs more than it saves by the figures below, and up to whole lines of memory, which TMA
// moves.
//
// The channels that are added come from the contraction that computes x, through the element-wise operators that
// follow it: as many filters more, copies of one, which share its weights of w (weight_parts). No zero of w meets
// numbers, which may be infinite: the sums are the model's whatever the operators are and the inputs hold. Otherwise a
// pad writes zeros, together with the element-wise operators before it. Weights that are computed get zeros by a pad of
// their own: they meet those of x alone. Where other contractions read x, too, they read what is padded, so that nobody
// stores x twice. And the filters of a result that stays inside of the graph are filled up, so that its rows begin at
// whole accesses where they are written and reduced: the 50,257 words of a vocabulary, say.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "core/ulp.h"
#include "cost/calibrated.h"
#include "support/math.h"
#include "transform/editor.h"
#include "transform/passes.h"
#include "transform/roles.h"

namespace tw::transform {
namespace {

constexpr int64_t kMinCopied = 4;    // bytes of a copy in the background
constexpr int64_t kLineBytes = 128;  // of a row of a box
constexpr int64_t kColumns = 128;    // of a tile: for each of them x is gathered anew

constexpr std::string_view kPadded = ".padded";  // ends names of values with zeros behind their channels

// A contraction over the channels of x.
struct Contraction {
  Node node;
  bool is_constant = true;          // its weights
  int64_t channels_axis = 0;        // of x and of the result
  int64_t summed = 0, filters = 0;  // axes of the weights
};

constexpr int64_t kNone = -1;  // instead of the channel that the added ones are copies of: they are zeros

// A weight in parts: rest + copies * part = the weight, exactly, all of its sign and of its type. So a channel that is
// summed once with the rest and `copies` times with the part is summed with the weight, were it infinite.
struct WeightParts {
  double rest = 0, part = 0;
};

// The part is a unit in the last place of the weight, of type f16 or bf16. Nothing where the weight has too few of
// them: where it is subnormal.
std::optional<WeightParts> weight_parts(double weight, int64_t copies, DataType type) {
  if (weight == 0 || !std::isfinite(weight)) return WeightParts{weight, weight};
  const double unit = ulp(type, weight), shared = static_cast<double>(copies) * unit;
  if (std::fabs(weight) <= shared) return std::nullopt;
  return WeightParts{weight - std::copysign(shared, weight), std::copysign(unit, weight)};
}

class ChannelPadder {
 public:
  ChannelPadder(const graph::Graph& graph, const TransformContext& context)
      : editor_(graph, context.ops), target_(context.target), variant_(context.variant) {}

  graph::Graph run() {
    editor_.for_each_old([&](const Node& node) { convert_before_transpose(node); });
    editor_.for_each_old([&](const Node& node) {
      if (const std::optional<Contraction> found = contraction_of(node)) pad(*found);
    });
    editor_.for_each([&](const Node& node) {
      if (const std::optional<Contraction> found = contraction_of(node)) pad_filters(*found);
    });
    editor_.for_each([&](const Node& node) {
      if (const std::optional<Contraction> found = contraction_of(node)) fill_rows(*found);
    });
    return editor_.finish();
  }

 private:
  // So that a weight that is read as it is and transposed is converted, and padded, once.
  void convert_before_transpose(const Node& node) {
    const Node* turn = node.op == "cast" ? editor_.producer(node.inputs[0], "transpose") : nullptr;
    const bool is_weight = turn != nullptr && editor_.is_input(turn->inputs[0]);
    if (!is_weight || editor_.readers(turn->inputs[0]).size() < 2) return;
    Node turned = *turn, converting = node;
    for (const int n : editor_.readers(turned.inputs[0])) {
      const Node& reader = editor_.node(static_cast<size_t>(n));
      if (reader.op == "cast" && reader.attrs == node.attrs) converting.outputs = reader.outputs;
    }
    const bool is_there = converting.outputs != node.outputs;
    converting.inputs = {turned.inputs[0]};
    turned.inputs[0] = is_there ? converting.outputs[0] : editor_.add(std::move(converting));
    editor_.replace(node.outputs[0], editor_.add(std::move(turned)));
  }

  std::optional<Contraction> contraction_of(const Node& node) const {
    const bool conv = node.op == "conv" && node.int_attr_or("group", 1) == 1;
    const bool matmul =
        node.op == "matmul" && editor_.shape(node.inputs[1]).size() == 2 && !editor_.shape(node.inputs[0]).empty();
    if (!conv && !matmul) return std::nullopt;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kAbsent) continue;
      if (!editor_.type(node.inputs[i]).type.is_half()) return std::nullopt;
      if (i > 1 && !editor_.value(node.inputs[i]).is_constant()) return std::nullopt;
    }
    const bool is_constant = editor_.value(node.inputs[1]).is_constant();
    if (num_elements(editor_.shape(node.outputs[0])) == 0 || num_elements(editor_.shape(node.inputs[1])) == 0)
      return std::nullopt;
    if (conv) return Contraction{node, is_constant, 1, 1, 0};
    return Contraction{node, is_constant, static_cast<int64_t>(editor_.shape(node.inputs[0]).size()) - 1, 0, 1};
  }

  // ---- What it costs.

  int64_t whole_access(ValueId x) const { return target_.vector_bytes / editor_.type(x).type.bytes(); }

  int64_t filled(ValueId x, int64_t channels) const {
    const int64_t whole = whole_access(x), line = kLineBytes / editor_.type(x).type.bytes();
    if (variant_ == kPadToCacheLine && channels % whole != 0 && channels > line / 2) return round_up(channels, line);
    return channels <= whole / 2 ? whole / 2 : round_up(channels, whole);
  }

  // Of bringing so many elements of x of which `beside` lie beside each other, for each tile of `filters`.
  double gathering_cycles(ValueId x, double elements, int64_t beside, int64_t filters) const {
    int64_t together = whole_access(x);
    while (beside % together != 0) together /= 2;
    const double waits = together * editor_.type(x).type.bytes() < kMinCopied ? cost::kShortAccess : 1;
    const double accesses = elements / static_cast<double>(together) * static_cast<double>(ceil_div(filters, kColumns));
    return accesses * waits * cost::kAccessCycles;
  }

  // Of the contraction if it had so many channels, all in whole accesses.
  double contraction_cycles(const Contraction& c, int64_t channels) const {
    const Shape& w = editor_.shape(c.node.inputs[1]);
    const int64_t filters = w[c.filters];
    const auto points = static_cast<double>(num_elements(editor_.shape(c.node.outputs[0])) / filters);
    const double steps = points * static_cast<double>(num_elements(w) / filters / w[c.summed] * channels);
    return gathering_cycles(c.node.inputs[0], steps, channels, filters) +
           steps * static_cast<double>(filters) / target_.sm.warp_products;
  }

  // Of writing and reading what is added to an axis of `value`; where nothing else does it, of copying the rest too.
  double padding_cycles(ValueId value, int64_t axis, int64_t channels, bool copies) const {
    const TensorType& x = editor_.type(value);
    const int64_t has = x.shape[axis];
    const double moved =
        static_cast<double>(x.bytes() / has) * static_cast<double>(channels - has + (copies ? has : 0));
    return 2 * moved / target_.sm.dram_share +
           (copies ? target_.sm.kernel_cycles * std::max(1, target_.compute_units) : 0);
  }

  // Whether zeros behind an axis of `value` are a copy that nobody would make otherwise.
  bool is_copied(ValueId value, int64_t axis) const {
    if (const std::optional<Moved> from = moved_from(value, axis)) return is_copied(from->value, from->axis);
    const Node* before = editor_.producer(value);
    const bool writes_anyway = (editor_.use_count(value) == 1 || is_of_contractions(value)) && before != nullptr &&
                               (is_pointwise(editor_.ops(), *before) || role_of(editor_.ops(), *before) == Role::kPad);
    return !writes_anyway && !padded_.contains({value, axis});
  }

  int64_t last_dim(ValueId value) const { return static_cast<int64_t>(editor_.shape(value).size()) - 1; }

  bool keeps_lines(const Node& node) const {
    return node.op == "reshape" && !editor_.shape(node.inputs[0]).empty() && !editor_.shape(node.outputs[0]).empty() &&
           editor_.shape(node.inputs[0]).back() == editor_.shape(node.outputs[0]).back();
  }

  // A value that another one is, transposed or of the same lines in other dims, and its axis there.
  struct Moved {
    Node node;
    ValueId value;
    int64_t axis;
  };
  std::optional<Moved> moved_from(ValueId value, int64_t axis) const {
    const Node* node = editor_.producer(value);
    if (node != nullptr && node->op == "transpose")
      return Moved{*node, node->inputs[0], node->ints_attr("perm")[static_cast<size_t>(axis)]};
    if (node == nullptr || !keeps_lines(*node) || axis != last_dim(value)) return std::nullopt;
    return Moved{*node, node->inputs[0], last_dim(node->inputs[0])};
  }

  // Whether contractions alone read what a node of one output makes, as it is or moved.
  bool is_of_contractions(ValueId value) const {
    const Node* before = editor_.producer(value);
    if (before == nullptr || before->outputs.size() != 1 || editor_.use_count(value) > editor_.readers(value).size())
      return false;
    return std::ranges::all_of(editor_.readers(value), [&](int n) {
      const Node& reader = editor_.node(static_cast<size_t>(n));
      const Role role = role_of(editor_.ops(), reader);
      const bool moves = role == Role::kIndexMap || keeps_lines(reader);
      return role == Role::kContraction || (moves && is_of_contractions(reader.outputs[0]));
    });
  }

  // Whether lines of the value are reduced, as they are or converted.
  bool is_reduced(ValueId value) const {
    return std::ranges::any_of(editor_.readers(value), [&](int n) {
      const Node& reader = editor_.node(static_cast<size_t>(n));
      return role_of(editor_.ops(), reader) == Role::kReduction ||
             (reader.op == "cast" && is_reduced(reader.outputs[0]));
    });
  }

  // Of writing rows of a result that has so many of its axis's elements.
  double storing_cycles(ValueId y, int64_t has, int64_t elements) const {
    int64_t together = whole_access(y);
    while (elements % together != 0) together /= 2;
    const auto rows = static_cast<double>(num_elements(editor_.shape(y)) / has);
    return rows * static_cast<double>(elements) / static_cast<double>(together) * cost::kAccessCycles;
  }

  // ---- How it is done.

  void pad(const Contraction& c) {
    const ValueId x = c.node.inputs[0];
    const int64_t has = editor_.shape(x)[c.channels_axis], channels = filled(x, has);
    if (channels == has) return;
    std::vector<Node> chain = c.is_constant ? chain_to(x, c.channels_axis) : std::vector<Node>();
    const int64_t source = chain.empty() ? kNone : shared_channel(c, channels - has);
    if (source == kNone) chain.clear();
    const ValueId w = c.node.inputs[1];
    const bool copies = chain.empty() && is_copied(x, c.channels_axis);
    double padded_cycles = contraction_cycles(c, channels) + padding_cycles(x, c.channels_axis, channels, copies);
    if (!c.is_constant) padded_cycles += padding_cycles(w, c.summed, channels, is_copied(w, c.summed));
    if (padded_cycles >= (variant_.empty() ? 1 : cost::kMayPay) * contraction_cycles(c, has)) return;
    Node wider = c.node;
    if (source != kNone) {
      wider.inputs[0] = grown(chain, c.channels_axis, channels, source);
      wider.inputs[1] = shared_weights(w, c.summed, channels, source);
    } else {
      wider.inputs[0] = padded(x, c.channels_axis, channels);
      wider.inputs[1] = c.is_constant ? filled_up(w, c.summed, channels, kNone) : padded(w, c.summed, channels);
    }
    editor_.replace(c.node.outputs[0], editor_.add(std::move(wider)));
  }

  // Of a result between groups, as rows that are reduced are: its readers have the part without what is added.
  void pad_filters(const Contraction& c) {
    const ValueId w = c.node.inputs[1];
    ValueId y = c.node.outputs[0];
    const auto is_view = [&] {
      const std::vector<int>& readers = editor_.readers(y);
      return editor_.use_count(y) == 1 && readers.size() == 1 &&
             keeps_lines(editor_.node(static_cast<size_t>(readers.front())));
    };
    while (c.channels_axis == last_dim(c.node.outputs[0]) && is_view())
      y = editor_.node(static_cast<size_t>(editor_.readers(y).front())).outputs[0];
    const int64_t has = editor_.shape(w)[c.filters], filters = filled(y, has);
    if (filters == has || !is_reduced(y) || editor_.use_count(y) > editor_.readers(y).size()) return;
    double cycles = storing_cycles(y, has, filters);
    if (!c.is_constant) cycles += padding_cycles(w, c.filters, filters, is_copied(w, c.filters));
    if (cycles >= (variant_.empty() ? 1 : cost::kMayPay) * storing_cycles(y, has, has)) return;
    Node wider = c.node;
    wider.inputs[1] = c.is_constant ? filled_up(w, c.filters, filters, kNone) : padded(w, c.filters, filters);
    if (wider.inputs.size() > 2 && wider.inputs[2] != kAbsent)
      wider.inputs[2] = filled_up(wider.inputs[2], 0, filters, kNone);
    ValueId all = editor_.add(std::move(wider));
    const Shape shape = editor_.shape(y);
    if (y != c.node.outputs[0]) all = lines_as(all, shape, filters);
    editor_.replace(y, editor_.emit_slice(c.node.name, all, Ints(shape.size(), 0), shape));
  }

  // Rows of the left operand that another contraction reads filled up, or that are channels of images which lie beside
  // each other: these are read here, too, and the rows that they add to the result, or to what it is converted to, are
  // left away behind it.
  void fill_rows(const Contraction& c) {
    const ValueId x = c.node.inputs[0];
    const int64_t axis = c.node.op == "conv" ? 0 : last_dim(x) - 1;
    const int64_t rows = axis < 0 ? 0 : rows_wanted(c, axis);
    if (rows == 0) return;
    Node wider = c.node;
    wider.inputs[0] = padded(x, axis, rows);
    ValueId all = editor_.add(std::move(wider)), y = c.node.outputs[0];
    if (editor_.use_count(y) == 1 && editor_.readers(y).size() == 1) {
      Node reader = editor_.node(static_cast<size_t>(editor_.readers(y).front()));
      if (reader.op == "cast") {
        y = reader.outputs[0];
        reader.inputs[0] = all;
        all = editor_.add(std::move(reader));
      }
    }
    const Shape shape = editor_.shape(y);
    editor_.replace(y, editor_.emit_slice(c.node.name, all, Ints(shape.size(), 0), shape));
  }

  // 0: those that there are.
  int64_t rows_wanted(const Contraction& c, int64_t axis) const {
    const ValueId x = c.node.inputs[0];
    if (const int64_t rows = padded_extent(x, axis); rows > 0) return rows;
    const std::optional<Moved> from = c.node.op == "conv" ? moved_from(x, axis) : std::nullopt;
    const int64_t has = editor_.shape(x)[axis], rows = from ? filled(from->value, has) : has;
    const bool are_channels = from && (from->axis == 1 || from->axis == last_dim(from->value));
    if (rows == has || !are_channels) return 0;
    const Shape& w = editor_.shape(c.node.inputs[1]);
    const auto each = static_cast<double>(num_elements(editor_.shape(c.node.outputs[0])) / w[c.filters] / has *
                                          (num_elements(w) / w[c.filters]));
    const auto cycles = [&](int64_t beside) {
      return gathering_cycles(from->value, each * static_cast<double>(beside), beside, w[c.filters]);
    };
    const double copy = padding_cycles(from->value, from->axis, rows, is_copied(from->value, from->axis));
    return cycles(rows) + copy < (variant_.empty() ? 1 : cost::kMayPay) * cycles(has) ? rows : 0;
  }

  // Elements along an axis of what a value is filled up to, moved as it is; 0: it is not.
  int64_t padded_extent(ValueId value, int64_t axis) const {
    const auto made = padded_.find({value, axis});
    if (made != padded_.end()) return editor_.shape(made->second)[axis];
    const std::optional<Moved> from = moved_from(value, axis);
    return from ? padded_extent(from->value, from->axis) : 0;
  }

  // Lines of `line` elements as those of a value of this shape are.
  ValueId lines_as(ValueId lines, Shape shape, int64_t line) {
    shape.back() = line;
    return editor_.emit(editor_.value(lines).name, "reshape", {lines}, {{"shape", shape}});
  }

  ValueId padded(ValueId x, int64_t axis, int64_t channels) {
    const auto [made, fresh] = padded_.try_emplace({x, axis}, kAbsent);
    if (!fresh) return made->second;
    const Shape shape = editor_.shape(x);
    if (std::optional<Moved> moved = moved_from(x, axis)) {
      const ValueId from = padded(moved->value, moved->axis, channels);
      if (moved->node.op == "reshape") return padded_[{x, axis}] = lines_as(from, shape, channels);
      moved->node.inputs[0] = from;
      return padded_[{x, axis}] = editor_.add(std::move(moved->node));
    }
    const bool is_shared = editor_.use_count(x) > 1 && is_of_contractions(x);
    Ints pads(2 * shape.size(), 0);
    pads[shape.size() + static_cast<size_t>(axis)] = channels - shape[axis];
    const std::string name = editor_.value(x).name + std::string(kPadded);
    const ValueId from = is_shared ? editor_.add(Node(*editor_.producer(x))) : x;
    const ValueId all = editor_.emit(name, "pad", {from}, {{"mode", std::string("constant")}, {"pads", pads}});
    padded_[{x, axis}] = all;
    if (!is_shared) return all;
    const ValueId part = editor_.emit_slice(name, all, Ints(shape.size(), 0), shape);
    padded_[{part, axis}] = all;
    editor_.replace(x, part);
    return all;
  }

  // From the contraction that computes `value`, whose filters are its channels, the element-wise operators up to it;
  // nothing where something else reads a value in between.
  std::vector<Node> chain_to(ValueId value, int64_t axis) const {
    std::vector<Node> chain;
    while (editor_.use_count(value) == 1) {
      const Node* node = editor_.producer(value);
      if (node == nullptr || node->outputs.size() != 1) break;
      chain.push_back(*node);
      const std::optional<Contraction> first = contraction_of(*node);
      if (first && first->is_constant && first->channels_axis == axis) {
        std::ranges::reverse(chain);
        return chain;
      }
      const std::optional<ValueId> before = followed(*node);
      if (!before) break;
      value = *before;
    }
    return {};
  }

  // What `node` computes each element from besides constants: one value of its own shape.
  std::optional<ValueId> followed(const Node& node) const {
    if (!is_pointwise(editor_.ops(), node)) return std::nullopt;
    std::optional<ValueId> found;
    for (const ValueId in : node.inputs) {
      if (in == kAbsent || editor_.value(in).is_constant()) continue;
      if (found || editor_.shape(in) != editor_.shape(node.outputs[0])) return std::nullopt;
      found = in;
    }
    return found;
  }

  // The last channel whose weights can be shared by so many copies, or kNone.
  int64_t shared_channel(const Contraction& c, int64_t copies) const {
    const graph::RefTensor w = elements_of(editor_.value(c.node.inputs[1]));
    const int64_t inner = row_major_strides(w.type.shape)[c.summed], slice = inner * w.type.shape[c.summed];
    const auto shared = [&](int64_t channel) {
      for (int64_t k = channel * inner; k < w.type.elements(); k += (k + 1) % inner == 0 ? slice - inner + 1 : 1) {
        if (!weight_parts(w.floats[k], copies, w.type.type)) return false;
      }
      return true;
    };
    for (int64_t channel = w.type.shape[c.summed]; channel-- > 0;) {
      if (shared(channel)) return channel;
    }
    return kNone;
  }

  ValueId shared_weights(ValueId id, int64_t axis, int64_t channels, int64_t source) {
    const graph::RefTensor w = elements_of(editor_.value(id));
    const int64_t inner = row_major_strides(w.type.shape)[axis], has = w.type.shape[axis];
    graph::RefTensor wide{.type = w.type};
    wide.type.shape[axis] = channels;
    wide = graph::RefTensor::zeros(wide.type);
    for (int64_t to = 0; to < wide.type.elements(); ++to) {
      const int64_t channel = to / inner % channels, from = channel < has ? channel : source;
      double number = w.floats[(to / inner / channels * has + from) * inner + to % inner];
      if (from == source) {
        const WeightParts parts = *weight_parts(number, channels - has, w.type.type);
        number = channel < has ? parts.rest : parts.part;
      }
      wide.floats[to] = number;
    }
    return editor_.add_constant(editor_.value(id).name, wide);
  }

  ValueId grown(const std::vector<Node>& chain, int64_t axis, int64_t channels, int64_t source) {
    Node first = chain.front();
    first.inputs[1] = filled_up(first.inputs[1], contraction_of(first)->filters, channels, source);
    if (first.inputs.size() > 2 && first.inputs[2] != kAbsent)
      first.inputs[2] = filled_up(first.inputs[2], 0, channels, source);
    ValueId value = editor_.add(std::move(first));
    for (size_t k = 1; k < chain.size(); ++k) {
      Node next = chain[k];
      const auto rank = static_cast<int64_t>(editor_.shape(next.outputs[0]).size());
      for (ValueId& in : next.inputs) {
        if (in == kAbsent) continue;
        if (!editor_.value(in).is_constant()) {
          in = value;
          continue;
        }
        const int64_t place = axis - rank + static_cast<int64_t>(editor_.shape(in).size());
        if (place >= 0 && editor_.shape(in)[place] > 1) in = filled_up(in, place, channels, source);
      }
      value = editor_.add(std::move(next));
    }
    return value;
  }

  // A constant with `extent` elements along `axis`: copies of the one at `source`, or zeros.
  ValueId filled_up(ValueId id, int64_t axis, int64_t extent, int64_t source) {
    const graph::Value constant = editor_.value(id);
    TensorType type = constant.type;
    size_t slice = static_cast<size_t>(type.type.bytes());
    for (size_t d = static_cast<size_t>(axis) + 1; d < type.shape.size(); ++d) slice *= type.shape[d];
    const auto has = static_cast<size_t>(type.shape[axis]);
    type.shape[axis] = extent;
    std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
    const std::byte* from = constant.constant->data();
    for (std::byte* to = bytes.data(); to != bytes.data() + bytes.size(); from += has * slice) {
      std::memcpy(to, from, has * slice);
      to += has * slice;
      for (size_t k = has; k < static_cast<size_t>(extent); ++k, to += slice) {
        if (source != kNone) std::memcpy(to, from + static_cast<size_t>(source) * slice, slice);
      }
    }
    return editor_.add_constant(constant.name, type, std::move(bytes));
  }

  Editor editor_;
  const TargetInfo& target_;
  const std::string_view variant_;
  std::map<std::pair<ValueId, int64_t>, ValueId> padded_;  // by value and axis
};

}  // namespace

bool makes_room(const Node& group) {
  bool pads = false;
  for (const Node& node : group.body->nodes) {
    if (node.op == "conv" || node.op == "matmul") return false;
    pads |= node.op == "pad" && group.body->value(node.outputs[0]).name.ends_with(kPadded);
  }
  return pads;
}

graph::Graph pad_channels(const graph::Graph& graph, const TransformContext& context) {
  if (context.target.kind == DeviceKind::kCpu) return graph;  // there vectors run along the filters
  return ChannelPadder(graph, context).run();
}

}  // namespace tw::transform
