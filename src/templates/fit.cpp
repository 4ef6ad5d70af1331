#include "templates/fit.h"

#include "construct/library/sum_epilogue.h"

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

// One dim of a window is the second one of two.
Result<GemmDescriptor> product_of_conv(const ProblemDescriptor& p) {
  if (p.groups > 1 && p.groups == p.k)
    return declined("a depthwise convolution: memory bounds it, matrix instructions gain nothing");
  if (p.groups != 1)
    return declined("a convolution in {} groups: CUTLASS wants whole tiles of filters in each, ours packs them",
                    p.groups);
  GemmDescriptor out;
  const std::vector<int64_t> pixels = p.out_spatial();
  out.is_conv = true;
  out.dims = std::max(2, static_cast<int>(p.spatial.size()));
  const size_t first = p.spatial.size() == 1 ? 1 : 0;
  out.m = p.batch, out.n = p.n, out.k = p.k;
  out.operand = type_of(p.a), out.output = type_of(p.out);
  out.images = p.batch, out.channels = p.k;
  for (size_t d = 0; d < p.spatial.size(); ++d) {
    out.m *= pixels[d], out.k *= p.window[d];
    const size_t to = first + d;
    out.image[to] = p.spatial[d], out.window[to] = p.window[d], out.out[to] = pixels[d], out.pad[to] = p.pads[d];
    out.stride[to] = p.strides[d], out.dilation[to] = p.dilations[d];
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

ProblemDescriptor as_product(ProblemDescriptor p) {
  if (!reads_single_pixels(p)) return p;
  p.kind = ProblemDescriptor::Kind::kGemm;
  p.m = p.batch;
  for (const int64_t extent : p.spatial) p.m *= extent;
  p.batch = 1, p.groups = 0;
  for (auto* list : {&p.spatial, &p.window, &p.strides, &p.dilations, &p.pads, &p.pads_end}) list->clear();
  p.a.line = p.b.line = p.k, p.out.line = p.n;
  p.b.transposed = true;
  return p;
}

std::vector<EpilogueClass> epilogue_classes(DataType operand) {
  const bool wide = operand == DataType::f32();
  const std::string_view first = wide ? "x1" : "cast<f32>(x1)", second = wide ? "x2" : "cast<f32>(x2)";
  const auto of = [&](std::string_view operands, const std::string& value) {
    return loop::parse_epilogue(fmt::format("{} {}", fmt::format(fmt::runtime(operands), to_string(operand)), value));
  };
  const std::string_view bias = "bias:{}:column", both = "bias:{0}:column,residual:{0}:point";
  std::vector<EpilogueClass> all = {
      {"none", {}, operand},
      {"bias", of(bias, fmt::format("x0 + {}", first)), operand},
      {"bias_relu", of(bias, fmt::format("max(x0 + {}, 0:f32)", first)), operand},
      {"bias_residual_relu", of(both, fmt::format("max((x0 + {}) + {}, 0:f32)", first, second)), operand}};
  if (!wide) all.push_back({kWideClass, {}, DataType::f32()});
  return all;
}

std::vector<Buildable> buildable(std::string_view target, DataType operand) {
  std::vector<Buildable> all;
  const bool steps_in_lines = operand == DataType::f32();
  for (const Row& row : rows()) {
    if (!is_for(row.family, target)) continue;
    const bool wins = target.ends_with(architecture_of(row.family)), groups = architecture_of(row.family) != "sm_80";
    Instance instance{row, operand, operand, true, is_conv(row.family) || !steps_in_lines};
    instance.architecture = architecture(target);
    const auto add = [&](std::string_view kind, const Instance& made, bool usual) {
      all.push_back({std::string(kind), made, usual});
    };
    for (const EpilogueClass& e : epilogue_classes(operand)) {
      Instance made = instance;
      made.epilogue = e.epilogue, made.output = e.output;
      add(e.name, made, wins && e.name != kWideClass);
    }
    Instance other = instance;
    other.b_by_rows = false;
    if (!is_conv(row.family) && !steps_in_lines) add("none_by_columns", other, wins);
    other = instance;
    other.dims = 3;
    if (is_conv(row.family)) add("none_3d", other, wins);
    // What the copy engine does not move is for warps wherever it runs.
    for (const int bytes : {8, 4}) {
      other = instance;
      other.access.operands = bytes;
      if (!groups && bytes >= operand.bytes()) add(fmt::format("none_{}_bytes", bytes), other, true);
    }
  }
  return all;
}

Instance Fit::instance(const Row& row, std::string_view target) const {
  Instance made{row, product.operand, product.output, product.a_by_rows, product.b_by_rows, epilogue};
  if (architecture_of(row.family) == "sm_80") made.access = access_of(product);
  if (product.is_conv) made.dims = product.dims;
  made.architecture = architecture(target);
  return made;
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
  product = p.kind == ProblemDescriptor::Kind::kGemm ? product_of_gemm(p) : product_of_conv(p);
  if (!product) return Reason{product.reason()};
  out.product = *product;
  if (type_of(p.b) != out.product.operand) return declined("operands of two types");
  if (out.product.operand == DataType::f32() && !p.tf32)
    return declined("products of f32: matrix instructions read f16, bf16 and, with --precision fast, tf32");
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
