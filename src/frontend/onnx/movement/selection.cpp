// Operators that select elements: Compress, NonZero, Unique, NonMaxSuppression. What is selected is known at import, or
// there is room for as many rows as there may be, whose number comes out of each run (counted_rows.h).
#include <algorithm>
#include <limits>
#include <ranges>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/counted_rows.h"
#include "frontend/onnx/loop_body.h"

namespace tw::frontend {
namespace {

constexpr int64_t kMaxComparisons = int64_t{1} << 28;  // of one Unique: every element with every other
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const DataType kI64 = DataType::i64();

// What is not known at import has its number in each run, where that is wanted; else constant() says what to bind.
bool is_counted(NodeContext& c, size_t k) { return counts_rows(c) && !c.is_constant(k); }

ValueId flat(Emitter& e, ValueId x) { return e.reshape(x, {e.type(x).elements()}); }

// ---- Compress

std::vector<int64_t> kept_elements(const graph::RefTensor& condition, int64_t axis, int64_t extent) {
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < std::ssize(condition.ints); ++i) {
    if (condition.ints[static_cast<size_t>(i)] == 0) continue;
    if (i >= extent) throw UserError("the condition is longer than axis {}", axis);
    kept.push_back(i);
  }
  return kept;
}

Outputs convert_compress(NodeContext& c) {
  Emitter& e = c.emit();
  const bool is_flat = !c.has_attr("axis");
  const ValueId x = is_flat ? flat(e, c.input(0)) : c.input(0);
  const int64_t axis = is_flat ? 0 : c.axis_or("axis", 0, c.rank(0)), extent = e.shape(x)[axis];
  if (!c.type(1).type.is_bool()) throw UserError("the condition is {}, it must be bool", to_string(c.type(1)));
  if (!is_counted(c, 1))
    return {e.gather(x, e.int_list(kept_elements(c.constant(1, "condition"), axis, extent)), axis)};
  if (c.rank(1) != 1 || c.shape(1)[0] > extent)
    throw UserError("the condition {} is longer than axis {} of {}", to_string(c.type(1)), axis, to_string(e.type(x)));
  return {e.gather(x, select_true(c, c.input(1)).numbers, axis)};
}

// ---- NonZero: the indices of all elements that are not 0, one column each.

Outputs known_non_zero(NodeContext& c) {
  const graph::RefTensor x = c.constant(0, "X");
  const Shape strides = row_major_strides(x.type.shape);
  const size_t rank = x.type.shape.size();
  const auto found = filtered(sequence(x.type.elements()), [&](int64_t i) { return x.at(i) != 0; });
  const int64_t count = static_cast<int64_t>(found.size());
  graph::RefTensor result = graph::RefTensor::zeros({kI64, {static_cast<int64_t>(rank), count}});
  for (size_t d = 0; d < rank; ++d) {
    for (int64_t k = 0; k < count; ++k)
      result.ints[static_cast<int64_t>(d) * count + k] = found[k] / strides[d] % x.type.shape[d];
  }
  return {c.emit().constant(result)};
}

// The indices of elements from their row-major numbers, beside each other along a new axis.
ValueId indices_of(Emitter& e, const Selected& selected, const Shape& shape, int64_t axis) {
  const Shape strides = row_major_strides(shape);
  std::vector<ValueId> indices;
  for (size_t d = 0; d < shape.size(); ++d) {
    ValueId index = strides[d] == 1 ? selected.numbers : e.div(selected.numbers, e.scalar(strides[d], kI64));
    if (d > 0) index = e.op("mod", {index, e.scalar(shape[d], kI64)});
    indices.push_back(e.unsqueeze(index, axis));
  }
  return e.concat(indices, axis);
}

Outputs convert_non_zero(NodeContext& c) {
  if (!is_counted(c, 0) || c.type(0).elements() == 0 || c.rank(0) == 0) return known_non_zero(c);
  Emitter& e = c.emit();
  const ValueId x = flat(e, c.input(0));
  const ValueId wanted = e.data_type(x).is_bool() ? x : e.op("not", {e.op("equal", {x, e.number(x, 0)})});
  return {indices_of(e, select_true(c, wanted), c.shape(0), 0)};
}

// ---- Unique, of all elements

Outputs known_unique(NodeContext& c, bool sorted) {
  const graph::RefTensor x = c.constant(0, "X");
  std::map<double, int64_t> slots;
  std::vector<int64_t> first, counts, slot_of;
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    const auto [slot, is_new] = slots.try_emplace(x.at(i), std::ssize(first));
    if (is_new) first.push_back(i);
    counts.resize(first.size());
    ++counts[static_cast<size_t>(slot->second)];
    slot_of.push_back(slot->second);
  }
  std::vector<int64_t> order = sequence(std::ssize(first)), place(first.size()), indices, of;
  if (sorted) std::ranges::copy(slots | std::views::values, order.begin());
  for (size_t k = 0; k < order.size(); ++k) {
    place[static_cast<size_t>(order[k])] = static_cast<int64_t>(k);
    indices.push_back(first[static_cast<size_t>(order[k])]);
    of.push_back(counts[static_cast<size_t>(order[k])]);
  }
  for (int64_t& slot : slot_of) slot = place[static_cast<size_t>(slot)];
  Emitter& e = c.emit();
  const ValueId at = e.int_list(indices);
  return {e.gather(flat(e, c.input(0)), at, 0), at, e.int_list(slot_of), e.int_list(of)};
}

