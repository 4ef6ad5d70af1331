#include "construct/library/implementable.h"

#include "construct/library/form.h"
#include "expr/affine.h"
#include "expr/analyzer.h"
#include "schedule/match/contraction.h"
#include "schedule/match/stages.h"
#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::construct {
namespace {

using format::Operand;
using format::ProblemDescriptor;
using schedule::Contraction;

// Whether what `read` reads are matrices; `axes` run along rows, columns, matrices and heads, where they have a name.
bool lay_out(const te::Program& program, const Expr& read, const std::array<std::string, 4>& axes, Operand& operand) {
  const te::Tensor& tensor = program.tensor(read->name);
  operand = operand_of(tensor);
  const Sum sum = as_sum(te::element_number(read, tensor.shape));
  const auto stride_of = [&](size_t i) { return sum.coef_of(var(axes[i])); };
  operand.transposed = stride_of(1) != 1;
  operand.line = stride_of(operand.transposed ? 1 : 0);
  operand.matrix = stride_of(2), operand.head = stride_of(3), operand.first = sum.constant;
  const bool plain = std::ranges::all_of(sum.terms, [&](const Term& t) {
    return t.atom.is_var() && t.coef > 0 && std::ranges::count(axes, t.atom->name) > 0;
  });
  return plain && stride_of(operand.transposed ? 0 : 1) == 1 && sum.constant >= 0;
}

Expr own_point(const te::Compute& c) { return load(c.name(), c.outputs[0].type, te::variables(c.axes)); }

// `program` with all but its reductions inlined into the stage `output`; appends the primitives to `s`.
te::Program inline_all(const te::Program& program, const std::string& output, schedule::Schedule& s) {
  std::set<std::string> inlined;
  for (const te::Compute& c : program.computes) {
    if (!c.is_reduction() && c.name() != output && inlined.insert(c.name()).second) s.inline_stage(c.name());
  }
  return te::inline_computes(program, inlined);
}

class Matcher {
 public:
  Matcher(const GroupTask& task, const Contraction& match, std::string output)
      : program_(task.program), task_(task), sum_(*match.compute), match_(match) {
    out_.output = std::move(output);
  }

  Result<Implementable> run() {
    std::string why = match_sum();
    if (why.empty()) why = match_epilogue();
    if (!why.empty()) return declined("{}", why);
    if (sum_.name() != out_.output)
      out_.schedule.compute_at(sum_.name(), out_.output, program_.find_compute(out_.output)->axes.back().name,
                               loop::Scope::kRegister);
    return std::move(out_);
  }

 private:
  ProblemDescriptor& problem() { return out_.problem; }

  std::string match_sum() {
    const bool whole = !match_.words && !match_.condition && !match_.guarded && sum_.outputs[0].type == DataType::f32();
    const DataType type = match_.b.type();
    if (match_.words || sum_.outputs[0].type == DataType::i32())
      return "sums of integers: our own kernels have the same instructions, and what requantizes behind them";
    if (!whole || match_.a.type() != type || !(type.is_half() || type == DataType::f32()))
      return fmt::format("{} is no sum of f16, bf16 or f32 products in f32", sum_.name());
    problem().out = operand_of(program_.tensor(out_.output));
    problem().tf32 = match_.tf32;
    const te::Compute* pad = program_.find_compute(match_.a->name);
    if (program_.find_compute(match_.b->name) != nullptr) return fmt::format("{} is computed here", match_.b->name);
    const ProblemDescriptor nothing = problem();
    if (pad == nullptr && match_gemm()) return "";
    problem() = nothing;
    if (match_convolution(pad)) return "";
    return fmt::format("{} is no product of two matrices and no convolution with the channels last", sum_.name());
  }

  bool match_gemm() {
    const bool one = match_.rows.size() == 1 && match_.batch.size() <= 1 && sum_.reduce_axes.size() == 1;
    if (!one || match_.a_uses_column) return false;
    ProblemDescriptor& p = problem();
    const te::Axis &row = match_.rows[0], &column = match_.column, &step = sum_.reduce_axes[0];
    const std::string batch = match_.batch.empty() ? "" : match_.batch[0].name;
    const auto is_matrix = [&](const Expr& read, const te::Axis& rows, const te::Axis& columns, Operand& o) {
      return lay_out(program_, read, {rows.name, columns.name, batch, ""}, o) && o.line > 0 && o.first == 0;
    };
    const Expr point = load(p.out.name, DataType::f32(), te::variables(sum_.axes));
    const bool matrices = is_matrix(match_.a, row, step, p.a) && is_matrix(match_.b, step, column, p.b) &&
                          is_matrix(point, row, column, p.out);
    p.batch = match_.batch.empty() ? 1 : match_.batch[0].extent;
    p.m = row.extent, p.n = column.extent, p.k = step.extent;
    return matrices && !p.out.transposed;
  }

