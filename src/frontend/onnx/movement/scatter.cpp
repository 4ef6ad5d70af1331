// Scatters. With indices known at import every output element has known sources, so a scatter is a gather. With others
// a reduction at computed indices says of each element which update is the last one there, or what those there come to.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/limits.h"
#include "frontend/onnx/movement/run_of_indices.h"
#include "frontend/onnx/windows/window.h"

namespace tw::frontend {
namespace {

constexpr size_t kMaxUpdatesPerElement = 256;  // one reduction step each
constexpr size_t kMaxRuns = 16;                // of a scatter that becomes a concatenation
constexpr int64_t kMaxUpdates = 1 << 24;       // with places that come at run time

int64_t wrap_index(int64_t index, int64_t extent) {
  if (index < -extent || index >= extent) throw UserError("index {} for {} elements", index, extent);
  return index < 0 ? index + extent : index;
}

// The element that changes nothing under a reduction.
double neutral(const std::string& reduction, DataType type) {
  const int value_bits = type.bits() - (type.is_signed_int() ? 1 : 0);
  const double lowest = type.is_float()        ? -std::numeric_limits<double>::infinity()
                        : type.is_signed_int() ? -std::ldexp(1.0, value_bits)
                                               : 0;
  const double highest = type.is_float() ? std::numeric_limits<double>::infinity() : std::ldexp(1.0, value_bits) - 1;
  if (reduction == "add") return 0;
  if (reduction == "mul") return 1;
  return reduction == "max" ? lowest : highest;
}

void check_index_type(NodeContext& c, size_t k, std::string_view role) {
  if (!c.type(k).type.is_int()) throw UserError("input '{}' is {}, it must hold integers", role, to_string(c.type(k)));
}

// Integer indices of any shape, known at import.
graph::RefTensor known_indices(NodeContext& c, size_t k, std::string_view role) {
  check_index_type(c, k, role);
  return c.constant(k, role);
}

struct Scatter {
  ValueId data, updates;              // [batch, elements, ..], [batch, updates, ..]
  std::vector<int64_t> destinations;  // of each update, an element
  std::string reduction;              // none, add, mul, max, min
};

// The elements source[0], source[1], .. of data and then updates, along axis 1: a concatenation where they are few
// runs.
ValueId pick(Emitter& e, const Scatter& s, const std::vector<int64_t>& source) {
  const int64_t elements = e.shape(s.data)[1];
  std::vector<ValueId> parts;
  for (size_t first = 0, end = 0; first < source.size() && parts.size() <= kMaxRuns; first = end) {
    while (++end < source.size() && source[end] == source[end - 1] + 1 && source[end] != elements) {
    }
    const bool updated = source[first] >= elements;
    parts.push_back(e.slice(updated ? s.updates : s.data, 1, source[first] - (updated ? elements : 0),
                            static_cast<int64_t>(end - first)));
  }
  if (!parts.empty() && parts.size() <= kMaxRuns) return e.concat(parts, 1);
  return e.gather(e.concat({s.data, s.updates}, 1), e.int_list(source), 1);
}

// Updates that meet in one element apply in order.
ValueId scatter(Emitter& e, const Scatter& s) {
  const int64_t elements = e.shape(s.data)[1];
  const int64_t updates = static_cast<int64_t>(s.destinations.size());
  if (elements > kMaxFoldInputElements || updates > kMaxFoldInputElements) {
    throw Unsupported("a scatter of {} updates into {} elements is too large", updates, elements);
  }
  if (s.reduction == "none") {
    std::vector<int64_t> source = sequence(elements);
    for (int64_t u = 0; u < updates; ++u) source[s.destinations[u]] = elements + u;
    return pick(e, s, source);
  }
  static const std::map<std::string, std::string_view> kOps = {
      {"add", "add"}, {"mul", "mul"}, {"max", "max"}, {"min", "min"}};
  const auto op = kOps.find(s.reduction);
  if (op == kOps.end()) throw UserError("reduction '{}'", s.reduction);
  std::vector<std::vector<int64_t>> rounds;
  std::vector<size_t> met(elements, 0);
  for (int64_t u = 0; u < updates; ++u) {
    const size_t round = met[s.destinations[u]]++;
    if (round >= kMaxUpdatesPerElement) throw Unsupported("more than {} updates of one element", kMaxUpdatesPerElement);
    if (round == rounds.size()) rounds.emplace_back(elements, updates);
    rounds[round][s.destinations[u]] = u;
  }
  const DataType type = e.data_type(s.data);
  Shape one = e.shape(s.data);
  one[1] = 1;
  const ValueId none = e.filled(neutral(s.reduction, type), {type, one});
  const ValueId choices = e.concat({s.updates, none}, 1);
  ValueId y = s.data;
  for (const std::vector<int64_t>& round : rounds) y = e.op(op->second, {y, e.gather(choices, e.int_list(round), 1)});
  return y;
}

// [batch, elements, ..] and [batch, updates, ..] with the element of each update, an i64 that may be out of range,
// which the artefact then says at run time.
struct RunTimeScatter {
  ValueId data, updates, places;
  std::string reduction;
};

// Updates of one element apply in order, so that the last one stays.
ValueId replace_at_run_time(Emitter& e, const RunTimeScatter& s) {
  const int64_t elements = e.shape(s.data)[1];
  const ValueId last = e.op("scatter_max", {e.int_list(sequence(e.shape(s.updates)[1])), s.places},
                            {{"axis", int64_t{0}}, {"extent", elements}});
  const ValueId zero = e.scalar(0, DataType::i64());
  Shape beside(e.rank(s.data), 1);
  beside[1] = elements;
  const ValueId is_met = e.reshape(e.op("greater_equal", {last, zero}), beside);
  return e.where(is_met, e.gather(s.updates, e.op("max", {last, zero}), 1), s.data);
}

ValueId scatter_at_run_time(NodeContext& c, const RunTimeScatter& s) {
  Emitter& e = c.emit();
  if (e.shape(s.updates)[1] > kMaxUpdates) throw Unsupported("{} updates are too many", e.shape(s.updates)[1]);
  if (e.type(s.updates).elements() == 0 || e.type(s.data).elements() == 0) return e.copy(s.data);
  if (s.reduction == "none") return replace_at_run_time(e, s);
  struct Pair {
    std::string_view of_updates, with_data;
  };
  static const std::map<std::string, Pair> kOps = {{"add", {"scatter_sum", "add"}},
                                                   {"mul", {"scatter_prod", "mul"}},
                                                   {"max", {"scatter_max", "max"}},
                                                   {"min", {"scatter_min", "min"}}};
  const auto op = kOps.find(s.reduction);
  if (op == kOps.end()) throw UserError("reduction '{}'", s.reduction);
  const ValueId met =
      e.op(op->second.of_updates, {s.updates, s.places}, {{"axis", int64_t{1}}, {"extent", e.shape(s.data)[1]}});
  return e.op(op->second.with_data, {s.data, met});
}

// How many elements from the first indices mean, of axes of these extents, which broadcast against them, as the
// strides; where one is outside, `elements`. Of a tuple the last dim has an index for each axis.
ValueId run_time_places(Emitter& e, ValueId indices, ValueId extents, ValueId strides, int64_t elements,
                        bool is_tuple) {
  const ValueId i = e.cast(indices, DataType::i64()), zero = e.scalar(0, DataType::i64());
  const ValueId below = e.op("less", {i, zero}), from_first = e.where(below, e.add(i, extents), i);
  ValueId outside = e.cast(e.op("or", {e.op("less", {from_first, zero}), e.op("greater_equal", {from_first, extents})}),
                           DataType::i64());
  ValueId place = e.mul(from_first, strides);
  if (is_tuple) {
    const std::vector<int64_t> last = {e.rank(i) - 1};
    outside = e.reduce("reduce_max", outside, last, KeepDims::kNo);
    place = e.reduce("reduce_sum", place, last, KeepDims::kNo);
  }
  return e.where(e.op("greater", {outside, zero}), e.scalar(static_cast<double>(elements), DataType::i64()), place);
}

ValueId flat(Emitter& e, ValueId x) { return e.reshape(x, {1, num_elements(e.shape(x))}); }

// For every element u of `updates`, in row-major order, its place in a tensor of shape `data`: coordinate d is that of
// coordinate(u, d, at), where `at` is u's own.
template <typename Coordinate>
std::vector<int64_t> places_in(const Shape& data, const Shape& updates, const Coordinate& coordinate) {
  const Shape strides = row_major_strides(data), own = row_major_strides(updates);
  std::vector<int64_t> places(num_elements(updates), 0);
  for (int64_t u = 0; u < std::ssize(places); ++u) {
    for (size_t d = 0; d < data.size(); ++d) places[u] += strides[d] * coordinate(u, d, u / own[d] % updates[d]);
  }
  return places;
}

void check_updates_type(NodeContext& c) {
  if (c.type(2).type != c.type(0).type) throw UserError("updates must have the data's type");
}

// `updates` in the place of neighbours along `axis`, from `start` on, which counts from the end where it is negative.
ValueId update_slice(Emitter& e, ValueId data, ValueId updates, ValueId start, int64_t axis) {
  const ValueId zero = e.number(start, 0);
  const ValueId end = e.number(start, static_cast<double>(e.shape(data)[static_cast<size_t>(axis)]));
  const ValueId first = e.where(e.op("less", {start, zero}), e.add(start, end), start);
  return e.op("update_slice", {data, updates, first}, {{"axis", axis}});
}

// The elements to which convert_scatter_elements' updates go: their own place but along the axis.
ValueId places_along(NodeContext& c, int64_t axis) {
  Emitter& e = c.emit();
  const Shape data = c.shape(0), shape = c.shape(1), strides = row_major_strides(data);
  const int64_t elements = num_elements(data);
  const auto number = [&](int64_t x) { return e.scalar(static_cast<double>(x), DataType::i64()); };
  const size_t at = static_cast<size_t>(axis);
  ValueId places = run_time_places(e, c.input(1), number(data[at]), number(strides[at]), elements, false);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d == at || shape[d] == 1) continue;
    std::vector<int64_t> own = sequence(shape[d]);
    for (int64_t& x : own) x *= strides[d];
    Shape along(shape.size(), 1);
    along[d] = shape[d];
    places = e.add(places, e.reshape(e.int_list(own), along));
  }
  return e.reshape(places, {num_elements(shape)});
}

