#include "codegen/cuda/emit_expr.h"

#include <bit>
#include <cmath>

#include "expr/affine.h"
#include "expr/elementary.h"
#include "expr/op_names.h"
#include "support/error.h"
#include "support/math.h"

namespace tw::codegen {
namespace {

constexpr int kAccessBytes = 16;          // the widest access of one thread
constexpr int64_t kSwizzledBytes = 1024;  // period of the swizzle (tw_swizzle)

// Whether every value of an index is a multiple of `factor`.
bool is_multiple(const Expr& e, int64_t factor) {
  if (e.op() == Op::kIntImm) return e->value % factor == 0;
  if (e.op() == Op::kMul) return is_multiple(e.arg(0), factor) || is_multiple(e.arg(1), factor);
  const bool adds = e.op() == Op::kAdd || e.op() == Op::kSub || e.op() == Op::kFloorMod;
  return adds ? is_multiple(e.arg(0), factor) && is_multiple(e.arg(1), factor) : factor == 1;
}

// How an operation on {a}, or on {a} and {b}, is written, where that is not its infix form; {f} is "f" of f32.
struct OpText {
  Op op;
  const char* text;
};

constexpr OpText kTexts[] = {
    {Op::kNeg, "(-{a})"},
    {Op::kNot, "(!{a})"},
    {Op::kAbs, "fabs{f}({a})"},
    {Op::kFloor, "floor{f}({a})"},
    {Op::kCeil, "ceil{f}({a})"},
    {Op::kRound, "rint{f}({a})"},
    {Op::kTrunc, "trunc{f}({a})"},
    {Op::kFloorDiv, "tw_floor_div({a}, {b})"},
    {Op::kFloorMod, "tw_floor_mod({a}, {b})"},
    {Op::kMin, "tw_min({a}, {b})"},
    {Op::kMax, "tw_max({a}, {b})"},
};

// Integer operations that may leave the range of their type, or of C++'s promoted one, in {wide} unsigned numbers. C++
// leaves signed overflow undefined and computes narrow integers as int: of these a quotient too leaves the range.
constexpr OpText kWrapping[] = {
    {Op::kAdd, "{wide}{a} + {wide}{b}"},
    {Op::kSub, "{wide}{a} - {wide}{b}"},
    {Op::kMul, "{wide}{a} * {wide}{b}"},
    {Op::kShiftLeft, "{wide}{a} << {b}"},
    {Op::kNeg, "0 - {wide}{a}"},
    {Op::kAbs, "{a} < 0 ? 0 - {wide}{a} : {wide}{a}"},
    {Op::kNot, "~{wide}{a}"},
    {Op::kDiv, "{a} / {b}"},
};

// Null where the table has no such operation.
const char* find_text(std::span<const OpText> table, Op op) {
  const auto row = std::ranges::find(table, op, &OpText::op);
  return row == table.end() ? nullptr : row->text;
}

// What an i64 expression is for: an index, which may be an int, or data.
enum class Use : uint8_t { kData, kIndex };

class Writer {
 public:
  explicit Writer(const CudaNames& names, std::string lane = "") : names_(names), lane_(std::move(lane)) {}

  // An operand: of an index its cheapest form.
  std::string operand(const Expr& e) const { return write(e, is_index(e, names_) ? Use::kIndex : Use::kData); }

  std::string write(const Expr& e, Use use) const {
    if (const auto known = names_.evaluated.find(&*e); known != names_.evaluated.end())
      return lane_of(known->second, e);
    switch (e.op()) {
      case Op::kIntImm:
      case Op::kFloatImm:
        return immediate(e, use);
      case Op::kVar:
        return variable(e, use);
      case Op::kLoad:
        return load(e);
      case Op::kSelect:
        return fmt::format("({} ? {} : {})", write(e.arg(0), Use::kData), write(e.arg(1), use), write(e.arg(2), use));
      case Op::kRamp:
        return fmt::format("({} + {} * {})", write(e.arg(0), use), lane(), write(e.arg(1), use));
      case Op::kBroadcast:
        return write(e.arg(0), use);
      case Op::kExtract:
        return Writer(names_, fmt::format("{}", e->value)).write(e.arg(0), use);
      case Op::kFma:
        TW_CHECK(!e.type().is_half(), "a fused sum of products of {} was not expanded", to_string(e.type()));
        return fmt::format("fma{}({}, {}, {})", suffix(e), write(e.arg(0), use), write(e.arg(1), use),
                           write(e.arg(2), use));
      case Op::kFloorDiv:
      case Op::kFloorMod:
        return division(e, use);
      case Op::kCast:
        return cast(e, write(e.arg(0), use));
      case Op::kBitcast:
        return fmt::format("tw_bits<{}>({})", cuda_type(e.type().element()), write(e.arg(0), use));
      case Op::kEq:
      case Op::kNe:
      case Op::kLt:
      case Op::kLe:
        return operation(e, number(e.arg(0), operand(e.arg(0))), number(e.arg(1), operand(e.arg(1))));
      default:
        break;
    }
    const std::string a = number(e.arg(0), write(e.arg(0), use));
    const std::string b = e->args.size() == 1 ? "" : number(e.arg(1), write(e.arg(1), use));
    if (use == Use::kData && leaves_range(e)) return wrapping(e, a, b);
    return rounded(e, operation(e, a, b));
  }