  // Zeros before each dim of what the stage `pad` copies: select(inside, x[i - zeros], 0), where `inside` says no more
  // than that the index is one of x. Empty for any other stage.
  std::vector<int64_t> zeros_of(const te::Compute& pad) const {
    const Expr& body = pad.body[0];
    if (pad.is_reduction() || body.op() != Op::kSelect || body.arg(1).op() != Op::kLoad || !is_zero(body.arg(2)))
      return {};
    const Expr& read = body.arg(1);
    const Shape &inner = program_.tensor(read->name).shape, &outer = pad.outputs[0].shape;
    if (program_.find_compute(read->name) != nullptr || inner.size() != outer.size()) return {};
    std::map<std::string, int64_t> from, to;
    const std::function<bool(const Expr&)> take = [&](const Expr& e) {
      if (e.op() == Op::kAnd) return take(e.arg(0)) && take(e.arg(1));
      const bool lower = e.op() == Op::kLe && e.arg(0).op() == Op::kIntImm && e.arg(1).is_var();
      const bool upper = e.op() == Op::kLt && e.arg(1).op() == Op::kIntImm && e.arg(0).is_var();
      if (lower) from[e.arg(1)->name] = e.arg(0)->value;
      if (upper) to[e.arg(0)->name] = e.arg(1)->value;
      return lower || upper;
    };
    if (!take(body.arg(0))) return {};
    std::vector<int64_t> zeros;
    for (size_t d = 0; d < outer.size(); ++d) {
      const std::string& axis = pad.axes[d].name;
      const Sum index = as_sum(read.arg(d));
      zeros.push_back(-index.constant);
      const int64_t end = std::min(outer[d], zeros[d] + inner[d]);
      const bool shifted = coefficient_of(read.arg(d), axis) == 1 && index.terms.size() == 1;
      const bool bounded = from.try_emplace(axis, 0).first->second == zeros[d] &&
                           std::min(outer[d], to.try_emplace(axis, outer[d]).first->second) == end;
      if (!shifted || !bounded) return {};
    }
    return zeros;
  }

  bool match_convolution(const te::Compute* pad) {
    ProblemDescriptor& p = problem();
    const Expr &a = match_.a, &b = match_.b;
    const size_t rank = a->args.size();
    const std::vector<int64_t> zeros = pad == nullptr ? std::vector<int64_t>(rank, 0) : zeros_of(*pad);
    const bool fits = zeros.size() == rank && match_.batch.empty() && sum_.axes.size() == rank && rank > 1;
    if (!fits) return false;
    const te::Tensor &image = program_.tensor(pad == nullptr ? a->name : pad->body[0].arg(1)->name),
                     &filters = program_.tensor(b->name), &out = program_.tensor(out_.output);
    p.kind = ProblemDescriptor::Kind::kConvolution;
    p.a = operand_of(image);
    p.b = operand_of(filters);
    const bool images = a.arg(0).is_var() && a.arg(0)->name == sum_.axes[0].name;
    p.batch = images ? sum_.axes[0].extent : 1;
    p.n = match_.column.extent, p.k = image.shape.back();
    std::vector<std::string> order = {match_.column.name};  // of the dims of b
    for (size_t d = images ? 1 : 0; d + 1 < rank; ++d) {
      const std::string step = match_dimension(as_sum(a.arg(d)), sum_.axes[d], image.shape[d], zeros[d]);
      if (step == sum_.axes[d].name) return false;
      if (!step.empty()) order.push_back(step);
    }
    const bool inside = match_channels(a->args.back(), order) && (!images || zeros[0] == 0) && zeros.back() == 0 &&
                        p.spatial.size() >= 1 && p.spatial.size() <= 3;
    // All of every tensor, where reads stay inside.
    return inside && p.span(p.a) == num_elements(image.shape) && p.span(p.b) == num_elements(filters.shape) &&
           p.span(p.out) == num_elements(out.shape) && match_filters(order);
  }

  // One dimension of a convolution: index = stride * axis + dilation * step. Returns the step, empty where the window
  // has one element, the axis itself where this is no such index.
  std::string match_dimension(const Sum& index, const te::Axis& axis, int64_t extent, int64_t zeros) {
    ProblemDescriptor& p = problem();
    te::Axis step{"", 1};
    int64_t dilation = 1;
    const int64_t stride = index.coef_of(axis.var());
    for (const Term& t : index.terms) {
      const auto found = std::ranges::find_if(
          sum_.reduce_axes, [&](const te::Axis& r) { return t.atom.is_var() && t.atom->name == r.name; });
      if (found != sum_.reduce_axes.end()) step = *found, dilation = t.coef;
    }
    const size_t known = (stride != 0 ? 1 : 0) + (step.name.empty() ? 0 : 1);
    if (index.constant != 0 || stride < 1 || dilation < 1 || index.terms.size() != known) return axis.name;
    p.spatial.push_back(extent), p.window.push_back(step.extent), p.strides.push_back(stride);
    p.dilations.push_back(dilation), p.pads.push_back(zeros);
    p.pads_end.push_back(
        std::max<int64_t>(0, (axis.extent - 1) * stride + dilation * (step.extent - 1) + 1 - extent - zeros));
    return step.name;
  }

