#include "templates/source.h"

#include "codegen/cuda/emit.h"
#include "codegen/cuda/fatbin.h"
#include "support/error.h"
#include "templates/texts.h"

namespace tw::templates {
namespace {

bool is_sm90(Family family) { return architecture_of(family) == "sm_90a"; }

std::string type_name(DataType type) {
  if (type == DataType::f16()) return "cutlass::half_t";
  if (type == DataType::bf16()) return "cutlass::bfloat16_t";
  TW_CHECK(type == DataType::f32(), "templates compute no {}", to_string(type));
  return "float";
}

// Matrix instructions read words of f32 as tf32.
std::string operand_name(DataType type) { return type == DataType::f32() ? "cutlass::tfloat32_t" : type_name(type); }

std::string define(std::string_view name, const auto& value) { return fmt::format("#define TW_{} {}\n", name, value); }

std::string parameters(const Instance& instance) {
  const Row& row = instance.row;
  std::string text = define("TILE_M", row.tile_m) + define("TILE_N", row.tile_n) +
                     define("TILE_K", steps_of_tile(row, instance.operand));
  if (is_conv(row.family)) text += define("DIMS", instance.dims);
  if (is_sm90(row.family))
    return text + define("CLUSTER_M", row.cluster_m) + define("CLUSTER_N", row.cluster_n) +
           define("PINGPONG", int{row.pingpong}) + define("STREAM_K", int{row.stream_k});
  return text + define("WARPS_M", row.warps_m) + define("WARPS_N", row.warps_n) + define("STAGES", row.stages) +
         define("OPERAND_ACCESS", instance.access.operands) + define("OUTPUT_ACCESS", instance.access.output);
}

const Epilogue::Operand* find_tensor(const Epilogue& epilogue) {
  const auto found = std::ranges::find_if(epilogue.operands, &Epilogue::Operand::is_tensor);
  return found == epilogue.operands.end() ? nullptr : &*found;
}

// The visitor tree of CUTLASS 3.x has one node for the expression; its children fetch the operands.
std::string tree(const Epilogue& epilogue) {
  std::string nodes = ", fusion::Sm90AccFetch", arguments = "{}, ";
  int vectors = 0;
  for (const Epilogue::Operand& operand : epilogue.operands) {
    const std::string type = type_name(operand.type);
    nodes += operand.is_tensor ? ", fusion::Sm90SrcFetch<Tensor>" : fmt::format(", Vector<{}>", type);
    arguments += operand.is_tensor ? "{}, " : fmt::format("{{pointer<const {}>(p.vectors[{}])}}, ", type, vectors++);
  }
  const Epilogue::Operand* tensor = find_tensor(epilogue);
  return define("TENSOR", tensor ? type_name(tensor->type) : "void") +
         define("TENSOR_ACCESS", tensor ? 16 / tensor->type.bytes() : 1) + define("EPILOGUE_NODES", nodes) +
         define("EPILOGUE_ARGUMENTS", arguments + "{}");
}

// The output operator of CUTLASS 2.x gets one vector and one tensor.
std::string operands(const Epilogue& epilogue) {
  std::string list = "acc[i]", vector = "float";
  for (const Epilogue::Operand& operand : epilogue.operands) {
    list += operand.is_tensor ? ", tensor[i]" : ", vector[i]";
    if (!operand.is_tensor) vector = type_name(operand.type);
  }
  return define("EPILOGUE_OPERANDS", list) + define("HAS_TENSOR", find_tensor(epilogue) != nullptr) +
         define("VECTOR", vector);
}

std::string function(const Epilogue& epilogue) {
  std::vector<Expr> params = {var("x0", DataType::f32())};
  for (const Epilogue::Operand& operand : epilogue.operands)
    params.push_back(var(fmt::format("x{}", params.size()), operand.type));
  return codegen::emit_cuda_function("tw_epilogue", params, epilogue.value);
}

std::string_view text_of(Family family) {
  const std::string_view texts[] = {kGemmSm90Text, kConvSm90Text, kGemmSm80Text, kConvSm80Text};
  return texts[static_cast<size_t>(family)];
}

}  // namespace

std::string why_declined(const Row& row, const Epilogue& epilogue, DataType output) {
  const auto tensors = std::ranges::count_if(epilogue.operands, &Epilogue::Operand::is_tensor);
  const auto vectors = std::ssize(epilogue.operands) - tensors;
  constexpr int64_t kMaxVectors = 4;  // of host.cu
  const bool wide = is_sm90(row.family);
  if (tensors > 1) return "the epilogue reads more than one tensor of the result's shape";
  if (vectors > (wide ? kMaxVectors : 1)) return "the epilogue reads more vectors than the template has";
  const Epilogue::Operand* tensor = find_tensor(epilogue);
  if (!wide && tensor && tensor->type != output) return "CUTLASS 2.x adds tensors of the result's type only";
  return "";
}

std::string source_of(const Instance& instance) {
  const Row& row = instance.row;
  const auto layout = [](bool by_rows) { return by_rows ? "RowMajor" : "ColumnMajor"; };
  std::string text = parameters(instance) + define("OPERAND", operand_name(instance.operand)) +
                     define("OUTPUT", type_name(instance.output)) + define("LAYOUT_A", layout(instance.a_by_rows)) +
                     define("LAYOUT_B", layout(instance.b_by_rows));
  text += is_sm90(row.family) ? tree(instance.epilogue) : operands(instance.epilogue);
  text += kHostText;
  text += function(instance.epilogue);
  text += is_sm90(row.family) ? kVisitorText : kOutputOpText;
  if (row.stream_k) text += kStreamKText;
  return text + std::string(text_of(row.family));
}

std::vector<std::string> compiler_options(const Instance& instance) {
  const std::string& architecture = instance.architecture;
  const std::string number = architecture.substr(3);
  const std::string code =
      codegen::is_portable(architecture) ? fmt::format("[{},compute_{}]", architecture, number) : architecture;
  return {"-std=c++17",
          "-O3",
          "-DNDEBUG",  // asserts are calls, which serialize the instructions of warp groups
          "-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1",
          "--fmad=false",  // epilogues compute what the IR says
          "--expt-relaxed-constexpr",
          "-gencode",
          fmt::format("arch=compute_{},code={}", number, code),
          "-Xptxas",
          "-v"};
}

}  // namespace tw::templates
