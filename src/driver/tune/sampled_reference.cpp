#include "driver/tune/sampled_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "driver/tune/tolerance.h"
#include "expr/tf32.h"
#include "support/join.h"
#include "support/random.h"
#include "te/rewrite.h"

namespace tw::driver {
namespace {

constexpr int kExact = -1;                // otherwise the number of a trial
constexpr int kAlike = 0;                 // the trial whose errors inside of sums have one sign
constexpr int kInTerms = kSampledTrials;  // no trial: errors inside of a sum alone, with random signs

// A tensor at the points where it is needed.
struct Sampled {
  std::string exact;
  std::vector<std::string> trials;  // empty: the same as `exact`
  std::vector<te::Axis> axes;
  const std::string& name(int trial) const {
    return trial == kExact || trial == kInTerms || trials.empty() ? exact : trials[trial];
  }
};

class Sampler {
 public:
  explicit Sampler(const te::Program& program) : program_(program) {
    out_.program.name = program.name + "_sampled";
    out_.program.inputs = program.inputs;
    bool all_f64 = true;
    for (const te::Tensor& t : program.inputs) all_f64 = all_f64 && (!t.type.is_float() || t.type == DataType::f64());
    out_.magnification = all_f64 ? kF64Magnification : 1;
  }

  void add_output(const std::string& name, const std::vector<int64_t>& elements) {
    const te::Tensor& tensor = program_.tensor(name);
    const std::string point = fmt::format("p{}", out_.outputs.size());
    extents_[point] = static_cast<int64_t>(elements.size());
    const Shape strides = row_major_strides(tensor.shape);
    std::vector<Expr> indices;
    for (size_t d = 0; d < strides.size(); ++d) {
      const std::string at = fmt::format("at{}_{}", out_.outputs.size(), d);
      std::vector<int64_t>& values = out_.indices[at];
      for (const int64_t e : elements) values.push_back(e / strides[d] % tensor.shape[d]);
      out_.program.inputs.push_back({at, DataType::i64(), {extents_[point]}});
      trusted_[at] = tensor.shape[d];
      indices.push_back(load(at, DataType::i64(), {var(point)}));
    }
    // Every output has the axis of its points, also one that has no axes.
    const Sampled& sampled = sample(name, indices, {point});
    DataType rounded = tensor.type;
    for (const te::Compute& c : program_.computes) {
      for (const te::Tensor& t : c.outputs) rounded = narrower(rounded, t.type);
    }
    out_.outputs.push_back({name, tensor.type, rounded, elements, sampled.exact, sampled.trials});
    out_.program.outputs.push_back(sampled.exact);
    for (const std::string& trial : sampled.trials) out_.program.outputs.push_back(trial);
  }

  Result<SampledReference> take() {
    if (!reason_.empty()) return declined("{}", reason_);
    drop_unread();
    return std::move(out_);
  }

 private:
  using Memo = std::map<const ExprNode*, Expr>;  // of one body

  // Where an expression is rewritten: what stands for the variables of its compute, and which values are read.
  struct Place {
    const VarMap& values;
    int trial;
    const std::set<std::string>& reduced;  // reduction variables of the compute that is being made
    bool sums;                             // that compute is a sum: errors inside of its terms come by square_errors()
    bool* moved;                           // set when something was read that differs between trials
    bool* in_terms;                        // set when a term has errors of its own
  };

  static bool copies(const te::Compute& c, size_t output) {
    return !c.is_reduction() && c.body[output].op() == Op::kLoad;
  }
  static DataType sampled_type(DataType type) { return type.is_float() ? DataType::f64() : type; }

  // ---- Expressions.
  Expr translate(const Expr& e, const Place& place, Memo& memo) {
    if (const auto known = memo.find(&*e); known != memo.end()) return known->second;
    const Expr out = translate_node(e, place, memo);
    return memo[&*e] = out;
  }