  // Of the images: that of the step over them, or one of those of the filter's group.
  bool match_channels(const Expr& channel, std::vector<std::string>& order) {
    ProblemDescriptor& p = problem();
    const auto found =
        std::ranges::find_if(sum_.reduce_axes, [&](const te::Axis& r) { return uses_var(channel, r.name); });
    const bool one = found == sum_.reduce_axes.end();
    const int64_t each = one ? 1 : found->extent;
    p.groups = p.k / each;
    if (p.k % each != 0 || p.n % p.groups != 0) return false;
    Expr expected = floor_div(match_.column.var(), int_imm(p.n / p.groups)) * int_imm(each);
    if (!one) expected = expected + found->var(), order.push_back(found->name);
    Analyzer analyzer;
    analyzer.bind(match_.column.name, 0, match_.column.extent);
    return analyzer.simplify(channel - expected).is_int(0);
  }

  // Filters are [filter, window.., channel]; a constant is stored so. Dims of one element may lie anywhere.
  bool match_filters(const std::vector<std::string>& order) {
    std::vector<int64_t> dims =
        mapped(order, [&](const std::string& axis) -> int64_t { return te::dim_of_axis(match_.b, axis); });
    const bool sorted = std::ranges::is_sorted(dims);
    bool all = order.size() == sum_.reduce_axes.size() + 1 && std::ranges::count(dims, -1) == 0;
    for (size_t d = 0; d < match_.b->args.size(); ++d) {
      if (match_.b.arg(d).is_int(0)) dims.push_back(static_cast<int64_t>(d));
    }
    all = all && dims.size() == match_.b->args.size();
    if (!all || (!sorted && !task_.kept.contains(match_.b->name))) return false;
    if (!sorted) out_.layouts[match_.b->name] = Layout().reorder(dims);
    return true;
  }

  std::string match_epilogue() {
    const te::Program inlined = inline_all(program_, out_.output, out_.schedule);
    if (problem().out.name == sum_.name()) return "";
    Result<SumEpilogue> found = find_epilogue(program_, *inlined.find_compute(out_.output), sum_.name());
    if (!found.ok()) return found.reason();
    out_.epilogue = std::move(found).value();
    return "";
  }

