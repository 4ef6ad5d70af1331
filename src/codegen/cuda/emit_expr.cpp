#include "codegen/cuda/emit_expr.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "support/error.h"

namespace tw::codegen {

// min and max give NaN when either side is NaN; floor division rounds to minus infinity; float to integer saturates.
std::string_view cuda_prelude() {
  return R"(
template <typename T> __device__ inline T tw_min(T a, T b) { return (a < b || a != a) ? a : b; }
template <typename T> __device__ inline T tw_max(T a, T b) { return (a > b || a != a) ? a : b; }
template <typename T> __device__ inline T tw_floor_div(T a, T b) { T q = a / b; return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q; }
template <typename T> __device__ inline T tw_floor_mod(T a, T b) { return a - b * tw_floor_div(a, b); }
template <typename To, typename From> __device__ inline To tw_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "same width");
  To out; memcpy(&out, &x, sizeof(out)); return out;
}
template <typename To, typename From> __device__ inline To tw_saturate(From x, double low, double high, To lowest, To highest) {
  if (x != x) return To(0);
  if (double(x) <= low) return lowest;
  if (double(x) >= high) return highest;
  return To(x);
}
)";
}

std::string cuda_type(DataType type) {
  TW_CHECK(!type.is_vector(), "a vector of type {} on CUDA", to_string(type));
  switch (type.scalar()) {
    case ScalarType::kBool:
      return "bool";
    case ScalarType::kI8:
      return "signed char";
    case ScalarType::kU8:
      return "unsigned char";
    case ScalarType::kI16:
      return "short";
    case ScalarType::kU16:
    case ScalarType::kF16:
    case ScalarType::kBF16:
      return "unsigned short";
    case ScalarType::kI32:
      return "int";
    case ScalarType::kU32:
      return "unsigned";
    case ScalarType::kI64:
      return "long long";
    case ScalarType::kU64:
      return "unsigned long long";
    case ScalarType::kF32:
      return "float";
    case ScalarType::kF64:
      return "double";
  }
  throw InternalError("unknown element type");
}

