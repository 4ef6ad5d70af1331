#include "construct/library/sum_epilogue.h"

#include <algorithm>

#include "construct/library/form.h"
#include "expr/affine.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

using format::Activation;
using format::ProblemDescriptor;
using Operand = SumEpilogue::Operand;

// Activations of x as te has them, without conversions; parameters are p0, p1.
struct ActivationForm {
  Activation activation;
  const char* form;
  size_t parameters = 0;
};
constexpr ActivationForm kActivations[] = {
    {Activation::kRelu, "max(x, 0:f32)"},
    {Activation::kClip, "min(max(x, p0), p1)", 2},
    {Activation::kLeakyRelu, "select((x < 0:f32), (p0 * x), x)", 1},
    {Activation::kSigmoid, "sigmoid(x)"},
    {Activation::kTanh, "tanh(x)"},
    {Activation::kSilu, "x * sigmoid(x)"},
    {Activation::kGelu, "(0.5:f32 * x) * (1:f32 + erf(x * 0.70710677:f32))"},
    {Activation::kGeluTanh, "x * sigmoid(1.5957692:f32 * (x + (((0.044715:f32 * x) * x) * x)))"},
    {Activation::kHardSwish, "x * max(0:f32, min(1:f32, (x * 0.16666667:f32) + 0.5:f32))"},
    {Activation::kSoftplus, "softplus(x)"},
};

std::string name_of(size_t operand) { return fmt::format("x{}", operand); }

// Names are the program's until all are known. Operands stand behind what they are added to, so that they are numbered
// from the sum outwards.
class Finder {
 public:
  Finder(const te::Program& program, const te::Compute& last, const std::string& sum)
      : program_(program), last_(last), sum_(sum) {}

  Result<SumEpilogue> run() {
    Expr value = rewrite(last_.body[0], [&](const Expr& e) { return widened(e); });
    if (value.type() != DataType::f32()) decline("is no f32");
    if (reason_.empty()) value = rewrite(value, [&](const Expr& e) { return operand_last(e); });
    VarMap numbered = {{sum_, var("x0", DataType::f32())}};
    SumEpilogue out;
    visit(value, [&](const Expr& e) {
      if (!e.is_var() || numbered.contains(e->name)) return;
      const auto operand = std::ranges::find(operands_, e->name, &Operand::name);
      if (operand == operands_.end()) return decline("depends on where in the result it is");
      out.operands.push_back(*operand);
      numbered[e->name] = var(name_of(out.operands.size()), e.type());
    });
    if (!reason_.empty()) return declined("what follows {} {}", sum_, reason_);
    out.value = substitute(value, numbered);
    return out;
  }

 private:
  void decline(const std::string& why) {
    if (reason_.empty()) reason_ = why;
  }

  static bool is_number(DataType type) { return type.is_half() || type == DataType::f32(); }

  // Without roundings to 16 bits, operands as variables. What is declined keeps its type, so that it can be rewritten.
  Expr widened(const Expr& e) {
    if (e.op() == Op::kLoad) {
      const Expr read = operand(e);
      return is_number(e.type()) ? cast(DataType::f32(), read) : read;
    }
    if (!e.type().is_half()) return Expr();
    if (e.op() == Op::kFloatImm) return float_imm(e->number);
    if (e.op() == Op::kCast) return cast(DataType::f32(), e.arg(0));
    decline("takes the bits of numbers");
    return Expr();
  }

  Expr operand(const Expr& read) {
    const DataType type = read.type();
    if (read->name == sum_) return var(sum_, type);
    const te::Tensor& tensor = program_.tensor(read->name);
    const te::Tensor& result = last_.outputs[0];
    const std::string& column = last_.axes.back().name;
    const Sum place = as_sum(te::element_number(read, tensor.shape));
    const bool is_tensor = te::own_axes(last_, read) == last_.axes.size() && tensor.shape == result.shape;
    const bool is_vector = num_elements(tensor.shape) == last_.axes.back().extent && place.constant == 0 &&
                           place.terms.size() == 1 && place.coef_of(var(column)) == 1;
    if (read->predicated || !(is_tensor || is_vector))
      decline(fmt::format("reads {} neither point by point nor by columns", tensor.name));
    if (!is_number(type)) decline(fmt::format("reads {} of {}", tensor.name, tw::to_string(type)));
    if (std::ranges::find(operands_, tensor.name, &Operand::name) == operands_.end())
      operands_.push_back({tensor.name, type, is_tensor});
    return var(tensor.name, type);
  }

  Expr operand_last(const Expr& e) const {
    const auto is_operand = [&](const Expr& side) {
      const Expr read = without_rounding(side);
      return read.is_var() && read->name != sum_;
    };
    return e.op() == Op::kAdd && is_operand(e.arg(0)) && !is_operand(e.arg(1)) ? e.arg(1) + e.arg(0) : Expr();
  }

  const te::Program& program_;
  const te::Compute& last_;
  const std::string& sum_;
  std::vector<Operand> operands_;
  std::string reason_;
};

// Takes the steps of an epilogue off, the last one first.
class Peeler {
 public:
  Peeler(ProblemDescriptor product, const std::vector<Operand>& operands)
      : p_(std::move(product)), operands_(operands) {}

  bool run(Expr rest) {
    while (rest && !(rest.is_var() && rest->name == "x0")) rest = peel(rest);
    if (p_.activation == Activation::kNone && p_.residual.name.empty()) std::swap(p_.residual, p_.late_residual);
    return static_cast<bool>(rest);
  }
  const ProblemDescriptor& problem() const { return p_; }

 private:
  // What `e` is the last step on; null where it is none.
  Expr peel(const Expr& e) {
    for (const ActivationForm& row : kActivations) {
      VarMap bound;
      if (p_.activation != Activation::kNone || !p_.bias.name.empty() || !fits(parse_form(row.form), e, bound))
        continue;
      p_.activation = row.activation;
      for (size_t i = 0; i < row.parameters; ++i) p_.parameters.push_back(bound.at(fmt::format("p{}", i))->number);
      return bound.at("x");
    }
    if (e.op() != Op::kAdd) return Expr();
    const Expr added = without_rounding(e.arg(1));
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!added.is_var() || added->name != name_of(i + 1)) continue;
      const Operand& o = operands_[i];
      format::Operand& residual = p_.activation == Activation::kNone ? p_.late_residual : p_.residual;
      format::Operand& place = o.is_tensor ? residual : p_.bias;
      if (!place.name.empty()) return Expr();
      place = operand_of({o.name, o.type, {}});
      return e.arg(0);
    }
    return Expr();
  }

  ProblemDescriptor p_;
  const std::vector<Operand>& operands_;
};

}  // namespace

format::Operand operand_of(const te::Tensor& t) {
  const auto dtype = format::parse_data_type(tw::to_string(t.type));
  TW_CHECK(dtype.has_value(), "element type of {}", t.name);
  return {t.name, *dtype};
}

Result<SumEpilogue> find_epilogue(const te::Program& program, const te::Compute& last, const std::string& sum) {
  return Finder(program, last, sum).run();
}

Result<ProblemDescriptor> with_epilogue(ProblemDescriptor product, const SumEpilogue& epilogue, Precision precision) {
  const std::string sum = product.out.name;
  Peeler peeler(std::move(product), epilogue.operands);
  if (!peeler.run(epilogue.value))
    return declined("what follows the sum of {} is no bias, residual or known activation", sum);
  if (precision == Precision::kStrict && peeler.problem().activation > Activation::kLeakyRelu)
    return declined("precision is strict, and others may approximate what follows the sum of {}", sum);
  return peeler.problem();
}

}  // namespace tw::construct