  const te::Program& program_;
  const GroupTask& task_;
  const te::Compute& sum_;
  const Contraction& match_;
  Implementable out_;
};

// What is combined over `step` into what `read` reads; null where it reads nothing of the kind.
Expr term_of(const te::Program& program, const Expr& read, te::CombinerKind kind, const char* step, int64_t& steps) {
  const te::Compute* c = read.op() == Op::kLoad ? program.find_compute(read->name) : nullptr;
  if (c == nullptr || c->reduce_axes.size() != 1 || c->combiner.kind != kind) return Expr();
  steps = c->reduce_axes[0].extent;
  VarMap at = {{c->reduce_axes[0].name, var(step)}};
  for (size_t d = 0; d < c->axes.size(); ++d) at[c->axes[d].name] = read.arg(d);
  return substitute(c->body[0], at);
}

// Whether the operands of attention lie row by row; its axes are those of `result`, and the steps "key" and "depth".
bool lay_attention(const te::Program& program, const te::Compute& result, VarMap& parts, ProblemDescriptor& p) {
  std::vector<te::Axis> rows, columns, batch;
  for (const te::Axis& axis : result.axes)
    (!uses_var(parts["q"], axis.name) ? columns : uses_var(parts["k"], axis.name) ? batch : rows).push_back(axis);
  if (rows.size() != 1 || columns.size() != 1 || batch.size() > 2) return false;
  batch.insert(batch.begin(), 2 - batch.size(), {"", 1});
  p.batch = batch[0].extent, p.groups = batch[1].extent, p.m = rows[0].extent, p.n = columns[0].extent;
  const auto laid = [&](const Expr& read, const std::string& row, const std::string& column, Operand& o) {
    const bool stored = read.op() == Op::kLoad && (program.find_compute(read->name) == nullptr || &o == &p.out);
    return stored && lay_out(program, read, {row, column, batch[0].name, batch[1].name}, o) && !o.transposed;
  };
  return laid(parts["q"], rows[0].name, "depth", p.a) && laid(parts["k"], "key", "depth", p.b) &&
         laid(parts["v"], "key", columns[0].name, p.values) &&
         laid(own_point(result), rows[0].name, columns[0].name, p.out) &&
         (!parts.contains("r") || laid(parts["r"], rows[0].name, "key", p.residual));
}

// What is left of scores of which a mask leaves the keys up to the row's own, and that row; else `scores`, and no name.
std::pair<Expr, std::string> without_causal_mask(const Expr& scores, const std::vector<te::Axis>& axes) {
  constexpr double kLow = -65504;  // what masks of f16 leave
  Expr e = scores;
  while (e.op() == Op::kCast) e = e.arg(0);
  const bool masked = e.op() == Op::kSelect && e.arg(2).op() == Op::kFloatImm && e.arg(2)->number <= kLow;
  if (!masked) return {scores, ""};
  const Analyzer ranges;
  for (const te::Axis& axis : axes) {
    if (equal(ranges.simplify(e.arg(0)), ranges.simplify(var("key") < axis.var() + int_imm(1))))
      return {e.arg(1), axis.name};
  }
  return {scores, ""};
}

// softmax(scale * q k^T + r) v. Sums and maxima are taken at "key" and "depth", else in terms of the result's axes.
Result<Implementable> match_attention(const te::Program& all) {
  using enum te::CombinerKind;
  Implementable out;
  out.output = all.outputs[0];
  const te::Program program = inline_all(all, out.output, out.schedule);
  const te::Compute& result = *program.find_compute(out.output);
  ProblemDescriptor& p = out.problem;
  p.kind = ProblemDescriptor::Kind::kAttention, p.activation = format::Activation::kSoftmax;
  const auto over_keys = [&](te::CombinerKind kind, const Expr& read) {
    return term_of(program, read, kind, "key", p.keys);
  };
  VarMap parts;
  const Expr sums = result.is_reduction() ? own_point(result) : without_rounding(result.body[0]);
  const bool softmax = fits(parse_form("(exp(s - m) * (1:f32 / z)) * v"), over_keys(kSum, sums), parts) &&
                       fits(parse_form("s"), over_keys(kMax, parts["m"]), parts) &&
                       fits(parse_form("exp(s - m)"), over_keys(kSum, parts["z"]), parts);
  if (!softmax) return declined("no softmax multiplies values");
  const auto [scores, row] = without_causal_mask(parts["s"], result.axes);
  p.causal = !row.empty();
  for (const std::string_view form :
       {"x", "x * p", "x / p", "x + r", "x * p + r", "x / p + r", "r + x", "r + x * p", "r + x / p"}) {
    VarMap found = parts;
    const bool fit = p.parameters.empty() && fits(parse_form(form), scores, found) &&
                     fits(parse_form("q * k"), term_of(program, found["x"], kSum, "depth", p.k), found);
    if (!fit) continue;
    const double scale = found.contains("p") ? found["p"]->number : 1;
    p.parameters = {form.find('/') == form.npos ? scale : 1 / scale};
    parts = found;
  }
  if (p.parameters.empty()) return declined("what softmax reads is no product, scaled and masked");
  const bool of_rows = row.empty() || (uses_var(parts["q"], row) && !uses_var(parts["k"], row));
  if (!of_rows || !lay_attention(program, result, parts, p))
    return declined("operands of attention do not lie row by row");
  for (auto c = program.computes.rbegin(); c != program.computes.rend(); ++c) {
    if (c->name() != out.output)
      out.schedule.compute_at(c->name(), out.output, result.axes.end()[-2].name, loop::Scope::kStack);
  }
  return out;
}

}  // namespace

Construction Implementable::by(loop::Implementation implementation) const {
  Construction out;
  out.constant_layouts = layouts;
  out.schedule = schedule;
  out.schedule.implement(output, std::move(implementation));
  return out;
}

Result<Implementable> match_implementable(const GroupTask& task) {
  const te::Compute* sum = schedule::find_contraction(task.program);
  if (sum == nullptr) return declined("no sum of products");
  if (schedule::has_empty_axis(*sum)) return declined("{} has an axis of extent 0", sum->name());
  if (task.program.outputs.size() != 1) return declined("{} outputs", task.program.outputs.size());
  const Result<std::string> output = schedule::epilogue_output(task.program, *sum);
  Result<Implementable> found =
      output.ok() ? Matcher(task, *schedule::match_contraction(*sum), *output).run() : match_attention(task.program);
  if (!output.ok() && !found.ok()) return declined("{}, and {}", output.reason(), found.reason());
  return found;
}

}  // namespace tw::construct