  std::string element(const std::string& buffer, const std::vector<Expr>& indices) const {
    const CudaNames::Array& array = array_of(buffer);
    return fmt::format("{}[{}]", array.name, text_of(offset(array, indices)));
  }

  CudaOffset offset(const CudaNames::Array& array, const std::vector<Expr>& indices) const {
    return offset(array, indices, array.swizzled);
  }

  CudaOffset offset(const CudaNames::Array& array, const std::vector<Expr>& indices, int bytes) const {
    const Shape strides = row_major_strides(array.shape);
    std::vector<std::pair<Expr, int64_t>> kept;  // indices and strides of what the text has
    for (size_t d = 0; d < indices.size(); ++d) {
      if (array.of_thread.empty() || !array.of_thread[d]) kept.emplace_back(indices[d], strides[kept.size()]);
    }
    const auto adds_up = [&](const auto& k) { return is_index(k.first, names_) && !k.first.type().is_vector(); };
    if (std::ranges::all_of(kept, adds_up)) {
      Expr all = int_imm(0);
      for (const auto& [index, stride] : kept) all = all + index * int_imm(stride);
      const Sum sum = as_sum(names_.ranges.simplify(all));
      return bytes > 0 ? swizzled(sum, bytes) : CudaOffset{terms(sum), sum.constant};
    }
    std::string text;
    for (const auto& [index, stride] : kept) {
      if (index.is_int(0)) continue;
      text += fmt::format("{}{}", text.empty() ? "" : " + ", operand(index));
      if (stride != 1) text += " * " + whole(stride);
    }
    return {bytes > 0 ? fmt::format("tw_swizzle<{}>({})", bytes, text) : text, 0};
  }

  // The parts of lines lie in the same order again some elements further on: multiples of that are added to what the
  // others become.
  CudaOffset swizzled(const Sum& sum, int bytes) const {
    const int64_t again = kSwizzledBytes / bytes, parts = 7 * 16 / bytes;
    Sum inside = constant_sum(floor_mod(sum.constant, again));
    Sum behind = constant_sum(sum.constant - inside.constant);
    for (const Term& t : sum.terms) (t.coef % again == 0 ? behind : inside).terms.push_back(t);
    if (inside.is_constant())
      return {terms(behind), behind.constant + (inside.constant ^ (inside.constant >> 3 & parts))};
    const std::string text = fmt::format("tw_swizzle<{}>({})", bytes, operand(to_expr(inside)));
    return {behind.is_constant() ? text : fmt::format("{} + {}", text, terms(behind)), behind.constant};
  }

  // A sum without its constant; empty where that is all.
  std::string terms(Sum sum) const {
    sum.constant = 0;
    return sum.is_constant() ? "" : operand(to_expr(sum));
  }

  std::string text_of(const CudaOffset& offset) const {
    if (offset.varying.empty()) return whole(offset.constant);
    if (offset.constant == 0) return offset.varying;
    return fmt::format("{} {} {}", offset.varying, offset.constant < 0 ? "-" : "+", whole(std::abs(offset.constant)));
  }

  const CudaNames::Array& array_of(const std::string& buffer) const {
    const auto found = names_.buffers.find(buffer);
    TW_CHECK(found != names_.buffers.end(), "unknown buffer {}", buffer);
    return found->second;
  }

 private:
  const std::string& lane() const {
    TW_CHECK(!lane_.empty(), "a vector outside a loop over its lanes");
    return lane_;
  }

  // 16-bit floats are stored as bits: arithmetic takes their values.
  static std::string number(const Expr& e, const std::string& text) {
    const DataType type = e.type().element();
    return type.is_half() ? fmt::format("tw_{}_to_f32({})", to_string(type), text) : text;
  }

