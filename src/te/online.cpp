#include "te/online.h"

#include <algorithm>
#include <list>
#include <numbers>

#include "expr/affine.h"
#include "support/math.h"
#include "te/reads.h"
#include "te/rewrite.h"
#include "te/row_mask.h"

namespace tw::te {
namespace {

// Nothing where the maximum is that of nothing, or of -inf only: then exponentials are 0, not NaN.
Expr finite(const Expr& maximum) {
  const Expr none = identity_of(CombinerKind::kMax, maximum.type());
  return select(maximum == none, imm(maximum.type(), 0), maximum);
}

// One sum along the row: its terms are exp(s_j - M) * others * of_row.
struct Sum {
  Compute compute;
  bool found = false;            // the exponential
  std::optional<DataType> half;  // to which it is rounded
  Expr others, of_row;           // null: 1
  Expr kept;                     // which terms are not 0; null: all
  bool guarded = false;          // 0 in place of terms that are NaN
  std::vector<size_t> rows;      // which of its axes are those of the maximum
  const std::string& name() const { return compute.name(); }
  const std::string& step() const { return compute.reduce_axes[0].name; }
};

class OnlinePass {
 public:
  OnlinePass(const Program& program, const OnlineCut& cut) : program_(program), cut_(cut) {}

  Result<Online> run(const std::string& maximum) {
    const Compute* max = program_.find_compute(maximum);
    const bool is_it = max != nullptr && max->is_reduction() && max->combiner.kind == CombinerKind::kMax &&
                       max->reduce_axes.size() == 1 && max->outputs[0].type.is_float();
    if (!is_it) return declined("{} is no maximum of a row of floats", maximum);
    whole_ = keep_elements_whole(program_, maximum);
    inline_between(maximum);
    max_ = *program_.find_compute(maximum);
    for (const Compute& c : program_.computes) {
      if (c.is_reduction() && depends_on_max(c)) take_sum(c);
      if (!reason_.empty()) return Reason{reason_};
    }
    if (wide_ == nullptr) return declined("no sum of exponentials relative to {} has columns", maximum);
    use_powers_of_two();
    Online out{rewritten(), whole_, wide_->name(), {}, wide_->kept ? kept_name() : ""};
    out.changed.push_back(maximum);
    for (const Sum& s : sums_) {
      out.changed.push_back(s.name());
      if (&s != wide_) out.sums.push_back(s.name());
    }
    return out;
  }

 private:
  Program rewritten() const {
    Program out = program_;
    out.computes.clear();
    for (const Compute& c : program_.computes) {
      if (c.name() != max_.name() && !depends_on_max(c)) out.computes.push_back(c);
    }
    add_blocks(out);
    add_tuple(out);
    const std::vector<Expr> row = variables(max_.axes);
    const Expr max = member(max_.name(), row, int_imm(0));
    const Expr elements = unit_ == 0 ? max : max * imm(type(), unit_ * std::numbers::ln2);
    out.computes.push_back(compute(max_.name(), max_.axes, elements));
    std::set<std::string> once;  // a row: read where they are
    for (const Sum& s : sums_) {
      out.computes.push_back(result(s));
      if (&s != wide_) once.insert(s.name());
    }
    for (const Compute& c : program_.computes) {
      if (depends_on_max(c) && !is_sum(c.name())) out.computes.push_back(c);
    }
    out = inline_computes(out, once);
    drop_unread(out);
    verify(out);
    return out;
  }