  Expr translate_node(const Expr& e, const Place& place, Memo& memo) {
    if (e.is_var()) {
      return value_or(place.values, e->name, e);
    }
    if (const Expr* rounded = tf32_operand(e))
      return cast(DataType::f64(), to_tf32(cast(DataType::f32(), translate(*rounded, place, memo))));
    std::vector<Expr> args = mapped(e->args, [&](const Expr& arg) { return translate(arg, place, memo); });
    switch (e.op()) {
      case Op::kIntImm:
        return e;
      case Op::kFloatImm:
        return float_imm(e->number, DataType::f64());
      case Op::kCast:
        return cast(sampled_type(e.type()), args[0]);
      case Op::kLoad:
        return translate_load(*e, std::move(args), place);
      case Op::kBitcast:
        // The numbers of a word of floats are read; the bits of a computed float are not known.
        if (!e.arg(0).type().is_float()) return cast(sampled_type(e.type()), bitcast(e.type(), args[0]));
        reason_ = "its maths looks at the bits of floats";
        return e.type().is_float() ? float_imm(0, DataType::f64()) : imm(e.type(), 0);
      default:
        return with_args(e, std::move(args));
    }
  }

  Expr translate_load(const ExprNode& read, std::vector<Expr> indices, const Place& place) {
    Expr predicate;
    if (read.predicated) {
      predicate = indices.back();
      indices.pop_back();
    }
    const te::Compute* producer = program_.find_compute(read.name);
    if (producer == nullptr) {
      const Expr value =
          predicate ? load_if(read.name, read.type, indices, predicate) : load(read.name, read.type, indices);
      return cast(sampled_type(read.type), value);
    }
    const Expr value = read_computed(*producer, read.name, indices, place);
    return predicate ? select(predicate, value, imm(value.type(), 0)) : value;
  }

  // A computed tensor at `indices`: its maths in place where it is element-wise inside a reduction (there are more
  // points than memory), otherwise a tensor of its own.
  Expr read_computed(const te::Compute& producer, const std::string& name, const std::vector<Expr>& indices,
                     const Place& place) {
    const std::vector<std::string> used = used_variables(indices);
    const bool inside = std::ranges::any_of(used, [&](const std::string& v) { return place.reduced.count(v) != 0; });
    if (inside && !producer.is_reduction()) {
      VarMap values;
      for (size_t d = 0; d < indices.size(); ++d) values.emplace(producer.axes[d].name, indices[d]);
      Memo memo;
      size_t k = 0;
      while (producer.outputs[k].name != name) ++k;
      const Expr value = translate(producer.body[k],
                                   {values, place.trial, place.reduced, place.sums, place.moved, place.in_terms}, memo);
      return copies(producer, k) ? value : rounded(producer.outputs[k], value, used, place);
    }
    const Sampled& sampled = sample(name, indices, used);
    if (!sampled.trials.empty()) *place.moved = true;
    return load(sampled.name(place.trial), sampled_type(program_.tensor(name).type), te::variables(sampled.axes));
  }

  // `value` with the error of a 16-bit float; its sign changes with the variables that are reduced, not with the
  // points. In one trial it never changes: numbers of few digits round alike where one operand is the same for a whole
  // sum, as a bias is for its column.
  Expr rounded(const te::Tensor& tensor, const Expr& value, const std::vector<std::string>& used, const Place& place) {
    if (!tensor.type.is_half()) return value;
    *place.moved = true;
    *place.in_terms = true;
    if (place.trial == kExact) return value;
    if (place.trial == kAlike) return value + own_error(value, tensor.type);
    if (place.sums && place.trial != kInTerms) return value;
    std::string sign = fmt::format("sign_{}_{}", tensor.name, place.trial);
    std::vector<Expr> at;
    Shape shape;
    for (const std::string& v : used) {
      if (place.reduced.count(v) == 0) continue;
      at.push_back(var(v));
      shape.push_back(extents_.at(v));
      sign += fmt::format("_{}", shape.back());
    }
    if (std::ranges::find(out_.signs, sign) == out_.signs.end()) add_sign(sign, shape);
    return value + load(sign, DataType::f64(), at) * own_error(value, tensor.type);
  }

  void add_sign(const std::string& name, const Shape& shape) {
    out_.signs.push_back(name);
    out_.program.inputs.push_back({name, DataType::f64(), shape});
  }