  static std::string rounded(const Expr& e, const std::string& text) {
    const DataType type = e.type().element();
    return type.is_half() ? fmt::format("tw_f32_to_{}({})", to_string(type), text) : text;
  }

  std::string lane_of(const std::string& name, const Expr& e) const {
    return e.type().is_vector() ? fmt::format("{}.v[{}]", name, lane()) : name;
  }

  std::string whole(int64_t value) const {
    return names_.narrow ? fmt::format("{}", value) : fmt::format("{}LL", value);
  }

  std::string immediate(const Expr& e, Use use) const {
    const DataType type = e.type().element();
    if (e.op() == Op::kIntImm) {
      if (type.is_bool()) return e->value ? "true" : "false";
      if (e->value == INT64_MIN) return "(-9223372036854775807LL - 1)";
      if (use == Use::kIndex) return e->value < 0 ? fmt::format("({})", whole(e->value)) : whole(e->value);
      return fmt::format("({})({}LL)", cuda_type(type), e->value);
    }
    if (type == DataType::f32())
      return fmt::format("__int_as_float(0x{:08x})", std::bit_cast<uint32_t>(static_cast<float>(e->number)));
    if (type == DataType::f64())
      return fmt::format("__longlong_as_double(0x{:016x}LL)", std::bit_cast<uint64_t>(e->number));
    return fmt::format("(unsigned short)0x{:04x}",
                       type == DataType::f16() ? f16_bits(e->number) : bf16_bits(e->number));
  }

  std::string variable(const Expr& e, Use use) const {
    const auto found = names_.variables.find(e->name);
    TW_CHECK(found != names_.variables.end(), "unknown variable {}", e->name);
    const std::string text = lane_of(found->second, e);
    return use == Use::kData && names_.narrow && e.type() == DataType::i64() ? "(long long)" + text : text;
  }

  std::string load(const Expr& e) const {
    std::vector<Expr> indices = e->args;
    if (!e->predicated) return element(e->name, indices);
    const Expr predicate = indices.back();
    indices.pop_back();
    return fmt::format("({} ? {} : ({})0)", write(predicate, Use::kData), element(e->name, indices),
                       cuda_type(e.type().element()));
  }

  // Of numbers that are not negative, C++'s division is the floor's.
  std::string division(const Expr& e, Use use) const {
    const bool quotient = e.op() == Op::kFloorDiv;
    const std::string a = write(e.arg(0), use), b = write(e.arg(1), use);
    const bool plain =
        use == Use::kIndex && names_.ranges.bounds(e.arg(0)).lo >= 0 && names_.ranges.bounds(e.arg(1)).lo > 0;
    if (!plain) return fmt::format("{}({}, {})", quotient ? "tw_floor_div" : "tw_floor_mod", a, b);
    if (!names_.narrow) return fmt::format("({} {} {})", a, quotient ? "/" : "%", b);
    return fmt::format("int(unsigned({}) {} unsigned({}))", a, quotient ? "/" : "%", b);
  }

  static const char* suffix(const Expr& e) { return e.type().element() == DataType::f32() ? "f" : ""; }
  // Whether it is an operation of kWrapping; such an operation, modulo the range.
  static bool leaves_range(const Expr& e);
  static std::string wrapping(const Expr& e, const std::string& a, const std::string& b);
  // Any other: of one operand where `b` is empty.
  static std::string operation(const Expr& e, const std::string& a, const std::string& b);
  static std::string cast(const Expr& e, const std::string& x);

