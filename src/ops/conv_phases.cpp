// conv_phases(x [N, C, in..], w [OC, C / group, phases.., positions..], [bias [OC]]), one to three spatial axes, float:
// a convolution whose result interleaves phases, each with filters of its own. Position o = q * phases + r, of phase r:
//   y[n, oc, o] = bias[oc] + sum over ic, t < counts[r] of x[n, g * C / group + ic, q + starts[r] + t * spacing]
//                                                          * w[oc, ic, r, t],  g = oc / (OC / group)
// along every spatial axis; x is 0 outside. A transposed convolution of stride s is one of s phases
// (transform/rewrite/split_phases.cpp makes them).
// Attributes: extents (of q, one for each spatial axis: y has extents[d] * phases[d] positions), spacing (likewise),
// starts and counts (one for each phase of each axis, axis by axis; counts between 0 and the filter positions of w).
// te: `pad` (when something outside of x is read), a sum of products under the condition t < counts[r] where phases
// differ in their number of filter positions, then bias and rounding. The sum divides the spatial axes by their phases,
// which makes two axes of each (te/split_axes.cpp).
#include <algorithm>

#include "ops/families.h"
#include "ops/window.h"

namespace tw::ops {
namespace {

using Ints = std::vector<int64_t>;

// Of one spatial axis.
struct PhaseAxis {
  int64_t in = 0, extent = 0, phases = 0, positions = 0, spacing = 0;
  Ints starts, counts;  // by phase
  int64_t out() const { return extent * phases; }

