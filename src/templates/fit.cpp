#include "templates/fit.h"

#include <algorithm>

#include "construct/library/sum_epilogue.h"
#include "core/target_name.h"

namespace tw::templates {
namespace {

using format::ProblemDescriptor;

DataType type_of(const format::Operand& operand) {
  const auto type = parse_data_type(format::name_of(operand.dtype));
  TW_CHECK(type.has_value(), "element type of {}", operand.name);
  return *type;
}

// Operands of a product whose lines follow each other without gaps; a batch with one right side is one product of more
// rows.
Result<GemmDescriptor> product_of_gemm(const ProblemDescriptor& p) {
  GemmDescriptor out{p.m, p.n, p.k, p.batch, !p.a.transposed, !p.b.transposed, type_of(p.a), type_of(p.out)};
  const bool compact =
      p.a.line == (p.a.transposed ? p.m : p.k) && p.b.line == (p.b.transposed ? p.k : p.n) && p.out.line == p.n;
  if (!compact) return declined("operands are parts of larger matrices");
  if (p.batch == 1) return out;
  if (p.a.matrix != p.m * p.k || p.out.matrix != p.m * p.n)
    return declined("matrices of the batch do not follow each other");
  if (p.b.matrix == p.k * p.n) return out;
  if (p.b.matrix != 0 || p.a.transposed) return declined("matrices of the batch are shared");
  out.m *= out.batch;
  out.batch = 1;
  return out;
}

Result<GemmDescriptor> product_of_conv(const ProblemDescriptor& p) {
  if (p.spatial.size() != 2 || p.groups != 1)
    return declined("a convolution over {} dimensions in {} groups", p.spatial.size(), p.groups);
  GemmDescriptor out;
  const std::vector<int64_t> pixels = p.out_spatial();
  out.is_conv = true;
  out.m = p.batch * pixels[0] * pixels[1], out.n = p.n, out.k = p.window[0] * p.window[1] * p.k;
  out.operand = type_of(p.a), out.output = type_of(p.out);
  out.images = p.batch, out.channels = p.k, out.height = p.spatial[0], out.width = p.spatial[1];
  for (size_t d : {0, 1}) {
    out.window[d] = p.window[d], out.out[d] = pixels[d], out.pad[d] = p.pads[d];
    out.stride[d] = p.strides[d], out.dilation[d] = p.dilations[d];
  }
  return out;
}

bool reads_single_pixels(const ProblemDescriptor& p) {
  const auto all = [](const std::vector<int64_t>& list, int64_t value) {
    return std::ranges::count(list, value) == std::ssize(list);
  };
  return p.kind == ProblemDescriptor::Kind::kConvolution && p.groups == 1 && all(p.window, 1) && all(p.strides, 1) &&
         all(p.pads, 0) && all(p.pads_end, 0);
}

}  // namespace

std::vector<EpilogueClass> epilogue_classes(DataType operand) {
  const auto of = [&](std::string_view operands, std::string_view value) {
    return loop::parse_epilogue(fmt::format("{} {}", fmt::format(fmt::runtime(operands), to_string(operand)), value));
  };
  const std::string_view bias = "bias:{}:column", both = "bias:{0}:column,residual:{0}:point";
  return {{"none", {}, operand},
          {"bias", of(bias, "x0 + cast<f32>(x1)"), operand},
          {"bias_relu", of(bias, "max(x0 + cast<f32>(x1), 0:f32)"), operand},
          {"bias_residual_relu", of(both, "max((x0 + cast<f32>(x1)) + cast<f32>(x2), 0:f32)"), operand},
          {kWideClass, {}, DataType::f32()}};
}

Instance Fit::instance(const Row& row, std::string_view target) const {
  return {row, product.operand, product.output, product.a_by_rows, product.b_by_rows, epilogue, architecture(target)};
}

Fit Fit::without_epilogue() const {
  Fit plain = *this;
  plain.epilogue = {};
  plain.operands = {operands[0], operands[1], operands.back()};
  return plain;
}

Result<Fit> fit(const ProblemDescriptor& p, Epilogue epilogue) {
  if (p.kind == ProblemDescriptor::Kind::kAttention) return declined("no product, but attention");
  if (p.operands().size() != 3 || p.activation != format::Activation::kNone)
    return declined("what follows the sum is said in terms of libraries");
  Fit out;
  Result<GemmDescriptor> product = declined("");
  if (reads_single_pixels(p)) {
    int64_t pixels = p.batch;
    for (const int64_t extent : p.spatial) pixels *= extent;
    product = GemmDescriptor{pixels, p.n, p.k, 1, true, true, type_of(p.a), type_of(p.out)};
    out.b_turned = true;
  } else {
    product = p.kind == ProblemDescriptor::Kind::kGemm ? product_of_gemm(p) : product_of_conv(p);
  }
  if (!product) return Reason{product.reason()};
  out.product = *product;
  if (type_of(p.b) != out.product.operand) return declined("operands of two types");
  out.operands = {p.a.name, p.b.name};
  for (const Epilogue::Operand& operand : epilogue.operands) out.operands.push_back(operand.name);
  out.operands.push_back(p.out.name);
  out.epilogue = std::move(epilogue);
  return out;
}

std::vector<std::pair<format::Operand, int64_t>> operands_of(const loop::TemplateCall& call) {
  std::vector<std::pair<format::Operand, int64_t>> all;
  const ProblemDescriptor& p = call.problem;
  for (const format::Operand* o : p.operands()) all.emplace_back(*o, p.span(*o));
  for (const Epilogue::Operand& o : call.epilogue.operands)
    all.emplace_back(construct::operand_of({o.name, o.type, {}}), o.is_tensor ? p.span(p.out) : p.n);
  return all;
}

}  // namespace tw::templates