  // Elements in units of log(2), where their exponentials are rounded to 16 bits and nobody else wants them: powers of
  // two take no product more then. A factor that all elements have, as attention's scale, is left to the step that
  // takes the maximum off them. Not of elements with a mask that is read: the lowest number would become -inf.
  void use_powers_of_two() {
    const Expr& e = max_.body[0];
    if (e.op() != Op::kLoad || type() != DataType::f32() || !wide_->half) return;
    const auto elements = std::ranges::find(program_.computes, e->name, &Compute::name);
    const auto of_sum = [&](const Sum& s) { return s.others && reads(s.others, e->name); };
    bool only = elements != program_.computes.end() && !elements->is_reduction() && elements->outputs.size() == 1 &&
                !program_.is_output(e->name) && std::ranges::none_of(sums_, of_sum);
    for (const Compute& c : program_.computes) {
      const bool own = c.name() == max_.name() || is_sum(c.name());
      only = only && (own || count_reads(c, e->name) + count_reads(c, max_.name()) == 0);
    }
    if (!only || !is_of_products(elements->body[0], program_)) return;
    Expr& body = elements->body[0];
    const double factor = common_factor(body), unit = factor * std::numbers::log2e;
    const bool apart = factor < 1 && unit <= 1;  // constants beside the multiples stay finite
    body = apart ? without_factor(body, factor) : scaled(body, std::numbers::log2e);
    unit_ = apart ? unit : 1;
    whole_.push_back(elements->name());
  }

  // exp of how far element `e` is above `maximum`.
  Expr power(const Expr& e, const Expr& maximum) const {
    if (unit_ == 0 || unit_ == 1) return factor(e, maximum);
    const Expr unit = imm(e.type(), unit_), none = imm(e.type(), 0);
    return tw::call("exp", {fma(e, unit, none - maximum * unit) * imm(e.type(), std::numbers::ln2)});
  }
  // The same of a maximum: exactly 1 for equal ones.
  Expr factor(const Expr& before, const Expr& maximum) const {
    const Expr above = before - maximum;
    if (unit_ == 0) return tw::call("exp", {above});
    const Expr units = unit_ == 1 ? above : above * imm(above.type(), unit_);
    return tw::call("exp", {units * imm(above.type(), std::numbers::ln2)});
  }
  bool depends_on_max(const Compute& c) const { return depends_on(program_, c, max_.name()); }
  bool is_sum(const std::string& tensor) const {
    return std::ranges::any_of(sums_, [&](const Sum& s) { return s.name() == tensor; });
  }
  size_t rows() const { return max_.axes.size(); }
  int64_t length() const { return max_.reduce_axes[0].extent; }
  int64_t blocks() const { return ceil_div(length(), cut_.block); }
  DataType type() const { return max_.outputs[0].type; }
  // The axis of a sum that is none of a row; null where there is none.
  static const Axis* column_of(const Sum& s) {
    for (size_t d = 0; d < s.compute.axes.size(); ++d) {
      if (std::ranges::find(s.rows, d) == s.rows.end()) return &s.compute.axes[d];
    }
    return nullptr;
  }
  int64_t columns() const { return column_of(*wide_)->extent; }
  int64_t column_groups() const { return ceil_div(columns(), cut_.each * cut_.width); }
  static std::string part(const std::string& tensor) { return tensor + ".block"; }
  static std::string whole(const std::string& tensor) { return tensor + ".row"; }
  std::string kept_name() const { return wide_->name() + ".kept"; }

  // What stands between the maximum and the sums becomes part of their terms; what there is once a row may leave the
  // program besides.
  void inline_between(const std::string& maximum) {
    const size_t rows = program_.find_compute(maximum)->axes.size();
    std::set<std::string> between;
    for (const Compute& c : program_.computes) {
      const bool stays = program_.is_output(c.name()) && c.axes.size() > rows;
      if (c.is_reduction() || stays || !depends_on(program_, c, maximum)) continue;
      const auto follows = [&](const Compute& r) { return r.is_reduction() && depends_on(program_, r, c.name()); };
      if (std::ranges::any_of(program_.computes, follows)) between.insert(c.name());
    }
    program_ = inline_computes(program_, between);
  }