  // The largest of one operation whose result is `value`. That of an infinity, as of a mask, is finite and so leaves
  // it: moved by an infinite error it would be a NaN, and so all that reads it.
  Expr own_error(const Expr& value, DataType type) const {
    const RoundingErrors errors = rounding_errors(type);
    const Expr size = min(unary(Op::kAbs, value), float_imm(std::numeric_limits<double>::max(), DataType::f64()));
    return max(size * magnified(errors.function), magnified(errors.smallest));
  }
  Expr magnified(double error) const { return float_imm(error * out_.magnification, DataType::f64()); }

  // Variables of points and reductions in `indices`, in the order of their names' numbers.
  std::vector<std::string> used_variables(const std::vector<Expr>& indices) const {
    std::set<std::string> used;
    for (const Expr& index : indices) {
      visit(index, [&](const Expr& e) {
        if (e.is_var() && extents_.count(e->name) != 0) used.insert(e->name);
      });
    }
    return {used.begin(), used.end()};
  }

  // An index that came out of a condition's reach stays inside the tensor; its value is not read.
  Expr inside(const Expr& index, int64_t extent) const {
    int64_t below = INT64_MAX;  // of all numbers that it has
    if (index.is_var()) below = extents_.at(index->name);
    if (index.op() == Op::kIntImm && index->value >= 0) below = index->value + 1;
    if (index.op() == Op::kLoad && trusted_.contains(index->name)) below = trusted_.at(index->name);
    return below <= extent ? index : min(max(index, int_imm(0)), int_imm(std::max<int64_t>(0, extent - 1)));
  }

  // ---- Computes.
  const Sampled& sample(const std::string& name, const std::vector<Expr>& indices,
                        const std::vector<std::string>& variables) {
    std::string key = name;
    for (const Expr& index : indices) key += " " + to_string(index);
    for (const std::string& v : variables) key += " " + v;
    if (const auto known = sampled_.find(key); known != sampled_.end()) return known->second;
    const te::Compute& source = *program_.find_compute(name);
    const std::string base = fmt::format("s{}", count_++);
    const auto axes = mapped(variables, [&](const std::string& v) { return te::Axis{v, extents_.at(v)}; });
    VarMap values;
    for (size_t d = 0; d < indices.size(); ++d)
      values.emplace(source.axes[d].name, inside(indices[d], source.axes[d].extent));
    std::vector<Sampled> made = make(source, base, axes, values);
    for (size_t k = 0; k < made.size(); ++k) {
      std::string output_key = source.outputs[k].name + key.substr(name.size());
      sampled_.emplace(std::move(output_key), std::move(made[k]));
    }
    return sampled_.at(key);
  }

  // All outputs of `source` over `axes`, exactly and in trials.
  std::vector<Sampled> make(const te::Compute& source, const std::string& base, const std::vector<te::Axis>& axes,
                            VarMap values) {
    std::vector<te::Axis> reduce_axes;
    std::set<std::string> reduced;
    for (const te::Axis& axis : source.reduce_axes) {
      const std::string fresh = fmt::format("r{}", extents_.size());
      extents_[fresh] = axis.extent;
      reduced.insert(fresh);
      reduce_axes.push_back({fresh, axis.extent});
      values.emplace(axis.name, var(fresh));
    }
    bool moved = false;
    bool in_terms = false;
    const bool sums = source.combiner.kind == te::CombinerKind::kSum && source.is_reduction();
    const auto compute = [&](int trial) {
      te::Compute c;
      c.axes = axes;
      c.reduce_axes = reduce_axes;
      c.combiner = translated_combiner(source.combiner);
      Memo memo;
      for (const Expr& body : source.body)
        c.body.push_back(translate(body, {values, trial, reduced, sums, &moved, &in_terms}, memo));
      return c;
    };
    const std::vector<std::string> exact = emit(compute(kExact), base);
    std::vector<std::vector<std::string>> trials;
    for (int t = 0; moved && t < kSampledTrials; ++t)
      trials.push_back(emit(compute(t), fmt::format("{}_t{}", base, t)));
    std::vector<std::string> of_terms(exact.size());
    if (sums && in_terms) of_terms = square_errors(compute(kExact), compute(kInTerms), base);
    std::vector<Sampled> out;
    for (size_t k = 0; k < exact.size(); ++k) {
      Sampled s{exact[k], {}, axes};
      for (const std::vector<std::string>& t : trials) s.trials.push_back(t[k]);
      add_own_error(source, k, compute(kExact), of_terms[k], s);
      out.push_back(std::move(s));
    }
    return out;
  }