  const CudaNames& names_;
  std::string lane_;
};

std::string Writer::cast(const Expr& e, const std::string& x) {
  const DataType from = e.arg(0).type().element();
  const DataType to = e.type().element();
  if (to.is_bool()) return fmt::format("({} != 0)", x);
  if (from.is_half() || to.is_half()) {
    TW_CHECK((from.is_half() ? to : from) == DataType::f32(), "a conversion from {} to {}", to_string(from),
             to_string(to));
    return fmt::format("tw_{}_to_{}({})", to_string(from), to_string(to), x);
  }
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

bool Writer::leaves_range(const Expr& e) {
  const DataType type = e.type().element();
  if (type.is_float() || type.is_bool()) return false;
  return find_text(kWrapping, e.op()) != nullptr && (e.op() != Op::kDiv || type.bits() < 32);
}

std::string Writer::wrapping(const Expr& e, const std::string& a, const std::string& b) {
  const DataType type = e.type().element();
  const std::string wide = type.bits() == 64 ? "(unsigned long long)" : "(unsigned)";
  const std::string text = fmt::format(fmt::runtime(find_text(kWrapping, e.op())), fmt::arg("a", a), fmt::arg("b", b),
                                       fmt::arg("wide", wide));
  return fmt::format("({})({})", cuda_type(type), text);
}

std::string Writer::operation(const Expr& e, const std::string& a, const std::string& b) {
  if (e.op() == Op::kCall) {
    TW_CHECK(!b.empty() || is_instruction(e->name), "function {} was not expanded", e->name);
    return fmt::format("tw_{}({}{}{})", e->name, a, b.empty() ? "" : ", ", b);
  }
  if (const char* text = find_text(kTexts, e.op()))
    return fmt::format(fmt::runtime(text), fmt::arg("a", a), fmt::arg("b", b), fmt::arg("f", suffix(e)));
  const std::string_view infix = infix_name(*e);
  if (infix.empty()) throw InternalError("no CUDA text for {}", to_string(e));
  return fmt::format("({} {} {})", a, infix, b);
}

}  // namespace

std::string cuda_type(DataType type) {
  // Of ScalarType, in its order; 16-bit floats are stored as bits.
  constexpr const char* kNames[] = {
      "bool",      "signed char",        "unsigned char",  "short",          "unsigned short", "int",   "unsigned",
      "long long", "unsigned long long", "unsigned short", "unsigned short", "float",          "double"};
  if (type.is_vector()) return fmt::format("tw_vec<{}, {}>", cuda_type(type.element()), type.lanes());
  return kNames[static_cast<size_t>(type.scalar())];
}

bool is_index(const Expr& e, const CudaNames& names) {
  using enum Op;
  constexpr Op kOps[] = {kIntImm, kVar, kAdd, kSub, kMul, kFloorDiv, kFloorMod, kMin, kMax, kNeg, kRamp, kBroadcast};
  bool index = e.type().element() == DataType::i64();
  if (!index) return false;
  visit(e, [&](const Expr& x) {
    index = index && x.type().element() == DataType::i64() && std::ranges::find(kOps, x.op()) != std::end(kOps) &&
            !(x.op() == Op::kVar && names.data.contains(x->name));
  });
  return index;
}

std::string cuda_variable_type(const Expr& e, const CudaNames& names) {
  return names.narrow && is_index(e, names) && !e.type().is_vector() ? "int" : cuda_type(e.type());
}

std::string cuda_expr(const Expr& e, const CudaNames& names, const std::string& lane) {
  return Writer(names, lane).write(e, Use::kData);
}

std::string cuda_index(const Expr& e, const CudaNames& names) { return Writer(names).operand(e); }

std::string cuda_element(const std::string& buffer, const std::vector<Expr>& indices, const CudaNames& names,
                         const std::string& lane) {
  return Writer(names, lane).element(buffer, indices);
}

CudaOffset cuda_offset(const std::string& buffer, const std::vector<Expr>& indices, const CudaNames& names) {
  const Writer writer(names);
  return writer.offset(writer.array_of(buffer), indices);
}

CudaOffset cuda_unswizzled_offset(const std::string& buffer, const std::vector<Expr>& indices, const CudaNames& names) {
  const Writer writer(names);
  return writer.offset(writer.array_of(buffer), indices, 0);
}

std::string cuda_vector(const std::string& buffer, DataType type, const std::vector<Expr>& indices,
                        const CudaNames& names) {
  const Writer writer(names);
  const CudaNames::Array& array = writer.array_of(buffer);
  const int lanes = type.lanes();
  if (array.in_registers || indices.empty() || (lanes & (lanes - 1)) != 0) return {};
  std::vector<Expr> first = indices;
  size_t innermost = indices.size() - 1;  // whose elements lie beside each other
  while (innermost > 0 && array.shape[innermost] == 1) --innermost;
  const Expr& last = indices[innermost];
  if (last.op() != Op::kRamp || !last.arg(1).is_int(1)) return {};
  first[innermost] = last.arg(0);
  const int64_t aligned = std::min<int64_t>(lanes, std::max(1, kAccessBytes / type.element().bytes()));
  const Shape strides = row_major_strides(array.shape);
  for (size_t d = 0; d < first.size(); ++d) {
    if (first[d].type().is_vector() || !is_multiple(first[d] * int_imm(strides[d]), aligned)) return {};
  }
  return fmt::format("*({}*)&{}[{}]", cuda_type(type), array.name, writer.text_of(writer.offset(array, first)));
}

}  // namespace tw::codegen