// An element is the first of its kind where no equal one is further left. Its rank is the number of first ones that are
// smaller, or further left.
Outputs counted_unique(NodeContext& c, bool sorted) {
  Emitter& e = c.emit();
  const ValueId x = flat(e, c.input(0));
  const int64_t n = e.shape(x)[0];
  if (n > kMaxComparisons / n) throw Unsupported("Unique of {} elements is too large", n);
  const ValueId numbers = e.int_list(sequence(n));
  const auto row = [&](ValueId v) { return e.reshape(v, {1, n}); };
  const auto column = [&](ValueId v) { return e.reshape(v, {n, 1}); };
  const auto count = [&](ValueId each) { return e.reduce("reduce_sum", e.cast(each, kI64), {1}, KeepDims::kNo); };
  const ValueId equal = e.op("equal", {column(x), row(x)});
  const ValueId nearest = e.reduce("reduce_min", e.where(equal, row(numbers), e.scalar(n, kI64)), {1}, KeepDims::kNo);
  const ValueId is_first = e.op("equal", {nearest, numbers});
  const ValueId before = sorted ? e.op("less", {row(x), column(x)}) : e.op("less", {row(numbers), column(nearest)});
  const ValueId rank = count(e.op("and", {row(is_first), before}));
  const ValueId at = select_ranked(c, is_first, rank).numbers;
  return {e.gather(x, at, 0), at, rank, e.gather(count(equal), at, 0)};
}

Outputs convert_unique(NodeContext& c) {
  if (c.has_attr("axis") && c.rank(0) != 1) throw Unsupported("Unique of rows along an axis");
  c.ignore_attr("axis");
  const bool sorted = c.int_or("sorted", 1) != 0;
  const bool is_known = !is_counted(c, 0) || c.type(0).elements() == 0;
  return is_known ? known_unique(c, sorted) : counted_unique(c, sorted);
}

// ---- NonMaxSuppression

// Of each box its corners and area, [batch, 1, boxes].
struct Corners {
  ValueId low[2], high[2], area;
};

Corners corners_of(Emitter& e, ValueId boxes, bool has_centers) {
  Corners out{};
  const auto number = [&](int64_t k) {
    return e.reshape(e.slice(boxes, 2, k, 1), {e.shape(boxes)[0], 1, e.shape(boxes)[1]});
  };
  for (const int64_t d : {0, 1}) {
    const ValueId a = number(d), b = number(d + 2);
    const ValueId half = has_centers ? e.div(b, e.number(b, 2)) : b;
    out.low[d] = has_centers ? e.sub(a, half) : e.op("min", {a, b});
    out.high[d] = has_centers ? e.add(a, half) : e.op("max", {a, b});
  }
  out.area = e.mul(e.sub(out.high[0], out.low[0]), e.sub(out.high[1], out.low[1]));
  return out;
}

// Whether each box covers more than `threshold` of what it and `best` cover together.
ValueId overlaps(Emitter& e, const Corners& all, const Corners& best, ValueId threshold) {
  ValueId common = graph::kAbsent;
  for (const int d : {0, 1}) {
    const ValueId side = e.sub(e.op("min", {all.high[d], best.high[d]}), e.op("max", {all.low[d], best.low[d]}));
    const ValueId length = e.op("max", {side, e.number(side, 0)});
    common = d == 0 ? length : e.mul(common, length);
  }
  const ValueId zero = e.number(common, 0);
  const ValueId whole = e.sub(e.add(all.area, best.area), common);
  const ValueId is_box = e.op("and", {e.op("greater", {all.area, zero}), e.op("greater", {best.area, zero})});
  const ValueId meets = e.op("and", {e.op("greater", {common, zero}), e.op("greater", {whole, zero})});
  const ValueId share = e.op("greater", {e.div(common, e.where(meets, whole, e.number(whole, 1))), threshold});
  return e.op("and", {e.op("and", {is_box, meets}), share});
}

struct Suppression {
  ValueId boxes, scores;  // [batch, boxes, 4], [batch, classes, boxes]
  ValueId threshold;      // of overlaps, f32[]
  ValueId least;          // scores must be larger, f32[]; kAbsent: any will do
  int64_t turns;          // boxes of a class at most
  bool has_centers;
};