  static te::Combiner translated_combiner(te::Combiner combiner) {
    const auto in_f64 = [](const Expr& e) {
      return rewrite(e, [](const Expr& x) -> Expr {
        if (x.op() == Op::kFloatImm) return float_imm(x->number, DataType::f64());
        return x.is_var() && x.type().is_float() ? var(x->name, DataType::f64()) : Expr();
      });
    };
    for (Expr& e : combiner.identity) e = in_f64(e);
    for (Expr& e : combiner.result) e = in_f64(e);
    return combiner;
  }

  // Names the outputs of `c` after `base` and appends it to the program.
  std::vector<std::string> emit(te::Compute c, const std::string& base) {
    const Shape shape = te::shape_of(c.axes);
    std::vector<std::string> names;
    for (size_t k = 0; k < c.body.size(); ++k) {
      names.push_back(c.body.size() == 1 ? base : fmt::format("{}_{}", base, k));
      c.outputs.push_back({names.back(), c.body[k].type(), shape});
    }
    out_.program.computes.push_back(std::move(c));
    return names;
  }

  // One of the sums of `c`, of `body`.
  static te::Compute one_sum(te::Compute c, const Expr& body) {
    c.body = {body};
    c.combiner.identity.resize(1);
    return c;
  }

  // For each output of a sum, the sum over its terms of the squares of their errors, as a tensor: its root is what
  // independent errors come to. Two trials of random signs would often show much less.
  std::vector<std::string> square_errors(const te::Compute& exact, const te::Compute& moved, const std::string& base) {
    std::vector<std::string> names;
    for (size_t k = 0; k < exact.body.size(); ++k) {
      const Expr error = moved.body[k] - exact.body[k];
      names.push_back(emit(one_sum(moved, error * error), fmt::format("{}_terms{}", base, k))[0]);
    }
    return names;
  }

  // The rounding error that output k of `source` adds by itself, with a random sign: s.trials move by it. `of_terms`:
  // its square_errors(), or "".
  void add_own_error(const te::Compute& source, size_t k, te::Compute exact, const std::string& of_terms, Sampled& s) {
    const DataType type = source.outputs[k].type;
    if (!type.is_float() || copies(source, k)) return;
    const std::vector<Expr> at = te::variables(s.axes);
    const Expr value = load(s.exact, DataType::f64(), at);
    Expr error = own_error(value, type);
    if (source.is_reduction()) {
      double terms = 1;
      for (const te::Axis& axis : source.reduce_axes) terms *= static_cast<double>(std::max<int64_t>(1, axis.extent));
      Expr magnitude = unary(Op::kAbs, value);
      if (source.combiner.kind == te::CombinerKind::kSum) {
        const te::Compute sizes = one_sum(exact, unary(Op::kAbs, exact.body[k]));
        magnitude = load(emit(sizes, s.exact + "_abs")[0], DataType::f64(), at);
      }
      const bool rounds = source.combiner.kind == te::CombinerKind::kSum ||
                          source.combiner.kind == te::CombinerKind::kProd ||
                          source.combiner.kind == te::CombinerKind::kTuple;
      if (rounds) error = error + magnitude * magnified(rounding_errors(type).sum * std::sqrt(terms));
      if (!of_terms.empty()) error = error + call("sqrt", {load(of_terms, DataType::f64(), at)});
    }
    const bool fresh = s.trials.empty();
    for (int t = 0; t < kSampledTrials; ++t) {
      const std::string sign = fmt::format("sign_{}_{}", s.exact, t);
      add_sign(sign, te::shape_of(s.axes));
      te::Compute c;
      c.axes = s.axes;
      c.body = {load(fresh ? s.exact : s.trials[t], DataType::f64(), at) + load(sign, DataType::f64(), at) * error};
      const std::string name = emit(std::move(c), fmt::format("{}_e{}", s.exact, t))[0];
      if (fresh) s.trials.push_back(name);
      if (!fresh) s.trials[t] = name;
    }
  }

