#include "dataflow/work.h"

#include <algorithm>

#include "dataflow/expr_numbers.h"
#include "expr/analyzer.h"
#include "expr/elementary.h"
#include "schedule/match/contraction.h"
#include "support/join.h"
#include "te/reads.h"

namespace tw::dataflow {
namespace {

constexpr double kMaxDeciding = 65536;  // points of a condition that are tried

double flop_of_node(const Expr& e) {
  if (e.type().is_bool()) return 0;
  switch (e.op()) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
    case Op::kFloorDiv:
    case Op::kFloorMod:
      return 1;
    case Op::kCall:
      return e->name == kPhilox ? 0 : 1;  // operations on bits
    case Op::kFma:
      return 2;
    default:
      return 0;
  }
}

double flop_of_combining(te::CombinerKind kind) {
  return kind == te::CombinerKind::kSum || kind == te::CombinerKind::kProd;
}

void add_conditions(const Expr& e, std::vector<Expr>& conditions) {
  if (e.op() != Op::kAnd) return conditions.push_back(e);
  for (const Expr& part : e->args) add_conditions(part, conditions);
}

// A condition of a conjunction with those that share axes with it.
struct Condition {
  Expr all;
  std::set<std::string> axes;
};

std::vector<Condition> independent_parts(const Expr& e, const std::vector<te::Axis>& axes) {
  std::vector<Expr> conditions;
  add_conditions(e, conditions);
  std::vector<Condition> parts;
  for (const Expr& c : conditions) {
    Condition part{c, {}};
    for (const te::Axis& a : axes) {
      if (uses_var(c, a.name)) part.axes.insert(a.name);
    }
    std::erase_if(parts, [&](const Condition& other) {
      const bool shares = std::ranges::any_of(other.axes, [&](const auto& a) { return part.axes.contains(a); });
      if (!shares) return false;
      part.all = part.all && other.all;
      part.axes.insert(other.axes.begin(), other.axes.end());
      return true;
    });
    parts.push_back(std::move(part));
  }
  return parts;
}

// The share of the points of `axes` for which `condition`, which reads no element, holds; 1 where they are too many.
double share_of(const Expr& condition, const std::vector<te::Axis>& axes) {
  double share = 1;
  const Analyzer analyzer;
  for (const Condition& part : independent_parts(condition, axes)) {
    std::vector<te::Axis> deciding;
    std::ranges::copy_if(axes, std::back_inserter(deciding),
                         [&](const te::Axis& a) { return part.axes.contains(a.name); });
    const auto points = static_cast<double>(te::num_points(deciding));
    if (points == 0 || points > kMaxDeciding) continue;
    const int64_t held = schedule::count_points(
        deciding, [&](const VarMap& point) { return !analyzer.simplify(substitute(part.all, point)).is_int(0); });
    share *= static_cast<double>(held) / points;
  }
  return share;
}

class FlopCounter {
 public:
  explicit FlopCounter(const te::Program& program) : program_(program), numbers_(program) {}

  double run() {
    for (size_t c = 0; c < program_.computes.size(); ++c) {
      if (!is_read_on_demand(program_, program_.computes[c].name())) add(c);
    }
    return flop_;
  }

 private:
  void add(size_t c) {
    const te::Compute& compute = program_.computes[c];
    const std::vector<te::Axis> axes = joined(compute.axes, compute.reduce_axes);
    double share = compute.is_reduction() ? share_of_elements(compute, axes) : 1;
    for (Expr body : compute.body) {
      if (const Expr term = te::summed_term(body); compute.is_reduction() && !term.same(body)) {
        if (!numbers_.reads(numbers_.of(c, body.arg(0)))) {
          share *= share_of(body.arg(0), axes);
          body = term;
        }
      }
      add(c, body, share);
    }
    if (!compute.is_reduction()) return;
    double combined = compute.combiner.kind == te::CombinerKind::kTuple ? 0 : flop_of_combining(compute.combiner.kind);
    if (compute.body[0].type().is_bool()) combined = 0;
    for (const Expr& result : compute.combiner.result)
      visit(result, [&](const Expr& e) { combined += flop_of_node(e); });
    flop_ += combined * share * static_cast<double>(te::num_points(axes));
  }