// Each turn takes the box of the best score that is left, the first of equal ones, and those that overlap it away.
LoopBody::Made take_boxes(NodeContext& c, const Suppression& s) {
  Emitter& e = c.emit();
  const ValueId nothing = e.number(s.scores, -kInfinity);
  const ValueId wanted = e.op("greater", {s.scores, s.least == graph::kAbsent ? nothing : s.least});
  const ValueId start = e.where(wanted, s.scores, nothing);
  Corners all = corners_of(e, s.boxes, s.has_centers);
  const int64_t count = e.shape(s.scores)[2];
  LoopBody loop(c.importer().builder(), e.name());
  const ValueId left = loop.carried(start);
  for (ValueId* value : {&all.low[0], &all.low[1], &all.high[0], &all.high[1], &all.area})
    *value = loop.captured(*value);
  const ValueId threshold = loop.captured(s.threshold);
  Emitter& in = loop.emit();
  const ValueId numbers = in.reshape(in.int_list(sequence(count)), {1, 1, count}), none = in.number(left, -kInfinity);
  const ValueId best = in.reduce("reduce_max", left, {2}, KeepDims::kYes);
  const ValueId is_there = in.op("greater", {best, none});
  const ValueId is_best = in.op("equal", {left, best});
  const ValueId at =
      in.reduce("reduce_min", in.where(is_best, numbers, in.scalar(count - 1, kI64)), {2}, KeepDims::kYes);
  const ValueId is_it = in.op("equal", {numbers, at});
  const auto of_it = [&](ValueId each) {
    return in.reduce("reduce_sum", in.where(is_it, each, in.number(each, 0)), {2}, KeepDims::kYes);
  };
  const Corners its{{of_it(all.low[0]), of_it(all.low[1])}, {of_it(all.high[0]), of_it(all.high[1])}, of_it(all.area)};
  const ValueId gone = in.op("or", {is_it, overlaps(in, all, its, threshold)});
  return loop.finish(s.turns, {{in.where(gone, none, left)}}, {{at}, {is_there}});
}

Outputs convert_non_max_suppression(NodeContext& c) {
  Emitter& e = c.emit();
  const Shape scores = c.shape(1);
  if (c.shape(0).size() != 3 || scores.size() != 3 || c.shape(0)[2] != 4 || c.shape(0)[1] != scores[2] ||
      c.shape(0)[0] != scores[0])
    throw UserError("boxes {} and scores {} do not fit: expected [batch, boxes, 4] and [batch, classes, boxes]",
                    to_string(c.type(0)), to_string(c.type(1)));
  const int64_t most = c.has(2) ? c.const_int(2, "max_output_boxes_per_class") : 0;
  const int64_t turns = std::clamp<int64_t>(most, 0, scores[2]);
  if (turns == 0 || num_elements(scores) == 0) return {e.constant(graph::RefTensor::zeros({kI64, {0, 3}}))};
  constexpr std::pair<size_t, std::string_view> kRoles[] = {
      {0, "boxes"}, {1, "scores"}, {3, "iou_threshold"}, {4, "score_threshold"}};
  for (const auto& [k, role] : kRoles) {
    if (!counts_rows(c) && c.has(k)) c.constant(k, role);  // says what to bind
  }
  const ValueId least = c.has(4) ? e.reshape(c.input(4), {}) : graph::kAbsent;
  const ValueId threshold = c.has(3) ? e.reshape(c.input(3), {}) : e.scalar(0, DataType::f32());
  const bool has_centers = c.int_or("center_point_box", 0) != 0;
  const LoopBody::Made made = take_boxes(c, {c.input(0), c.input(1), threshold, least, turns, has_centers});
  // [turns, batch, classes, 1] as [batch, classes, turns].
  const Shape shape{scores[0], scores[1], turns};
  const auto by_class = [&](ValueId stack) {
    return e.reshape(e.transpose(e.reshape(stack, {turns, scores[0], scores[1]}), {1, 2, 0}), shape);
  };
  const ValueId boxes = flat(e, by_class(made.stacks[0])), wanted = flat(e, by_class(made.stacks[1]));
  const Selected selected = select_true(c, wanted);
  const ValueId places = indices_of(e, selected, shape, 1);
  const ValueId box = e.unsqueeze(e.gather(boxes, selected.numbers, 0), 1);
  return {e.concat({e.slice(places, 1, 0, 2), box}, 1)};
}

}  // namespace

std::vector<ConverterRow> selection_rows() {
  return {{"Compress", 9, 0, convert_compress},
          {"NonZero", 9, 0, convert_non_zero},
          {"Unique", 11, 0, convert_unique},
          {"NonMaxSuppression", 10, 0, convert_non_max_suppression}};
}

}  // namespace tw::frontend