  void take_sum(const Compute& c) {
    const size_t rank = c.axes.size();
    const bool fits = c.combiner.kind == CombinerKind::kSum && c.outputs[0].type == type() && rank >= rows() &&
                      rank <= rows() + 1 && c.reduce_axes.size() == 1 && c.reduce_axes[0].extent == length();
    if (!fits) return refuse(c.name(), "is no sum along the rows of " + max_.name());
    Sum sum;
    sum.compute = c;
    collect(sum, c.body[0]);
    if (sum.guarded && !divides_by_sum(sum)) return refuse(c.name(), "has terms that are 0 where they are NaN");
    if (!sum.found) return refuse(c.name(), "sums no multiples of an exponential relative to " + max_.name());
    const bool wide = rank > rows();
    if (sum.kept && !wide) return refuse(c.name(), "leaves terms out");
    if (wide && wide_ != nullptr) return refuse(c.name(), "is a second sum with columns");
    sums_.push_back(std::move(sum));
    if (wide) wide_ = &sums_.back();
  }

  // Whether what is the same in all terms of a row is made of one sum of the row.
  bool divides_by_sum(const Sum& sum) const {
    int loads = 0, of_sums = 0;
    if (sum.of_row) {
      visit(sum.of_row, [&](const Expr& e) {
        loads += e.op() == Op::kLoad ? 1 : 0;
        of_sums += e.op() == Op::kLoad && is_sum(e->name) ? 1 : 0;
      });
    }
    return loads == 1 && of_sums == 1;
  }

  static void multiply(Expr& product, const Expr& by) { product = product ? product * by : by; }

  void collect(Sum& sum, const Expr& e) {
    if (e.op() == Op::kMul) {
      collect(sum, e.arg(0));
      return collect(sum, e.arg(1));
    }
    if (e.op() == Op::kDiv && !uses_var(e.arg(1), sum.step())) {
      collect(sum, e.arg(0));
      return multiply(sum.of_row, imm(e.type(), 1) / e.arg(1));
    }
    const bool rounds = e.op() == Op::kCast && e.arg(0).op() == Op::kCast && e.arg(0).type().is_half() &&
                        e.arg(0).arg(0).type() == e.type() && reads(e, max_.name());
    if (rounds) {
      sum.half = e.arg(0).type();
      return collect(sum, e.arg(0).arg(0));
    }
    if (e.op() == Op::kSelect && is_zero(e.arg(2)) && !reads(e.arg(0), max_.name()) && reads(e.arg(1), max_.name())) {
      sum.kept = sum.kept ? sum.kept && e.arg(0) : e.arg(0);
      return collect(sum, e.arg(1));
    }
    if (const Expr guarded = without_nan_guard(e)) {
      sum.guarded = true;
      return collect(sum, guarded);
    }
    if (is_exponential(sum, e) && !sum.found) {
      sum.found = true;
      return;
    }
    if (reads(e, max_.name())) return refuse(sum.name(), "depends in another way on " + max_.name());
    multiply(uses_var(e, sum.step()) ? sum.others : sum.of_row, e);
  }

  // p of p is NaN ? 0 : p, as f32; null where `e` is something else.
  static Expr without_nan_guard(const Expr& e) {
    const bool converts = e.op() == Op::kCast && e.type() == DataType::f32() && e.arg(0).type().is_half();
    const Expr& choice = converts ? e.arg(0) : e;
    if (choice.op() != Op::kSelect || !is_zero(choice.arg(1)) || choice.arg(0).op() != Op::kNe) return {};
    const auto as_f32 = [](const Expr& x) { return x.type() == DataType::f32() ? x : cast(DataType::f32(), x); };
    const Expr p = as_f32(choice.arg(2)), &a = choice.arg(0).arg(0), &b = choice.arg(0).arg(1);
    return equal(a, b) && equal(as_f32(a), p) ? p : Expr();
  }