  // Of a compute with several values, one is read at the points of an output: the errors of the others go.
  void drop_unread() {
    te::Program& program = out_.program;
    const std::set<std::string> read = te::drop_unread(program);
    const auto is_read = [&](const std::string& name) { return read.contains(name); };
    const auto behind = std::ranges::stable_partition(out_.signs, is_read);
    const std::set<std::string> unread(behind.begin(), behind.end());
    out_.signs.erase(behind.begin(), behind.end());
    std::erase_if(program.inputs, [&](const te::Tensor& t) { return unread.contains(t.name); });
  }

  const te::Program& program_;
  SampledReference out_;
  std::map<std::string, int64_t> extents_;  // of the variables of points and reductions
  std::map<std::string, int64_t> trusted_;  // index tensors, whose numbers are below
  std::map<std::string, Sampled> sampled_;  // by tensor and indices
  int count_ = 0;                           // of sampled computes
  std::string reason_;
};

// The same points in every run.
uint64_t next_random(uint64_t& state) { return split_mix(state += kSplitMixStep); }

// A coordinate that an error of tiling would hit: beside a multiple of a factor, or in the last vectors.
int64_t special_coordinate(int64_t extent, const std::vector<int64_t>& factors, uint64_t& state) {
  constexpr int64_t kTail = 64;
  const auto below = [&](int64_t n) { return static_cast<int64_t>(next_random(state) % static_cast<uint64_t>(n)); };
  switch (below(4)) {
    case 0:
      return below(2) == 0 ? 0 : extent - 1;
    case 1:
      return extent - 1 - below(std::min(kTail, extent));
    case 2: {
      const int64_t factor =
          factors.empty() ? 8 : factors[static_cast<size_t>(below(static_cast<int64_t>(factors.size())))];
      const int64_t edge = factor * below(extent / factor + 1) - below(2);
      return std::clamp<int64_t>(edge, 0, extent - 1);
    }
    default:
      return below(extent);
  }
}

}  // namespace

Result<SampledReference> sample_reference(const te::Program& program,
                                          const std::map<std::string, std::vector<int64_t>>& elements) {
  Sampler sampler(program);
  for (const std::string& output : program.outputs) {
    if (program.find_compute(output) == nullptr) return declined("its output {} is an input", output);
    sampler.add_output(output, elements.at(output));
  }
  return sampler.take();
}

double count_points(const te::Program& program) {
  double total = 0;
  for (const te::Compute& c : program.computes) {
    double points = 1;
    for (const te::Axis& axis : c.axes) points *= static_cast<double>(axis.extent);
    for (const te::Axis& axis : c.reduce_axes) points *= static_cast<double>(axis.extent);
    total += points;
  }
  return total;
}

std::vector<int64_t> choose_elements(const Shape& shape, const std::vector<int64_t>& factors, int64_t count) {
  const int64_t elements = num_elements(shape);
  std::set<int64_t> chosen;
  if (elements <= count) {
    for (int64_t e = 0; e < elements; ++e) chosen.insert(chosen.end(), e);
    return {chosen.begin(), chosen.end()};
  }
  const Shape strides = row_major_strides(shape);
  constexpr size_t kCornerAxes = 6;  // 64 corners
  for (size_t corner = 0; corner < size_t{1} << std::min(shape.size(), kCornerAxes); ++corner) {
    int64_t e = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      e += d < kCornerAxes && ((corner >> d) & 1) != 0 ? (shape[d] - 1) * strides[d] : 0;
    chosen.insert(e);
  }
  uint64_t state = 1;
  while (static_cast<int64_t>(chosen.size()) < count / 2) {
    int64_t e = 0;
    for (size_t d = 0; d < shape.size(); ++d) e += special_coordinate(shape[d], factors, state) * strides[d];
    chosen.insert(e);
    if (next_random(state) % 4 == 0)
      chosen.insert(static_cast<int64_t>(next_random(state) % static_cast<uint64_t>(elements)));
  }
  while (static_cast<int64_t>(chosen.size()) < count)
    chosen.insert(static_cast<int64_t>(next_random(state) % static_cast<uint64_t>(elements)));
  return {chosen.begin(), chosen.end()};
}

}  // namespace tw::driver