  // The share of the terms of a sum of products that are no products with zeros between the elements of an operand: of
  // a transposed convolution every stride-th one. Those with zeros around it count.
  double share_of_elements(const te::Compute& sum, const std::vector<te::Axis>& axes) const {
    Expr all;
    const auto find = [&](const std::string& tensor) { return program_.find_compute(tensor); };
    for (const Expr& condition : te::nonzero_conditions(sum, find)) {
      const bool is_stride = condition.op() == Op::kEq && condition.arg(0).op() == Op::kFloorMod;
      if (is_stride) all = all ? all && condition : condition;
    }
    return all ? share_of(all, axes) : 1;
  }

  // Operations on elements; those that compute where an element is are none.
  void add(size_t c, const Expr& e, double share) {
    const int number = numbers_.of(c, e);
    if (!numbers_.reads(number) || !counted_.insert(number).second) return;
    flop_ += flop_of_node(e) * share * numbers_.points(number);
    if (e.op() == Op::kLoad) return;
    for (const Expr& arg : e->args) add(c, arg, share);
  }

  const te::Program& program_;
  ExprNumbers numbers_;
  std::set<int> counted_;
  double flop_ = 0;
};

}  // namespace

double flop_of(const te::Program& program) { return FlopCounter(program).run(); }

bool is_read_on_demand(const te::Program& program, const std::string& tensor) {
  const auto reads = [&](const Expr& e) { return te::reads(e, tensor); };
  bool on_demand = false, always = false;
  for (const te::Compute& c : program.computes) {
    for (const Expr& body : c.body) {
      const Expr rest = rewrite(body, [&](const Expr& x) -> Expr {
        if (x.op() != Op::kSelect || !reads(x.arg(1))) return {};
        bool by_data = false;
        visit(x.arg(0), [&](const Expr& y) { by_data = by_data || y.op() == Op::kLoad; });
        return by_data ? x.arg(2) : Expr();
      });
      on_demand = on_demand || reads(body);
      always = always || reads(rest);
    }
  }
  return on_demand && !always;
}

std::map<std::string, int64_t> words_read(const te::Program& program) {
  ExprNumbers numbers(program);
  std::map<std::string, double> touched;
  std::set<int> counted;
  for (size_t c = 0; c < program.computes.size(); ++c) {
    te::visit_reads(program.computes[c], [&](const Expr& load) {
      const int number = numbers.of(c, load);
      if (counted.insert(number).second) touched[load->name] += numbers.points(number);
    });
  }
  std::map<std::string, int64_t> words;
  for (const te::Tensor& in : program.inputs) {
    const int64_t all = num_elements(in.shape);
    words[in.name] = touched[in.name] < static_cast<double>(all) ? static_cast<int64_t>(touched[in.name]) : all;
  }
  return words;
}

int64_t words_written(const te::Program& program) {
  int64_t words = 0;
  for (const std::string& out : program.outputs) words += num_elements(program.tensor(out).shape);
  return words;
}

bool is_view(const te::Program& program) {
  if (program.computes.size() != 1 || program.inputs.size() != 1) return false;
  const te::Compute& compute = program.computes[0];
  if (compute.is_reduction() || compute.body.size() != 1 || compute.body[0].op() != Op::kLoad) return false;
  const Shape shape = te::shape_of(compute.axes);
  if (num_elements(shape) != num_elements(program.inputs[0].shape)) return false;
  Analyzer analyzer;
  for (const te::Axis& a : compute.axes) analyzer.bind(a.name, 0, a.extent);
  const Expr read = te::element_number(compute.body[0], program.inputs[0].shape);
  const Expr written = te::element_number(load("own", compute.outputs[0].type, te::variables(compute.axes)), shape);
  return analyzer.simplify(read - written).is_int(0);
}

}  // namespace tw::dataflow
