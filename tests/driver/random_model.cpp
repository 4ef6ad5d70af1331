#include "tests/driver/random_model.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

namespace tw::driver::test {
namespace {

using graph::Attrs;
using graph::Graph;
using graph::RefTensor;
using graph::ValueId;
using Ints = std::vector<int64_t>;

constexpr int64_t kMaxElements = 3000;  // of a value

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(0, 99) < percent; }
  double real() { return static_cast<double>(between(-1024, 1024)) / 1024; }
  template <typename T>
  const T& pick(const std::vector<T>& list) {
    return list[static_cast<size_t>(between(0, static_cast<int64_t>(list.size()) - 1))];
  }
  template <typename T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[static_cast<size_t>(between(0, static_cast<int64_t>(i) - 1))]);
  }

 private:
  std::mt19937_64 engine_;
};

class Maker {
 public:
  Maker(const graph::OpTable& ops, uint64_t seed) : ops_(ops), random_(seed) {
    const int64_t kind = random_.between(0, 9);
    type_ = kind == 0 ? DataType::f16() : DataType::f32();
  }

  Graph run() {
    graph_.name = "random";
    for (int64_t k = random_.between(1, 3); k > 0; --k) keep_exact(graph_.add_input("x", {type_, random_shape()}));
    for (int64_t k = random_.between(3, 12); k > 0; --k) add_something();
    choose_outputs();
    Graph done = graph::compact(graph_);
    graph::verify(done, ops_);
    return done;
  }

