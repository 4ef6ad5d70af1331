#include <fmt/format.h>

#include "support/join.h"
#include "support/lexer.h"
#include "te/text.h"

namespace tw::te {
namespace {

std::string tensor_text(const Tensor& tensor) {
  return fmt::format("{}: {}[{}]", quote_name(tensor.name), to_string(tensor.type), fmt::join(tensor.shape, ", "));
}

std::string expr_list(const std::vector<Expr>& list) {
  const auto parts = mapped(list, [](const Expr& e) { return to_string(e); });
  return parts.size() == 1 ? parts[0] : fmt::format("({})", fmt::join(parts, ", "));
}

std::string name_list(const std::vector<std::string>& names) {
  return fmt::format("({})", fmt::join(mapped(names, quote_name), ", "));
}

std::string axis_list(const std::vector<Axis>& axes) { return name_list(axis_names(axes)); }

bool has_default_identity(const Compute& compute) {
  const Combiner& combiner = compute.combiner;
  if (combiner.kind == CombinerKind::kTuple) return false;
  for (size_t k = 0; k < compute.outputs.size(); ++k) {
    if (!equal(combiner.identity.at(k), identity_of(combiner.kind, compute.outputs[k].type))) return false;
  }
  return true;
}

std::string reduction_text(const Compute& compute) {
  const Combiner& combiner = compute.combiner;
  const auto ranges = mapped(compute.reduce_axes, [](const Axis& axis) {
    return fmt::format("{} in {}", quote_name(axis.name), axis.extent);
  });
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
  const std::string left = fmt::format("{}", fmt::join(mapped(compute.outputs, tensor_text), ", "));
  if (compute.is_reduction()) return fmt::format("{} = {}", left, reduction_text(compute));
  return fmt::format("{} {} = {}", left, axis_list(compute.axes), expr_list(compute.body));
}

}  // namespace

std::string_view combiner_name(CombinerKind kind) { return kCombinerNames.at(static_cast<size_t>(kind)); }

std::string to_string(const Program& program) {
  std::string out = fmt::format("te {}\n", quote_name(program.name));
  for (const Tensor& input : program.inputs) out += fmt::format("input {}\n", tensor_text(input));
  for (const Compute& compute : program.computes) out += compute_text(compute) + "\n";
  if (!program.outputs.empty()) out += fmt::format("output {}\n", fmt::join(mapped(program.outputs, quote_name), ", "));
  return out;
}

}  // namespace tw::te