  // Whether `e`, part of a term, is exp(s_j - M) of the term's row; which that is is noted in `sum`.
  bool is_exponential(Sum& sum, const Expr& e) const {
    if (e.op() != Op::kCall || e->name != "exp") return false;
    const Expr power = unrounded(e.arg(0));
    if (power.op() != Op::kSub) return false;
    const Expr& max = power.arg(1);
    if (max.op() != Op::kLoad || max->name != max_.name()) return false;
    const Compute& c = sum.compute;
    std::vector<size_t> at;
    for (size_t d = 0; d < max->args.size(); ++d) {
      const Axis* axis = own_axis(c, max, d);
      if (axis == nullptr || axis->extent != max_.axes[d].extent) return false;
      at.push_back(static_cast<size_t>(axis - c.axes.data()));
    }
    if (!equal(power.arg(0), element(max->args, c.reduce_axes[0].var()))) return false;
    sum.rows = std::move(at);
    return true;
  }

  // s_j of a row.
  Expr element(const std::vector<Expr>& row, const Expr& j) const {
    VarMap values = {{max_.reduce_axes[0].name, j}};
    for (size_t d = 0; d < rows(); ++d) values[max_.axes[d].name] = row[d];
    return substitute(max_.body[0], values);
  }

  // Axes of rows, of blocks, and more.
  std::vector<Axis> block_axes(const std::vector<int64_t>& more) const {
    Shape shape = shape_of(max_.axes);
    shape.push_back(blocks());
    shape.insert(shape.end(), more.begin(), more.end());
    return make_axes('i', shape);
  }

  // Element `step` of the block that `axes` name, and `e` where the row has it.
  Expr place(const std::vector<Axis>& axes, const Expr& step) const {
    return axes[rows()].var() * int_imm(cut_.block) + step;
  }
  Expr inside(const Expr& place, const Expr& e, const Expr& otherwise) const {
    return length() % cut_.block == 0 ? e : select(place < int_imm(length()), e, otherwise);
  }

  static Compute compute(const std::string& name, std::vector<Axis> axes, const Expr& body) {
    return {.outputs = {{name, body.type(), shape_of(axes)}},
            .axes = std::move(axes),
            .reduce_axes = {},
            .body = {body},
            .combiner = {},
            .needed = {}};
  }

  Compute over_block(const std::string& name, std::vector<Axis> axes, CombinerKind kind, const Expr& body) const {
    Compute c = compute(name, std::move(axes), body);
    c.reduce_axes = {{"r0", cut_.block}};
    c.combiner.kind = kind;
    c.combiner.identity = {identity_of(kind, body.type())};
    return c;
  }

  void add_blocks(Program& out) const {
    const std::vector<Axis> axes = block_axes({}), elements = block_axes({cut_.block});
    const std::vector<Expr> at = variables(axes);
    const std::vector<Expr> row(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(rows()));
    const auto at_step = [&](const Expr& step) {
      std::vector<Expr> indices = at;
      indices.push_back(step);
      return indices;
    };
    const Expr r = place(axes, var("r0")), j = place(elements, elements.back().var());
    const Expr none = identity_of(CombinerKind::kMax, type()), zero = imm(type(), 0);
    out.computes.push_back(over_block(part(max_.name()), axes, CombinerKind::kMax, inside(r, element(row, r), none)));
    const Tensor max = out.computes.back().outputs[0];
    const Expr exponential = power(element(row, j), finite(max(at)));
    out.computes.push_back(compute(max_.name() + ".exp", elements, inside(j, exponential, zero)));
    const Tensor powers = out.computes.back().outputs[0];
    if (wide_->kept) {
      VarMap values = {{wide_->step(), j}};
      for (size_t d = 0; d < rows(); ++d) values[wide_->compute.axes[wide_->rows[d]].name] = elements[d].var();
      const Expr power = powers(variables(elements));
      const Expr kept = select(substitute(wide_->kept, values), power, zero);
      out.computes.push_back(compute(kept_name(), elements, inside(j, kept, zero)));
    }
    for (const Sum& s : sums_) {
      std::vector<Axis> all = axes;
      VarMap values = {{s.step(), r}};
      for (size_t d = 0; d < rows(); ++d) values[s.compute.axes[s.rows[d]].name] = row[d];
      if (const Axis* column = column_of(s)) {
        all = block_axes({column->extent});
        values[column->name] = all.back().var();
      }
      Expr term = (s.kept ? out.tensor(kept_name()) : powers)(at_step(var("r0")));
      if (s.half) term = cast(type(), cast(*s.half, term));
      if (s.others) term = term * inside(r, substitute(s.others, values), zero);
      out.computes.push_back(over_block(part(s.name()), all, CombinerKind::kSum, term));
    }
  }