 private:
  const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }
  int64_t rank(ValueId id) const { return static_cast<int64_t>(shape(id).size()); }
  int64_t any_axis(ValueId id) { return random_.between(-rank(id), rank(id) - 1); }

  void keep_exact(ValueId id) {
    exact_.insert(id);
    pool_.push_back(id);
  }

  void choose_outputs() {
    std::set<ValueId> chosen;
    for (int64_t k = random_.between(0, 2); k > 0; --k) chosen.insert(random_.pick(produced_));
    chosen.insert(produced_.back());
    graph_.outputs.assign(chosen.begin(), chosen.end());
  }

  // Two spatial forms (for windows) and plain ones.
  Shape random_shape() {
    static const Ints kExtents = {1, 2, 3, 5, 7, 8, 11};
    static const Ints kChannels = {1, 3, 4, 6, 16, 17}, kSquares = {2, 16, 17, 33, 48};
    if (random_.chance(50)) {
      Shape s{random_.between(1, 2), random_.pick(kChannels)};
      const int64_t spatial = random_.between(1, 3);
      for (int64_t d = 0; d < spatial; ++d) s.push_back(random_.between(1, spatial == 3 ? 5 : 9));
      return s;
    }
    if (random_.chance(25)) return Shape(2, random_.pick(kSquares));
    Shape s;
    for (int64_t d = random_.between(1, 3); d > 0; --d) s.push_back(random_.chance(10) ? 33 : random_.pick(kExtents));
    return s;
  }

  ValueId node(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    graph::Node n;
    n.op = op;
    n.name = op;
    n.attrs = std::move(attrs);
    n.inputs = std::move(inputs);
    const std::vector<ValueId> outputs = graph::append_node(graph_, ops_, std::move(n));
    produced_.insert(produced_.end(), outputs.rbegin(), outputs.rend());
    return outputs[0];
  }

  ValueId constant_of(const RefTensor& t) { return graph_.add_constant("c", t.type, share(t.to_bytes())); }
  ValueId constant(const Shape& s, double scale = 1) {
    RefTensor t = RefTensor::zeros({type_, s});
    for (double& x : t.floats) x = random_.real() * scale;
    return constant_of(t);
  }
  ValueId positive(const Shape& s) {
    RefTensor t = RefTensor::zeros({type_, s});
    for (double& x : t.floats) x = 0.5 + std::fabs(random_.real());
    return constant_of(t);
  }

  // A value of that shape out of the pool, or a constant.
  ValueId fitting(const Shape& s) {
    std::vector<ValueId> found;
    for (const ValueId id : pool_) {
      if (shape(id) == s && graph_.value(id).type.type == type_) found.push_back(id);
    }
    return found.empty() || random_.chance(30) ? constant(s) : random_.pick(found);
  }

  void add_something() {
    const ValueId x = random_.pick(pool_);
    const ValueId y = something(x);
    if (y == graph::kAbsent || graph_.value(y).type.elements() > kMaxElements || graph_.value(y).type.type != type_)
      return;
    pool_.push_back(y);
  }

  ValueId something(ValueId x) {
    switch (random_.between(0, 12)) {
      case 12:
        return of_itself(x);
      case 0:
      case 1:
        return unary(x);
      case 2:
      case 3:
        return binary(x);
      case 4:
        return reduction(x);
      case 5:
        return normalization(x);
      case 6:
      case 7:
        return movement(x);
      case 8:
        return matmul(x);
      case 9:
        return jump();
      default:
        return rank(x) >= 3 ? window(x) : matmul(x);
    }
  }

  ValueId unary(ValueId x) {
    static const std::vector<std::string> kOps = {"relu", "tanh",       "sigmoid",    "neg",      "abs",       "erf",
                                                  "gelu", "hard_swish", "leaky_relu", "softplus", "silu",      "sin",
                                                  "cos",  "elu",        "softsign",   "identity", "gelu_tanh", "atan"};
    if (random_.chance(10)) return node("clip", {x}, {{"min", -0.5}, {"max", 0.75}});
    if (random_.chance(10)) return node("exp", {node("clip", {x}, {{"min", -4.0}, {"max", 2.0}})});
    if (random_.chance(10))
      return node(random_.chance(50) ? "sqrt" : "log", {node("add", {node("abs", {x}), positive({})})});
    return node(random_.pick(kOps), {x});
  }

  ValueId binary(ValueId x) {
    static const std::vector<std::string> kOps = {"add", "sub", "mul", "max", "min"};
    Shape s = shape(x);
    for (int64_t& extent : s) extent = random_.chance(30) ? 1 : extent;
    if (random_.chance(20)) s.erase(s.begin(), s.begin() + random_.between(0, rank(x)));
    if (random_.chance(10)) return node("div", {x, positive(s)});
    if (random_.chance(5)) return node("pow", {node("add", {node("abs", {x}), positive({})}), constant(s)});
    if (random_.chance(10)) return node("prelu", {x, constant(s)});
    const ValueId other = fitting(random_.chance(60) ? shape(x) : s);
    return random_.chance(50) ? node(random_.pick(kOps), {x, other}) : node(random_.pick(kOps), {other, x});
  }

  Ints some_axes(ValueId x) {
    Ints axes;
    for (int64_t d = 0; d < rank(x); ++d) {
      if (random_.chance(50)) axes.push_back(random_.chance(30) ? d - rank(x) : d);
    }
    if (axes.empty()) axes.push_back(rank(x) - 1);
    return axes;
  }

  ValueId reduction(ValueId x) {
    static const std::vector<std::string> kOps = {"reduce_mean", "reduce_max", "reduce_min",        "reduce_sum",
                                                  "reduce_l1",   "reduce_l2",  "reduce_log_sum_exp"};
    if (rank(x) == 0) return unary(x);
    return node(random_.pick(kOps), {x}, {{"axes", some_axes(x)}, {"keepdims", random_.between(0, 1)}});
  }

  ValueId normalization(ValueId x) {
    if (rank(x) < 1) return unary(x);
    const int64_t last = shape(x).back();
    switch (random_.between(0, 4)) {
      case 0:
        return node("softmax", {x}, {{"axis", any_axis(x)}});
      case 1:
        return node("log_softmax", {x}, {{"axis", any_axis(x)}});
      case 2:
        return node("layer_norm", {x, constant({last}), constant({last})}, {{"axis", int64_t{-1}}, {"epsilon", 0.1}});
      case 3:
        return node("rms_norm", {x, constant({last})}, {{"axis", int64_t{-1}}, {"epsilon", 0.1}});
      default:
        break;
    }
    if (rank(x) < 3) return unary(x);
    const Shape channels{shape(x)[1]};
    if (random_.chance(30))
      return node("instance_norm", {x, constant(channels), constant(channels)}, {{"epsilon", 0.1}});
    return node("batch_norm", {x, constant(channels), constant(channels), constant(channels), positive(channels)});
  }

  ValueId movement(ValueId x) {
    if (rank(x) < 1) return unary(x);
    const ValueId y = moved(x);
    if (exact_.count(x) != 0 && graph_.value(y).type.elements() <= kMaxElements) exact_.insert(y);
    return y;
  }

  ValueId moved(ValueId x) {
    switch (random_.between(0, 8)) {
      case 0:
        return node("transpose", {x}, {{"perm", random_order(rank(x))}});
      case 1:
        return slice(x);
      case 2:
        return expand(x);
      case 3: {
        const ValueId other = constant(shape(x));
        return node("concat", random_.chance(50) ? std::vector<ValueId>{x, other} : std::vector<ValueId>{other, x, x},
                    {{"axis", any_axis(x)}});
      }
      case 4:
        return pad(x);
      case 5:
        return node("reshape", {x}, {{"shape", reshaped(shape(x))}});
      case 6:
        return tile(x);
      default:
        return gather(x);
    }
  }

  static Ints identity_order(int64_t n) {
    Ints order(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) order[i] = i;
    return order;
  }

  Ints random_order(int64_t n) {
    Ints order = identity_order(n);
    random_.shuffle(order);
    return order;
  }

  ValueId slice(ValueId x) {
    Ints starts, steps, extents;
    for (const int64_t extent : shape(x)) {
      const int64_t step = random_.chance(30) ? random_.pick(Ints{2, -1, -2, 3}) : 1;
      const int64_t start = step < 0 ? extent - 1 : random_.chance(40) ? random_.between(0, extent - 1) : 0;
      const int64_t max = 1 + (step < 0 ? start / -step : (extent - 1 - start) / step);
      starts.push_back(start);
      steps.push_back(step);
      extents.push_back(random_.chance(70) ? max : random_.between(1, max));
    }
    return node("slice", {x}, {{"starts", starts}, {"steps", steps}, {"extents", extents}});
  }

  ValueId expand(ValueId x) {
    Shape s = shape(x);
    for (int64_t& extent : s) extent = extent == 1 && random_.chance(60) ? 3 : extent;
    if (random_.chance(30)) s.insert(s.begin(), 2);
    return node("expand", {x}, {{"shape", s}});
  }

  ValueId tile(ValueId x) {
    Ints repeats;
    for (int64_t d = 0; d < rank(x); ++d) repeats.push_back(random_.chance(60) ? 1 : random_.between(1, 3));
    return node("tile", {x}, {{"repeats", repeats}});
  }

  ValueId pad(ValueId x) {
    static const std::vector<std::string> kModes = {"constant", "edge", "reflect", "wrap"};
    std::string mode = random_.chance(50) ? "constant" : random_.pick(kModes);
    Ints pads(static_cast<size_t>(2 * rank(x)));
    for (size_t i = 0; i < pads.size(); ++i)
      pads[i] = random_.chance(50) ? 0 : random_.between(0, shape(x)[i % static_cast<size_t>(rank(x))] - 1);
    Attrs attrs{{"pads", pads}, {"mode", mode}};
    if (mode == "constant" && random_.chance(50)) attrs["value"] = 0.5;
    return node("pad", {x}, std::move(attrs));
  }

  Shape reshaped(const Shape& s) {
    const int64_t count = num_elements(s);
    for (const int64_t factor : {11, 7, 5, 3, 2}) {
      if (count % factor == 0 && random_.chance(50))
        return random_.chance(50) ? Shape{factor, count / factor} : Shape{1, count / factor, factor, 1};
    }
    return {count};
  }

  ValueId gather(ValueId x) {
    const int64_t axis = random_.between(0, rank(x) - 1);
    const Shape index_shape = random_.chance(50) ? Shape{random_.between(1, 5)} : Shape{2, random_.between(1, 3)};
    const int64_t extent = shape(x)[axis];
    if (extent > 3 && random_.chance(40)) {  // random_arrays gives 0 to 3
      const ValueId indices =
          graph_.add_input("indices", {random_.chance(50) ? DataType::i64() : DataType::i32(), index_shape});
      return node("gather", {x, indices}, {{"axis", axis}});
    }
    RefTensor t = RefTensor::zeros({DataType::i64(), index_shape});
    for (int64_t& i : t.ints) i = random_.between(-extent, extent - 1);
    return node("gather", {x, constant_of(t)}, {{"axis", axis}});
  }

  ValueId matmul(ValueId x) {
    if (rank(x) < 1) return unary(x);
    const int64_t k = shape(x).back();
    const int64_t n = random_.pick(Ints{1, 2, 5, 8, 16, 19, 33});
    const double scale = 1 / std::sqrt(static_cast<double>(k));
    Shape w{k, n};
    if (rank(x) >= 3 && random_.chance(30)) w.insert(w.begin(), shape(x)[rank(x) - 3]);
    // Two values, as in attention: x times its transpose.
    if (random_.chance(15) && rank(x) >= 2) return node("mul", {node("matmul", {x, turned(x)}), constant({}, scale)});
    ValueId y = node("matmul", {x, constant(w, scale)});
    if (random_.chance(50)) y = node("add", {y, constant({n})});
    return random_.chance(50) ? node("relu", {y}) : y;
  }

  // ---- One value as several operands.

  ValueId turned(ValueId x) {
    Ints order = identity_order(rank(x));
    std::swap(order[rank(x) - 1], order[rank(x) - 2]);
    return node("transpose", {x}, {{"perm", order}});
  }

  ValueId of_itself(ValueId x) {
    if (rank(x) < 2) return node(random_.pick(std::vector<std::string>{"add", "sub", "mul", "max"}), {x, x});
    const ValueId scale = constant({}, 1 / static_cast<double>(shape(x).back() * shape(x)[rank(x) - 2]));
    const bool square = shape(x).back() == shape(x)[rank(x) - 2];
    switch (random_.between(0, 4)) {
      case 0:  // attention without projections
        return node("matmul", {node("softmax", {node("matmul", {x, turned(x)})}), x});
      case 1:
        return node("mul", {node("matmul", {turned(x), x}), scale});
      case 2:
        return rank(x) >= 3 && rank(x) <= 5 ? conv_with_part(x) : node("concat", {x, x}, {{"axis", any_axis(x)}});
      case 3:
        return square ? node("add", {node("mul", {node("matmul", {x, x}), scale}), x}) : node("max", {x, x});
      default:
        return square ? node("sub", {x, turned(x)}) : node("mul", {node("matmul", {x, turned(x)}), scale});
    }
  }

  // x convolved with a corner of itself as filters.
  ValueId conv_with_part(ValueId x) {
    Ints extents = shape(x);
    for (size_t d = 2; d < extents.size(); ++d) extents[d] = random_.between(1, std::min<int64_t>(3, extents[d]));
    const Ints starts(extents.size(), 0), steps(extents.size(), 1);
    const ValueId w = node("slice", {x}, {{"starts", starts}, {"steps", steps}, {"extents", extents}});
    return node("mul", {node("conv", {x, w}), constant({}, 1 / static_cast<double>(num_elements(extents)))});
  }

  // ---- Sliding windows over x [N, C, spatial..].

  struct Geometry {
    Ints kernel, strides, dilations, pads;
  };

  Geometry geometry(ValueId x) {
    Geometry g;
    const int64_t spatial = rank(x) - 2;
    Ints ends;
    for (int64_t d = 0; d < spatial; ++d) {
      const int64_t extent = shape(x)[d + 2];
      g.kernel.push_back(random_.between(1, spatial == 3 ? 2 : 3));
      g.strides.push_back(random_.between(1, 3));
      g.dilations.push_back(random_.chance(70) ? 1 : 2);
      const int64_t dilated = (g.kernel.back() - 1) * g.dilations.back() + 1;
      const int64_t min = std::max<int64_t>(0, dilated - extent);  // of both pads together
      g.pads.push_back(std::min(dilated - 1, random_.between(0, 1) + (min + 1) / 2));
      ends.push_back(std::min(dilated - 1, random_.between(0, 1) + (min + 1) / 2));
    }
    g.pads.insert(g.pads.end(), ends.begin(), ends.end());
    return g;
  }

  ValueId window(ValueId x) {
    if (rank(x) > 5) return unary(x);
    const Geometry g = geometry(x);
    Attrs attrs{{"strides", g.strides}, {"dilations", g.dilations}, {"pads", g.pads}};
    switch (random_.between(0, 6)) {
      case 0:
        attrs["kernel_shape"] = g.kernel;
        return node("max_pool", {x}, std::move(attrs));
      case 1:
        attrs["kernel_shape"] = g.kernel;
        attrs["count_include_pad"] = random_.between(0, 1);
        attrs["ceil_mode"] = random_.between(0, 1);
        return node("avg_pool", {x}, std::move(attrs));
      case 2:
        return node(random_.chance(50) ? "global_avg_pool" : "global_max_pool", {x});
      case 3:
        return conv_transpose(x, g);
      default:
        return conv(x, g, std::move(attrs));
    }
  }

  ValueId conv(ValueId x, const Geometry& g, Attrs attrs) {
    const int64_t channels = shape(x)[1];
    Ints divisors;
    for (int64_t d = 1; d <= channels; ++d) {
      if (channels % d == 0) divisors.push_back(d);
    }
    const int64_t group = random_.chance(50) ? 1 : random_.chance(50) ? channels : random_.pick(divisors);
    const int64_t out = group * (group > 4 ? 1 : random_.pick(Ints{1, 2, 5, 8, 17}));
    Shape w{out, channels / group};
    w.insert(w.end(), g.kernel.begin(), g.kernel.end());
    attrs["group"] = group;
    std::vector<ValueId> inputs{x, constant(w, 1 / std::sqrt(static_cast<double>(num_elements(w) / out)))};
    if (random_.chance(60)) inputs.push_back(constant({out}));
    ValueId y = node("conv", inputs, std::move(attrs));
    if (random_.chance(30)) y = node("add", {y, fitting(shape(y))});
    return random_.chance(60) ? node("relu", {y}) : y;
  }

  ValueId conv_transpose(ValueId x, const Geometry& g) {
    Shape w{shape(x)[1], random_.between(1, 4)};
    w.insert(w.end(), g.kernel.begin(), g.kernel.end());
    return node("conv_transpose", {x, constant(w, 1 / std::sqrt(static_cast<double>(shape(x)[1])))},
                {{"strides", g.strides}, {"dilations", g.dilations}});
  }

  // ---- Operators with jumps, on exact values only; their results leave the graph or choose between values.
  ValueId jump() {
    std::vector<ValueId> exact;
    for (const ValueId id : pool_) {
      if (exact_.count(id) != 0 && rank(id) >= 1) exact.push_back(id);
    }
    if (exact.empty()) return graph::kAbsent;
    const ValueId x = random_.pick(exact);
    switch (random_.between(0, 4)) {
      case 0:
        return node(random_.chance(50) ? "arg_max" : "arg_min", {x},
                    {{"axis", any_axis(x)}, {"keepdims", random_.between(0, 1)}});
      case 1:
        return node("where", {node(random_.chance(50) ? "less" : "greater_equal", {x, constant({})}), fitting(shape(x)),
                              fitting(shape(x))});
      case 2:
        return node("mul", {node("cast", {node("floor", {x})}, {{"to", to_string(type_)}}), constant({})});
      case 3:
        return node("cast", {x}, {{"to", std::string(random_.chance(50) ? "i32" : "bool")}});
      default: {
        if (rank(x) < 3 || rank(x) > 5) return node("cast", {x}, {{"to", std::string("f64")}});
        const Geometry g = geometry(x);
        return node("max_pool", {x},
                    {{"kernel_shape", g.kernel},
                     {"strides", g.strides},
                     {"pads", g.pads},
                     {"dilations", g.dilations},
                     {"outputs", int64_t{2}}});
      }
    }
  }

  const graph::OpTable& ops_;
  Random random_;
  DataType type_;
  Graph graph_;
  std::vector<ValueId> pool_;      // operands to choose from, all of type_
  std::vector<ValueId> produced_;  // candidates for outputs
  std::set<ValueId> exact_;        // values without rounding
};

}  // namespace

Graph random_model(const graph::OpTable& ops, uint64_t seed) { return Maker(ops, seed).run(); }

std::vector<artefact::Array> random_arrays(const Graph& graph, uint64_t seed) {
  Random random(seed);
  std::vector<artefact::Array> arrays;
  for (const ValueId id : graph.inputs) {
    RefTensor t = RefTensor::zeros(graph.value(id).type);
    for (double& x : t.floats) x = random.real();
    for (int64_t& x : t.ints) x = random.between(0, t.type.type.is_bool() ? 1 : 3);
    arrays.push_back(artefact::to_array(t));
  }
  return arrays;
}

}  // namespace tw::driver::test
