// Reads at computed indices: their gradient is a sum over all readers of an element.
//   gather with constant indices    a gather, too: of the readers of each element, which are known; of neighbours a pad
//   gather                          scatter_sum; of few elements a sum each
//   gather_elements of one element  a choice by comparison, without any sum: the picked probability of a loss
//   gather_elements, gather_nd      scatter_elements_sum; scatter_sum at row-major offsets
//   scatter_sum and its like        gather and its like
//   one_hot                         sums of dy where it is hot and where it is not
#include "ops/gradient/rules.h"

namespace tw::ops {
namespace {

// The largest table of readers that is worth having, for each element read or written.
constexpr int64_t kMaxReaders = 4;
constexpr int64_t kFewLines = 4;  // which need a sum each

// Row v of the table: which of the `count` reads are of position v, then `count` (which reads zeros) up to the longest
// row.
std::vector<Ints> readers_of(const Ints& positions, int64_t extent) {
  std::vector<Ints> readers(extent);
  for (size_t j = 0; j < positions.size(); ++j) readers[positions[j]].push_back(static_cast<int64_t>(j));
  size_t most = 1;
  for (const Ints& row : readers) most = std::max(most, row.size());
  for (Ints& row : readers) row.resize(most, std::ssize(positions));
  return readers;
}

// dy [outer.., reads, inner..] summed to [outer.., extent, inner..].
Term summed_by_table(const GradientCall& g, const Term& dy, int64_t axis, const std::vector<Ints>& readers) {
  Ints flat;
  for (const Ints& row : readers) append(flat, row);
  Ints pads(2 * dy.rank(), 0);
  pads[dy.rank() + static_cast<size_t>(axis)] = 1;
  const Term table = reshape(g.builder.integers(flat), {std::ssize(readers), std::ssize(readers[0])});
  const Term read = emit("gather", {pad(dy, pads), table}, {{"axis", axis}});
  return emit("reduce_sum", {read}, {{"axes", Ints{axis + 1}}, {"keepdims", int64_t{0}}});
}

// Indices from the end, and beyond it, as the positions that they mean.
Term clamped(const Term& indices, const Term& extents) {
  const Term i = cast(indices, DataType::i64());
  const Term positive = where(compare("less", i, 0), i + extents, i);
  return emit("min", {emit("max", {positive, i.number(0)}), extents - i.number(1)});
}

// dy, whose `count` reads are of neighbours from `first` on.
Term zeros_around(const GradientCall& g, int64_t axis, int64_t first, int64_t count) {
  Shape rows = g.x().shape();
  const auto a = static_cast<size_t>(axis);
  Ints pads(2 * rows.size(), 0);
  pads[a] = first, pads[rows.size() + a] = rows[a] - first - count;
  rows[a] = count;
  return pad(reshape(g.dy(), rows), pads);
}

// A sum for each line, of all of dy: as kinds of tokens need it, lines of which have many terms each.
Term summed_by_line(const GradientCall& g, int64_t axis, int64_t extent) {
  const size_t reads = g.x(1).rank();
  const Term at = clamped(g.x(1), g.builder.constant({{DataType::i64(), {}}, {}, {extent}}));
  Shape shape(g.dy().rank(), 1);  // of the indices, beside dy
  std::ranges::copy(g.x(1).shape(), shape.begin() + axis);
  const Term line = reshape(at, shape);
  std::vector<Term> sums = by_index(extent, [&](int64_t v) {
    return sum(where(compare("equal", line, v), g.dy(), 0), axes_from(axis, axis + reads));
  });
  Shape one = g.x().shape();
  one[axis] = 1;
  for (Term& s : sums) s = reshape(s, one);
  return emit("concat", sums, {{"axis", axis}});
}

Terms of_gather(const GradientCall& g) {
  const int64_t axis = axis_of(g.call, 0), extent = g.x().shape()[axis];
  const int64_t count = g.x(1).type().elements();
  const graph::Value& indices = g.builder.value(g.x(1).id());
  if (indices.is_constant() && count > 0) {
    const Ints known = mapped(RefTensor::from_bytes(indices.type, *indices.constant).ints,
                              [&](int64_t i) { return position(i, extent); });
    const bool are_apart =
        std::ranges::adjacent_find(known, [](int64_t a, int64_t b) { return b != a + 1; }) != known.end();
    if (!are_apart) return {zeros_around(g, axis, known.front(), count), Term{}};
    const std::vector<Ints> readers = readers_of(known, extent);
    const bool has_long_lines = extent <= kFewLines && std::ssize(readers[0]) > kMaxReaders;
    if (!has_long_lines && extent * std::ssize(readers[0]) <= kMaxReaders * (extent + count)) {
      Shape rows = g.x().shape();
      rows[axis] = count;
      return {summed_by_table(g, reshape(g.dy(), rows), axis, readers), Term{}};
    }
  }
  if (extent <= kFewLines) return {summed_by_line(g, axis, extent), Term{}};
  return {emit("scatter_sum", {g.dy(), g.x(1)}, {{"axis", axis}, {"extent", extent}}), Term{}};
}

Terms of_elements(const GradientCall& g) {
  const int64_t axis = axis_of(g.call, 0);
  const Shape x = g.x().shape();
  Shape one = x;
  one[axis] = 1;
  if (g.x(1).shape() != one)
    return {emit("scatter_elements_sum", {g.dy(), g.x(1)}, {{"axis", axis}, {"shape", x}}), Term{}};
  const Term at = clamped(g.x(1), g.builder.constant({{DataType::i64(), {}}, {}, {x[axis]}}));
  return {emit("pick", {at, g.dy()}, {{"axis", axis}, {"extent", x[axis]}}), Term{}};
}

// x as [batch * positions that a tuple can mean, rest]: each tuple is an offset into the first.
Terms of_nd(const GradientCall& g) {
  const Shape x = g.x().shape(), indices = g.x(1).shape();
  const int64_t batch = g.node().int_attr_or("batch_dims", 0), tuple = indices.back();
  const auto lead = x.begin() + batch;
  const Shape extents(lead, lead + tuple);
  const int64_t batches = num_elements(Shape(x.begin(), lead)), places = num_elements(extents);
  const int64_t rest = num_elements(Shape(lead + tuple, x.end()));
  const int64_t tuples = num_elements(Shape(indices.begin(), indices.end() - 1));
  const Term at = clamped(reshape(g.x(1), {tuples, tuple}), g.builder.integers(extents));
  Term offset = reshape(sum(at * g.builder.integers(row_major_strides(extents)), {1}), {tuples});
  if (batches > 1) {
    const Term first = expand(positions(g, batches, 0, 2) * g.builder.integers({places}), {batches, tuples / batches});
    offset = offset + reshape(first, {tuples});
  }
  const Term rows = emit("scatter_sum", {reshape(g.dy(), {tuples, rest}), offset},
                         {{"axis", int64_t{0}}, {"extent", batches * places}});
  return {reshape(rows, x), Term{}};
}

// The sums' own gradients are reads.
Terms of_scatter(const GradientCall& g) {
  return {emit("gather", {g.dy(), g.x(1)}, {{"axis", g.node().int_attr("axis")}}), Term{}};
}
Terms of_scatter_elements(const GradientCall& g) {
  return {emit("gather_elements", {g.dy(), g.x(1)}, {{"axis", axis_of(g.call, 0)}}), Term{}};
}

Terms of_one_hot(const GradientCall& g) {
  const DataType type = g.dy().element();
  graph::Attrs attrs = g.node().attrs;
  const Term hot = emit("one_hot", {g.x(0), g.builder.constant({{type, {2}}, {0, 1}, {}})}, attrs);
  const Ints all = axes_from(0, g.dy().rank());
  const Term on = reshape(sum(g.dy() * hot, all), {1}), off = reshape(sum(g.dy() * (1 - hot), all), {1});
  return {Term{}, emit("concat", {off, on}, {{"axis", int64_t{0}}})};
}

}  // namespace

std::vector<GradientRow> gather_gradients() {
  constexpr std::string_view kWords = "it is made by pass pack-dot-operands, behind gradients";
  constexpr std::string_view kOthers = "of scatters with a reduction, those that add have one";
  return {by_rule("gather", of_gather),        by_rule("gather_elements", of_elements),
          by_rule("gather_nd", of_nd),         by_rule("one_hot", of_one_hot),
          by_rule("scatter_sum", of_scatter),  by_rule("scatter_elements_sum", of_scatter_elements),
          is_refused("scatter_prod", kOthers), is_refused("scatter_min", kOthers),
          is_refused("scatter_max", kOthers),  is_refused("pack_words", kWords),
          is_refused("sum_words", kWords)};
}

}  // namespace tw::ops