  // The parts of all blocks: the sum with columns first, whose columns several holders share, each with its own copy of
  // what there is once a row.
  void add_tuple(Program& out) const {
    Shape shape = shape_of(max_.axes);
    const size_t shared = shape.size() + 1;
    shape.insert(shape.end(), {cut_.each, column_groups(), cut_.width});
    Compute c;
    c.axes = make_axes('i', shape);
    c.reduce_axes = {{"r0", blocks()}};
    c.combiner.kind = CombinerKind::kTuple;
    std::vector<Expr> at = variables({c.axes.begin(), c.axes.begin() + static_cast<std::ptrdiff_t>(rows())});
    at.push_back(var("r0"));
    const Expr column = (c.axes[shared].var() * int_imm(cut_.each) + c.axes[shared - 1].var()) * int_imm(cut_.width) +
                        c.axes.back().var();
    std::vector<const Compute*> sums = {&wide_->compute};
    for (const Sum& s : sums_) {
      if (&s != wide_) sums.push_back(&s.compute);
    }
    sums.push_back(&max_);
    const auto side = [&](char letter, size_t k) { return var(fmt::format("{}{}", letter, k), type()); };
    const Expr max = tw::max(side('a', sums.size() - 1), side('b', sums.size() - 1));
    const auto scaled = [&](char letter, size_t k) {
      return side(letter, k) * factor(side(letter, sums.size() - 1), finite(max));
    };
    for (size_t k = 0; k < sums.size(); ++k) {
      const bool is_max = k + 1 == sums.size();
      std::vector<Expr> indices = at;
      if (k == 0) indices.push_back(column);
      const Expr load = out.tensor(part(sums[k]->name()))(indices);
      const bool exact = k > 0 || columns() % (cut_.each * cut_.width) == 0;
      c.body.push_back(exact ? load : select(column < int_imm(columns()), load, imm(type(), 0)));
      c.outputs.push_back({whole(sums[k]->name()), type(), k == 0 ? shape : Shape(shape.begin(), shape.end() - 2)});
      c.combiner.identity.push_back(identity_of(is_max ? CombinerKind::kMax : CombinerKind::kSum, type()));
      c.combiner.lhs.push_back(side('a', k)->name);
      c.combiner.rhs.push_back(side('b', k)->name);
      c.combiner.result.push_back(is_max ? max : scaled('a', k) + scaled('b', k));
    }
    c.needed = needed_blocks(at, out);
    out.computes.push_back(std::move(c));
  }

  // Element s_j, looked at through the compute that it may be read from.
  Expr element_in(const Program& out, const std::vector<Expr>& row, const Expr& j) const {
    const Expr e = element(row, j);
    const Compute* from = e.op() == Op::kLoad ? out.find_compute(e->name) : nullptr;
    if (from == nullptr || from->is_reduction() || from->outputs.size() > 1) return e;
    VarMap at;
    for (size_t d = 0; d < from->axes.size(); ++d) at[from->axes[d].name] = e.arg(static_cast<int>(d));
    return substitute(from->body[0], at);
  }