namespace {

std::string immediate(const Expr& e) {
  if (e.op() == Op::kIntImm) {
    if (e.type().is_bool()) return e->value ? "true" : "false";
    if (e->value == INT64_MIN) return "(-9223372036854775807LL - 1)";
    return fmt::format("({})({}LL)", cuda_type(e.type()), e->value);
  }
  if (e.type() == DataType::f32())
    return fmt::format("__int_as_float(0x{:08x})", std::bit_cast<uint32_t>(static_cast<float>(e->number)));
  if (e.type() == DataType::f64())
    return fmt::format("__longlong_as_double(0x{:016x}LL)", std::bit_cast<uint64_t>(e->number));
  return fmt::format("(unsigned short)0x{:04x}",
                     e.type() == DataType::f16() ? f16_bits(e->number) : bf16_bits(e->number));
}

std::string cast_text(const Expr& e, const std::string& x) {
  const DataType from = e.arg(0).type();
  const DataType to = e.type();
  if (to.is_bool()) return fmt::format("({} != 0)", x);
  if (!from.is_float() || to.is_float()) return fmt::format("({})({})", cuda_type(to), x);
  const int bits = to.bits() - (to.is_signed_int() ? 1 : 0);
  const std::string type = cuda_type(to);
  const std::string highest =
      to.is_signed_int() ? fmt::format("({})((1ULL << {}) - 1)", type, bits) : fmt::format("({})(-1)", type);
  const std::string lowest =
      to.is_signed_int() ? fmt::format("({})(-(long long)((1ULL << {}) - 1) - 1)", type, bits) : "0";
  const double low = to.is_signed_int() ? -std::ldexp(1.0, bits) : 0.0;
  return fmt::format("tw_saturate<{}>({}, {:.1f}, {:.1f}, {}, {})", type, x, low, std::ldexp(1.0, bits), lowest,
                     highest);
}

std::string infix(const char* op, const std::string& a, const std::string& b) {
  return fmt::format("({} {} {})", a, op, b);
}

std::string unary_text(const Expr& e, const std::string& x) {
  const bool is_float = e.type().is_float();
  const char* suffix = e.type() == DataType::f32() ? "f" : "";
  switch (e.op()) {
    case Op::kNeg:
      return fmt::format("(-{})", x);
    case Op::kNot:
      return e.type().is_bool() ? fmt::format("(!{})", x) : fmt::format("(~{})", x);
    case Op::kAbs:
      return is_float ? fmt::format("fabs{}({})", suffix, x) : fmt::format("({0} < 0 ? -{0} : {0})", x);
    case Op::kFloor:
      return fmt::format("floor{}({})", suffix, x);
    case Op::kCeil:
      return fmt::format("ceil{}({})", suffix, x);
    case Op::kRound:
      return fmt::format("rint{}({})", suffix, x);
    case Op::kTrunc:
      return fmt::format("trunc{}({})", suffix, x);
    case Op::kCast:
      return cast_text(e, x);
    case Op::kBitcast:
      return fmt::format("tw_bits<{}>({})", cuda_type(e.type()), x);
    default:
      throw InternalError(fmt::format("no CUDA text for {}", to_string(e)));
  }
}

std::string binary_text(const Expr& e, const std::string& a, const std::string& b) {
  switch (e.op()) {
    case Op::kAdd:
      return infix("+", a, b);
    case Op::kSub:
      return infix("-", a, b);
    case Op::kMul:
      return infix("*", a, b);
    case Op::kDiv:
      return infix("/", a, b);
    case Op::kFloorDiv:
      return fmt::format("tw_floor_div({}, {})", a, b);
    case Op::kFloorMod:
      return fmt::format("tw_floor_mod({}, {})", a, b);
    case Op::kMin:
      return fmt::format("tw_min({}, {})", a, b);
    case Op::kMax:
      return fmt::format("tw_max({}, {})", a, b);
    case Op::kAnd:
      return infix(e.type().is_bool() ? "&&" : "&", a, b);
    case Op::kOr:
      return infix(e.type().is_bool() ? "||" : "|", a, b);
    case Op::kXor:
      return infix("^", a, b);
    case Op::kShiftLeft:
      return infix("<<", a, b);
    case Op::kShiftRight:
      return infix(">>", a, b);
    case Op::kEq:
      return infix("==", a, b);
    case Op::kNe:
      return infix("!=", a, b);
    case Op::kLt:
      return infix("<", a, b);
    case Op::kLe:
      return infix("<=", a, b);
    default:
      throw InternalError(fmt::format("no CUDA text for {}", to_string(e)));
  }
}

std::string load_text(const Expr& e, const CudaNames& names) {
  const auto found = names.buffers.find(e->name);
  TW_CHECK(found != names.buffers.end(), "unknown buffer {}", e->name);
  std::vector<Expr> indices = e->args;
  Expr predicate;
  if (e->predicated) {
    predicate = indices.back();
    indices.pop_back();
  }
  const std::string element =
      fmt::format("{}[{}]", found->second.name, cuda_offset(indices, found->second.shape, names));
  return predicate ? fmt::format("({} ? {} : ({})0)", cuda_expr(predicate, names), element, cuda_type(e.type()))
                   : element;
}

std::string variable_text(const Expr& e, const CudaNames& names) {
  const auto found = names.variables.find(e->name);
  TW_CHECK(found != names.variables.end(), "unknown variable {}", e->name);
  return found->second;
}

}  // namespace

std::string cuda_offset(const std::vector<Expr>& indices, const Shape& shape, const CudaNames& names) {
  const Shape strides = row_major_strides(shape);
  std::string text;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (indices[d].is_int(0)) continue;
    text += fmt::format("{}{} * {}LL", text.empty() ? "" : " + ", cuda_expr(indices[d], names), strides[d]);
  }
  return text.empty() ? "0" : text;
}

std::string cuda_expr(const Expr& e, const CudaNames& names) {
  TW_CHECK(!e.type().is_vector(), "a vector value on CUDA: {}", to_string(e));
  switch (e.op()) {
    case Op::kIntImm:
    case Op::kFloatImm:
      return immediate(e);
    case Op::kVar:
      return variable_text(e, names);
    case Op::kLoad:
      return load_text(e, names);
    case Op::kSelect:
      return fmt::format("({} ? {} : {})", cuda_expr(e.arg(0), names), cuda_expr(e.arg(1), names),
                         cuda_expr(e.arg(2), names));
    case Op::kFma:
      return fmt::format("fma{}({}, {}, {})", e.type() == DataType::f32() ? "f" : "", cuda_expr(e.arg(0), names),
                         cuda_expr(e.arg(1), names), cuda_expr(e.arg(2), names));
    case Op::kCall:
      TW_CHECK(e->name == "sqrt", "function {} was not expanded", e->name);
      return fmt::format("{}({})", e.type() == DataType::f32() ? "__fsqrt_rn" : "__dsqrt_rn",
                         cuda_expr(e.arg(0), names));
    default:
      break;
  }
  if (e->args.size() == 1) return unary_text(e, cuda_expr(e.arg(0), names));
  return binary_text(e, cuda_expr(e.arg(0), names), cuda_expr(e.arg(1), names));
}

}  // namespace tw::codegen