bool replaces_at_run_time(NodeContext& c) { return !c.is_constant(1) && c.string_or("reduction", "none") == "none"; }

// Destination of update [i0, .., ia, ..] is element [i0, .., indices[i0, .., ia, ..], ..].
Outputs convert_scatter_elements(NodeContext& c) {
  const Shape& data = c.shape(0);
  const Shape& shape = c.shape(1);
  const int64_t axis = c.axis_or("axis", 0, c.rank(0));
  if (shape.size() != data.size() || c.shape(2) != shape)
    throw UserError("indices and updates must have one shape, of the data's rank");
  for (size_t d = 0; d < data.size(); ++d) {
    if (static_cast<int64_t>(d) != axis && shape[d] > data[d]) throw UserError("the indices are larger than the data");
  }
  check_updates_type(c);
  if (replaces_at_run_time(c)) {
    Shape rows = data;
    rows[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
    const std::optional<ValueId> start = rows == shape ? start_of_runs(c, c.input(1), axis) : std::nullopt;
    if (start) return {update_slice(c.emit(), c.input(0), c.input(2), *start, axis)};
  }
  if (!c.is_constant(1)) {
    Emitter& e = c.emit();
    check_index_type(c, 1, "indices");
    const RunTimeScatter s{flat(e, c.input(0)), flat(e, c.input(2)), places_along(c, axis),
                           c.string_or("reduction", "none")};
    return {e.reshape(scatter_at_run_time(c, s), data)};
  }
  const graph::RefTensor indices = known_indices(c, 1, "indices");
  std::vector<int64_t> destinations = places_in(data, shape, [&](int64_t u, size_t d, int64_t at) {
    return static_cast<int64_t>(d) == axis ? wrap_index(indices.ints[u], data[d]) : at;
  });
  Emitter& e = c.emit();
  const Scatter s{flat(e, c.input(0)), flat(e, c.input(2)), std::move(destinations), c.string_or("reduction", "none")};
  return {e.reshape(scatter(e, s), data)};
}

// Each index tuple names a slice of the data, which the updates' slice replaces or joins.
Outputs convert_scatter_nd(NodeContext& c) {
  const Shape& data = c.shape(0);
  const Shape& index_shape = c.shape(1);
  if (index_shape.empty() || index_shape.back() > c.rank(0))
    throw UserError("the indices' last extent is more than the data's rank");
  const int64_t depth = index_shape.back();
  const Shape expected = joined(Shape(index_shape.begin(), index_shape.end() - 1), std::span(data).subspan(depth));
  if (c.shape(2) != expected)
    throw UserError("the updates have shape {}, expected {}", to_string(c.shape(2)), to_string(expected));
  check_updates_type(c);
  if (replaces_at_run_time(c) && depth == 1) {
    Shape rows = data;
    rows[0] = num_elements({index_shape.begin(), index_shape.end() - 1});
    const std::optional<ValueId> start = rows[0] <= data[0] ? start_of_run(c, c.input(1)) : std::nullopt;
    if (start) return {update_slice(c.emit(), c.input(0), c.emit().reshape(c.input(2), rows), *start, 0)};
  }
  const Shape indexed(data.begin(), data.begin() + depth);
  const Shape strides = row_major_strides(indexed);
  const int64_t slice = num_elements({data.begin() + depth, data.end()});
  const int64_t tuples = num_elements({index_shape.begin(), index_shape.end() - 1});
  if (!c.is_constant(1)) {
    Emitter& e = c.emit();
    check_index_type(c, 1, "indices");
    const ValueId places = run_time_places(e, e.reshape(c.input(1), {tuples, depth}), e.int_list(indexed),
                                           e.int_list(strides), num_elements(indexed), true);
    const RunTimeScatter s{e.reshape(c.input(0), {1, num_elements(indexed), slice}),
                           e.reshape(c.input(2), {1, tuples, slice}), places, c.string_or("reduction", "none")};
    return {e.reshape(scatter_at_run_time(c, s), data)};
  }
  const graph::RefTensor indices = known_indices(c, 1, "indices");
  if (tuples > kMaxFoldInputElements) throw Unsupported("{} updates are not supported", tuples);
  std::vector<int64_t> destinations(tuples, 0);
  for (int64_t t = 0; t < tuples; ++t) {
    for (int64_t d = 0; d < depth; ++d)
      destinations[t] += strides[d] * wrap_index(indices.ints[t * depth + d], data[d]);
  }
  Emitter& e = c.emit();
  const Scatter s{e.reshape(c.input(0), {1, num_elements(indexed), slice}), e.reshape(c.input(2), {1, tuples, slice}),
                  std::move(destinations), c.string_or("reduction", "none")};
  return {e.reshape(scatter(e, s), data)};
}

// update[b, .., t, ..] goes to position write_indices[b] + t of the axis (modulo its extent when circular).
Outputs convert_tensor_scatter(NodeContext& c) {
  Emitter& e = c.emit();
  const Shape& cache = c.shape(0);
  const Shape& update = c.shape(1);
  const int64_t axis = c.axis_or("axis", -2, c.rank(0));
  const std::string mode = c.choice("mode", {"linear", "circular"});
  if (axis == 0 || update.size() != cache.size() || update[0] != cache[0])
    throw UserError("the update does not fit the cache");
  for (size_t d = 0; d < cache.size(); ++d) {
    if (update[d] > cache[d] || (static_cast<int64_t>(d) != axis && update[d] != cache[d]))
      throw UserError("the update does not fit the cache");
  }
  if (c.has(2) && !c.is_constant(2) && mode == "linear") {
    if (c.shape(2) != Shape{cache[0]}) throw UserError("write_indices must hold one index for each batch");
    return {e.op("update_slice", {c.input(0), c.input(1), c.input(2)}, {{"axis", axis}})};
  }
  std::vector<int64_t> first(cache[0], 0);
  if (c.has(2)) first = c.const_ints(2, "write_indices");
  if (static_cast<int64_t>(first.size()) != cache[0])
    throw UserError("write_indices must hold one index for each batch");
  if (c.type(1).elements() > kMaxFoldInputElements) throw Unsupported("that many updates are not supported");
  const int64_t each = row_major_strides(update)[0];  // of one batch
  std::vector<int64_t> destinations = places_in(cache, update, [&](int64_t u, size_t d, int64_t at) {
    if (static_cast<int64_t>(d) != axis) return at;
    at += wrap_index(first[u / each], cache[d]);
    return mode == "circular" ? at % cache[d] : wrap_index(at, cache[d]);
  });
  return {e.reshape(scatter(e, {flat(e, c.input(0)), flat(e, c.input(1)), std::move(destinations), "none"}), cache)};
}

// Sums the columns of blocks back into images: the adjoint of taking the blocks.
Outputs convert_col2im(NodeContext& c) {
  Emitter& e = c.emit();
  const std::vector<int64_t> image = c.const_ints(1, "image_shape");
  const std::vector<int64_t> block = c.const_ints(2, "block_shape");
  const size_t n = image.size();
  const std::vector<int64_t> dilations = list_or(c, "dilations", n, 1), strides = list_or(c, "strides", n, 1),
                             pads = list_or(c, "pads", 2 * n, 0);
  if (block.size() != n || c.rank(0) != 3)
    throw UserError("the input must have shape (N, C * block, L), block_shape image_shape's length");
  Shape blocks;
  for (size_t d = 0; d < n; ++d) {
    if (image[d] < 1 || image[d] > kMaxFoldInputElements || block[d] < 1 || block[d] > kMaxFoldInputElements)
      throw UserError("an extent is out of range");
    const int64_t span = image[d] + pads[d] + pads[d + n] - dilations[d] * (block[d] - 1) - 1;
    if (span < 0) throw UserError("the block spans more than axis {} of the padded image", d);
    blocks.push_back(span / strides[d] + 1);
  }
  const int64_t kernel = num_elements(block), count = num_elements(blocks), pixels = num_elements(image);
  const Shape& in = c.shape(0);
  if (kernel > kMaxFoldInputElements || in[1] % kernel != 0 || in[2] != count) {
    throw UserError("the input {} does not hold {} columns of {} elements a channel", to_string(in), count, kernel);
  }
  const Shape kernel_strides = row_major_strides(block), count_strides = row_major_strides(blocks),
              image_strides = row_major_strides(image);
  if (kernel * count > kMaxFoldInputElements) throw Unsupported("that many columns are not supported");
  std::vector<int64_t> destinations;
  for (int64_t u = 0; u < kernel * count; ++u) {
    int64_t to = 0;
    for (size_t d = 0; d < n && to >= 0; ++d) {
      const int64_t k = u / count / kernel_strides[d] % block[d];
      const int64_t b = u % count / count_strides[d] % blocks[d];
      const int64_t at = b * strides[d] + k * dilations[d] - pads[d];
      to = at < 0 || at >= image[d] ? -1 : to + at * image_strides[d];
    }
    // Elements in the padding go to one extra pixel, which is cut off.
    destinations.push_back(to < 0 ? pixels : to);
  }
  const int64_t images = in[0] * (in[1] / kernel);
  const ValueId zeros = e.filled(0, {c.type(0).type, {images, pixels + 1}});
  const ValueId sum =
      scatter(e, {zeros, e.reshape(c.input(0), {images, kernel * count}), std::move(destinations), "add"});
  return {e.reshape(e.slice(sum, 1, 0, pixels), joined(Shape{in[0], in[1] / kernel}, image))};
}

// Each maximum goes back to where it came from; everything else is 0.
Outputs convert_max_unpool(NodeContext& c) {
  Emitter& e = c.emit();
  const Shape& in = c.shape(0);
  if (in.size() < 3 || c.shape(1) != in)
    throw UserError("the input must have shape (N, C, D1, ...), the indices the same");
  const size_t n = in.size() - 2;
  const std::vector<int64_t> kernel = c.ints_attr("kernel_shape");
  const std::vector<int64_t> strides = c.ints_or("strides", std::vector<int64_t>(n, 1));
  const std::vector<int64_t> pads = c.ints_or("pads", std::vector<int64_t>(2 * n, 0));
  if (kernel.size() != n || strides.size() != n || pads.size() != 2 * n)
    throw UserError("kernel_shape, strides or pads have a wrong length");
  Shape natural{in[0], in[1]};
  for (size_t d = 0; d < n; ++d) {
    for (int64_t v : {kernel[d], strides[d], pads[d], pads[d + n]}) {
      if (v < 0 || v > kMaxFoldInputElements) throw UserError("an extent of {}", v);
    }
    natural.push_back((in[2 + d] - 1) * strides[d] + kernel[d] - pads[d] - pads[d + n]);
  }
  const Shape out = c.has(2) ? c.const_ints(2, "output_shape") : natural;
  if (out.size() != in.size() ||
      std::ranges::any_of(out, [](int64_t x) { return x < 1 || x > kMaxFoldInputElements; })) {
    throw UserError("the output shape {}", to_string(out));
  }
  const ValueId zeros = e.filled(0, {c.type(0).type, {1, num_elements(out)}});
  if (!c.is_constant(1) && out == natural) {
    check_index_type(c, 1, "I");
    const ValueId places = e.cast(e.reshape(c.input(1), {num_elements(in)}), DataType::i64());
    return {e.reshape(scatter_at_run_time(c, {zeros, flat(e, c.input(0)), places, "none"}), out)};
  }
  const graph::RefTensor indices = known_indices(c, 1, "I");
  // The indices count elements of the natural shape; in a larger output its rows are longer.
  const Shape from = row_major_strides(natural), to = row_major_strides(out);
  std::vector<int64_t> destinations;
  for (int64_t index : indices.ints) {
    if (index < 0 || index >= num_elements(natural)) throw UserError("index {}", index);
    int64_t at = 0;
    for (size_t d = 0; d < out.size(); ++d) at += index / from[d] % natural[d] * to[d];
    if (at >= num_elements(out)) throw UserError("index {} is outside the output", index);
    destinations.push_back(at);
  }
  return {e.reshape(scatter(e, {zeros, flat(e, c.input(0)), std::move(destinations), "none"}), out)};
}

}  // namespace

std::vector<ConverterRow> scatter_rows() {
  return {{"Scatter", 9, 10, convert_scatter_elements},
          {"ScatterElements", 11, 0, convert_scatter_elements},
          {"ScatterND", 11, 0, convert_scatter_nd},
          {"TensorScatter", 24, 0, convert_tensor_scatter},
          {"Col2Im", 18, 0, convert_col2im},
          {"MaxUnpool", 9, 0, convert_max_unpool}};
}

}  // namespace tw::frontend
