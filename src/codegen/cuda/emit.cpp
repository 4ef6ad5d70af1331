#include "codegen/cuda/emit.h"

#include "codegen/cuda/kernel_emitter.h"
#include "expr/expand.h"
#include "lower/passes.h"

namespace tw::codegen {

namespace {

// A name in C of letters and digits, not so long that tables of profilers break.
std::string kernel_name(const std::string& what, size_t k) {
  constexpr size_t kLongest = 60;
  std::string name = "tw_" + what.substr(0, kLongest);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain) c = '_';
  }
  return k == 0 ? name : fmt::format("{}_{}", name, k);
}

}  // namespace

CudaSource emit_cuda(const loop::Program& program, const std::string& what) {
  CudaSource source;
  source.text = cuda_prelude();
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    if (program.kernels[k].is_implemented()) {
      source.kernels.push_back({kernel_name(what, k), 0});
      continue;
    }
    KernelEmitter emitter(program.kernels[k], kernel_name(what, k));
    source.kernels.push_back(emitter.run());
    source.text += "\n" + emitter.text();
  }
  return source;
}

std::string emit_cuda_function(const std::string& name, const std::vector<Expr>& params, const Expr& value) {
  CudaNames names;
  std::string list, body;
  const auto bind = [&](const Expr& e) { body += fmt::format("  const {} ", cuda_type(e.type())); };
  for (const Expr& param : params) {
    const std::string given = param->name + "_f32";
    list += fmt::format("{}float {}", list.empty() ? "" : ", ", given);
    names.variables = {{given, given}};
    const Expr typed = cast(param.type(), var(given, DataType::f32()));
    bind(param);
    body += fmt::format("{} = {};\n", param->name, cuda_expr(typed, names));
  }
  names.variables.clear();
  for (const Expr& param : params) names.variables[param->name] = param->name;
  const bool approximate =
      lower::rounds_to_16_bits({"", {{"y", DataType::f32(), {}}}, {}, {}, 1, 1, {loop::make_store("y", {}, value)}});
  const Expr result = (approximate ? expand_approximate : expand_elementary)(cast(DataType::f32(), value), {}, {});
  for (const Expr& shared : shared_parts(result, names)) {
    const std::string part = fmt::format("v{}", names.evaluated.size());
    bind(shared);
    body += fmt::format("{} = {};\n", part, cuda_expr(shared, names));
    names.evaluated[&*shared] = part;
  }
  return fmt::format("{}\n__device__ inline float {}({}) {{\n{}  return {};\n}}\n", cuda_prelude(), name, list, body,
                     cuda_expr(result, names));
}

}  // namespace tw::codegen