  // Whether nothing but a sum of products is read, beside single numbers: no mask that is added makes it as low as what
  // another mask leaves.
  static bool is_of_products(const Expr& e, const Program& out) {
    bool only = true;
    visit(e, [&](const Expr& load) {
      if (load.op() != Op::kLoad || load->args.empty()) return;
      const Compute* from = out.find_compute(load->name);
      const bool sums = from != nullptr && from->is_reduction() && from->combiner.kind == CombinerKind::kSum;
      only = only && (sums || (from != nullptr && !from->is_reduction() && is_of_products(from->body[0], out)));
    });
    return only;
  }

  // Whether a mask leaves block n something of the row; null where no block may be left out: rows of which a mask
  // leaves nothing at all keep what is there in its place.
  Expr needed_blocks(const std::vector<Expr>& at, const Program& out) const {
    const std::vector<Expr> row(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(rows()));
    const RowMask mask = mask_of(element_in(out, row, var("j")), "j");
    if (!mask.kept || !is_of_products(mask.kept, out)) return {};
    if (!leaves_each_some(mask, {row.back()->name, max_.axes.back().extent}, length())) return {};
    return leaves_some(mask, at.back() * int_imm(cut_.block), cut_.block);
  }

  // What there is once a row, in the copy of a holder.
  Expr member(const std::string& name, std::vector<Expr> row, const Expr& holder) const {
    row.push_back(holder);
    return load(whole(name), type(), std::move(row));
  }

  Compute result(const Sum& s) const {
    const std::vector<Axis>& axes = s.compute.axes;
    std::vector<Expr> row = mapped(s.rows, [&](size_t d) { return axes[d].var(); });
    Expr holder = int_imm(0), all;
    if (&s == wide_) {
      const Expr column = column_of(s)->var(), width = int_imm(cut_.width), each = int_imm(cut_.each);
      holder = floor_mod(floor_div(column, width), each);
      std::vector<Expr> at = row;
      at.insert(at.end(), {holder, floor_div(column, width * each), floor_mod(column, width)});
      all = load(whole(s.name()), type(), std::move(at));
    } else {
      all = member(s.name(), row, holder);
    }
    if (!s.of_row) return compute(s.name(), axes, all);
    // Sums without columns that it divides by: those of the same row.
    const Expr by = rewrite(s.of_row, [&](const Expr& e) {
      return e.op() == Op::kLoad && is_sum(e->name) ? member(e->name, row_of(e), holder) : Expr();
    });
    return compute(s.name(), axes, s.guarded ? unless_empty(by, all) : all * by);
  }

  // The row, as the maximum's axes have it, that a load of a sum without columns names.
  std::vector<Expr> row_of(const Expr& load) const {
    const auto sum = std::ranges::find(sums_, load->name, &Sum::name);
    return mapped(sum->rows, [&](size_t d) { return load.arg(static_cast<int>(d)); });
  }

  // all * by, where rows may have no weights: those whose exponentials sum to 0, and so do their products, or to NaN.
  static Expr unless_empty(const Expr& by, const Expr& all) {
    Expr sum;
    visit(by, [&](const Expr& e) { sum = e.op() == Op::kLoad && !sum ? e : sum; });
    const Expr zero = imm(all.type(), 0);
    return select(sum > zero, all * by, select(sum == zero, all, zero));
  }

  void refuse(const std::string& compute, const std::string& what) {
    if (reason_.empty()) reason_ = compute + " " + what;
  }

  Program program_;
  OnlineCut cut_;
  Compute max_;
  std::list<Sum> sums_;
  const Sum* wide_ = nullptr;       // the one with columns
  std::vector<std::string> whole_;  // computes that round no more, or have another factor
  double unit_ = 0;                 // of elements, of log(2); 0: of 1
  std::string reason_;
};

}  // namespace

Result<Online> online(const Program& program, const std::string& maximum, const OnlineCut& cut) {
  return OnlinePass(program, cut).run(maximum);
}

}  // namespace tw::te
