#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/lexer.h"
#include "te/axes.h"
#include "te/te.h"
#include "te/text.h"

namespace tw::te {
namespace {

std::string tensor_text(const Tensor& tensor) {
  return fmt::format("{}: {}[{}]", quote_name(tensor.name), to_string(tensor.type), fmt::join(tensor.shape, ", "));
}

std::string expr_list(const std::vector<Expr>& list) {
  std::vector<std::string> parts;
  for (const Expr& e : list) parts.push_back(to_string(e));
  return parts.size() == 1 ? parts[0] : fmt::format("({})", fmt::join(parts, ", "));
}

std::string name_list(const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (const std::string& name : names) parts.push_back(quote_name(name));
  return fmt::format("({})", fmt::join(parts, ", "));
}

std::string axis_list(const std::vector<Axis>& axes) { return name_list(axis_names(axes)); }

bool has_default_identity(const Compute& compute) {
  const Combiner& combiner = compute.combiner;
  return combiner.kind != CombinerKind::kTuple &&
         equal(combiner.identity.at(0), identity_of(combiner.kind, compute.outputs[0].type));
}

std::string reduction_text(const Compute& compute) {
  const Combiner& combiner = compute.combiner;
  std::vector<std::string> ranges;
  for (const Axis& axis : compute.reduce_axes)
    ranges.push_back(fmt::format("{} in {}", quote_name(axis.name), axis.extent));
  std::string out = fmt::format("{}({})", combiner_name(combiner.kind), fmt::join(ranges, ", "));
  if (!has_default_identity(compute)) out += " from " + expr_list(combiner.identity);
  out += fmt::format(" over {} of {}", axis_list(compute.axes), expr_list(compute.body));
  if (combiner.kind == CombinerKind::kTuple) {
    out +=
        fmt::format(" by {}, {} -> {}", name_list(combiner.lhs), name_list(combiner.rhs), expr_list(combiner.result));
  }
  return out;
}

std::string compute_text(const Compute& compute) {
  std::vector<std::string> outputs;
  for (const Tensor& output : compute.outputs) outputs.push_back(tensor_text(output));
  const std::string left = fmt::format("{}", fmt::join(outputs, ", "));
  if (compute.is_reduction()) return fmt::format("{} = {}", left, reduction_text(compute));
  return fmt::format("{} {} = {}", left, axis_list(compute.axes), expr_list(compute.body));
}

}  // namespace

std::string_view combiner_name(CombinerKind kind) { return kCombinerNames.at(static_cast<size_t>(kind)); }

std::string to_string(const Program& program) {
  std::string out = fmt::format("te {}\n", quote_name(program.name));
  for (const Tensor& input : program.inputs) out += fmt::format("input {}\n", tensor_text(input));
  for (const Compute& compute : program.computes) out += compute_text(compute) + "\n";
  std::vector<std::string> outputs;
  for (const std::string& name : program.outputs) outputs.push_back(quote_name(name));
  if (!outputs.empty()) out += fmt::format("output {}\n", fmt::join(outputs, ", "));
  return out;
}

}  // namespace tw::te