  // The positions of x that are read; 0 and -1 when none is.
  Halo halo() const {
    int64_t low = 0, high = -1;
    for (size_t r = 0; r < starts.size(); ++r) {
      if (counts[r] == 0) continue;
      const int64_t last = extent - 1 + starts[r] + (counts[r] - 1) * spacing;
      low = high < low ? starts[r] : std::min(low, starts[r]);
      high = std::max(high, last);
    }
    return {low, high};
  }
};

struct Phases {
  std::vector<PhaseAxis> axes;
  Channels channels;
  size_t rank() const { return axes.size(); }
  Shape out_shape() const {
    Shape shape{channels.batch, channels.out_channels};
    for (const PhaseAxis& axis : axes) shape.push_back(axis.out());
    return shape;
  }
};

void check_axis(const OpCall& call, const PhaseAxis& axis) {
  require(call, axis.in > 0 && axis.extent > 0 && axis.phases > 0 && axis.positions > 0 && axis.spacing > 0,
          "input {}, extent {}, {} phases, {} filter positions, spacing {}", axis.in, axis.extent, axis.phases,
          axis.positions, axis.spacing);
  for (const int64_t count : axis.counts)
    require(call, count >= 0 && count <= axis.positions, "a phase of {} filter positions, the weights have {}", count,
            axis.positions);
}

Phases phases_of(const OpCall& call) {
  const Shape& x = call.inputs[0].shape;
  const Shape& w = call.inputs[1].shape;
  Phases p{{}, channels_of(call)};
  require(call, w.size() == 2 * x.size() - 2,
          "input {} and weights {}: expected two axes of the weights for each spatial axis", to_string(call.inputs[0]),
          to_string(call.inputs[1]));
  const size_t rank = x.size() - 2;
  const Ints& extents = call.node.ints_attr("extents");
  const Ints& spacing = call.node.ints_attr("spacing");
  const Ints& starts = call.node.ints_attr("starts");
  const Ints& counts = call.node.ints_attr("counts");
  int64_t all_phases = 0;
  for (size_t d = 0; d < rank; ++d) all_phases += w[2 + d];
  require(call,
          extents.size() == rank && spacing.size() == rank && static_cast<int64_t>(starts.size()) == all_phases &&
              starts.size() == counts.size(),
          "attributes for {} spatial axes and {} phases expected", rank, all_phases);
  auto first = std::ptrdiff_t{0};
  for (size_t d = 0; d < rank; ++d) {
    const auto last = first + static_cast<std::ptrdiff_t>(w[2 + d]);
    p.axes.push_back({x[2 + d], extents[d], w[2 + d], w[2 + rank + d], spacing[d],
                      Ints(starts.begin() + first, starts.begin() + last),
                      Ints(counts.begin() + first, counts.begin() + last)});
    check_axis(call, p.axes.back());
    first = last;
  }
  return p;
}

// values[r] as an expression of r: a line where they lie on one, else a choice at every place where they change.
Expr tabulated(const Ints& values, const Expr& r) {
  const int64_t step = values.size() > 1 ? values[1] - values[0] : 0;
  bool line = true;
  for (size_t k = 1; k < values.size(); ++k) line = line && values[k] - values[k - 1] == step;
  if (line) return step == 0 ? Expr(values[0]) : r * Expr(step) + Expr(values[0]);
  Expr chosen(values.back());
  for (size_t k = values.size() - 1; k-- > 0;) {
    if (values[k] != values[k + 1]) chosen = select(r < Expr(static_cast<int64_t>(k) + 1), Expr(values[k]), chosen);
  }
  return chosen;
}

Tensors te_phases(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Phases p = phases_of(call);
  std::vector<Halo> halos;
  Shape reduce_shape;
  if (!p.channels.depthwise()) reduce_shape.push_back(p.channels.each());
  const size_t first = reduce_shape.size();
  for (const PhaseAxis& axis : p.axes) {
    reduce_shape.push_back(axis.positions);
    halos.push_back(axis.halo());
  }
  Ints offset;
  const te::Tensor x = pad_around(call, builder, inputs[0], halos, imm(inputs[0].type, 0), &offset);
  const auto product = [&](const Exprs& i, const Exprs& r) {
    const Expr ic = first == 0 ? Expr(0) : r[0];
    Exprs at_x{i[0], p.channels.input(i[1], ic)}, at_w{i[1], ic}, positions, conditions;
    for (size_t d = 0; d < p.rank(); ++d) {
      const PhaseAxis& axis = p.axes[d];
      const Expr q = axis.phases == 1 ? i[2 + d] : axis.extent == 1 ? Expr(0) : floor_div(i[2 + d], Expr(axis.phases));
      const Expr phase = axis.phases == 1   ? Expr(0)
                         : axis.extent == 1 ? i[2 + d]
                                            : floor_mod(i[2 + d], Expr(axis.phases));
      const Expr& t = r[first + d];
      at_x.push_back(q + tabulated(axis.starts, phase) + t * Expr(axis.spacing) + Expr(offset[d]));
      at_w.push_back(phase);
      positions.push_back(t);
      if (std::ranges::any_of(axis.counts, [&](int64_t count) { return count < axis.positions; }))
        conditions.push_back(t < tabulated(axis.counts, phase));
    }
    const Expr term = read(x, at_x) * read(inputs[1], joined(at_w, positions));
    return conditions.empty() ? term : select(all_of(conditions), term, imm(term.type(), 0));
  };
  const te::Tensor sum = builder.reduce(sum_name(call), p.out_shape(), reduce_shape, te::CombinerKind::kSum, product);
  return with_bias(call, builder, sum, inputs);
}

constexpr auto infer = infer_conv<phases_of>;

// ---- Reference.

// One term of an axis: output position o reads input position `from` with filter element (phase, position).
struct Term {
  int64_t from, phase, position;
};

// For every output position of an axis the terms whose input position exists.
std::vector<std::vector<Term>> terms_of(const PhaseAxis& axis) {
  std::vector<std::vector<Term>> terms(axis.out());
  for (int64_t o = 0; o < axis.out(); ++o) {
    const int64_t phase = o % axis.phases;
    for (int64_t t = 0; t < axis.counts[phase]; ++t) {
      const int64_t from = o / axis.phases + axis.starts[phase] + t * axis.spacing;
      if (from >= 0 && from < axis.in) terms[o].push_back({from, phase, t});
    }
  }
  return terms;
}

// Offsets into a channel of x and into a filter, of every product that goes into one output position.
std::vector<std::pair<int64_t, int64_t>> products_of(const Phases& p,
                                                     const std::vector<std::vector<std::vector<Term>>>& terms,
                                                     const Ints& position) {
  std::vector<std::pair<int64_t, int64_t>> phases{{0, 0}};
  std::vector<int64_t> positions{0};
  for (size_t d = 0; d < p.rank(); ++d) {
    std::vector<std::pair<int64_t, int64_t>> next;
    std::vector<int64_t> next_positions;
    for (size_t k = 0; k < phases.size(); ++k) {
      for (const Term& term : terms[d][position[d]]) {
        next.emplace_back(phases[k].first * p.axes[d].in + term.from, phases[k].second * p.axes[d].phases + term.phase);
        next_positions.push_back(positions[k] * p.axes[d].positions + term.position);
      }
    }
    phases = std::move(next);
    positions = std::move(next_positions);
  }
  const int64_t filter_positions = num_elements(mapped(p.axes, &PhaseAxis::positions));
  for (size_t k = 0; k < phases.size(); ++k) phases[k].second = phases[k].second * filter_positions + positions[k];
  return phases;
}

void reference(const OpCall& call, Refs inputs, RefTensor& y) {
  const Phases p = phases_of(call);
  int64_t in_area = 1, filter = 1;
  Shape out;
  std::vector<std::vector<std::vector<Term>>> terms;
  for (const PhaseAxis& axis : p.axes) {
    in_area *= axis.in;
    filter *= axis.phases * axis.positions;
    out.push_back(axis.out());
    terms.push_back(terms_of(axis));
  }
  const auto& [batch, group, channels, out_channels] = p.channels;
  const int64_t each = p.channels.each();
  const auto add_channel = [&](int64_t n, int64_t oc) {
    double* to = y.floats.data() + (n * out_channels + oc) * num_elements(out);
    const double* x = inputs[0].floats.data() + (n * channels + oc / p.channels.out_each() * each) * in_area;
    const double* w = inputs[1].floats.data() + oc * each * filter;
    for_each_index(out, [&](const Ints& position) {
      double sum = 0;
      const auto products = products_of(p, terms, position);
      for (int64_t ic = 0; ic < each; ++ic) {
        for (const auto& [from, at] : products) sum += x[ic * in_area + from] * w[ic * filter + at];
      }
      *to++ = sum;
    });
  };
  parallel_ranges(batch * out_channels, each * filter * in_area, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) add_channel(k / out_channels, k % out_channels);
  });
  add_bias(call, inputs, y);
}

}  // namespace

std::vector<OpDef> conv_phases_ops() {
  return {{"conv_phases", OpClass::kContraction, infer, te_phases, filled<infer, reference>, {2, 3}}};
}

}  // namespace tw::ops
