// Every operation on every type and several lane counts, against the interpreter, special values included.
#include <fmt/format.h>

#include <algorithm>

#include "tests/codegen/llvm/harness.h"

namespace tw::codegen::cpu::testing {
namespace {

using loop::Buffer;
using loop::ForKind;
using loop::Kernel;
using loop::Memory;

constexpr int64_t kElements = 336;  // a multiple of every lane count below

const std::vector<DataType>& all_types() {
  static const std::vector<DataType> types = [] {
    std::vector<DataType> all;
    for (int s = 0; s <= static_cast<int>(ScalarType::kF64); ++s) all.emplace_back(static_cast<ScalarType>(s));
    return all;
  }();
  return types;
}

bool is_half(DataType type) { return type.is_float() && type.bits() == 16; }

class OpsTest : public ::testing::TestWithParam<std::tuple<DataType, int>> {
 protected:
  DataType type() const { return std::get<0>(GetParam()); }
  int lanes() const { return std::get<1>(GetParam()); }
  Expr index() const { return lanes() == 1 ? var("i") : ramp(var("i") * lanes(), 1, lanes()); }
  Expr in(const std::string& name) const { return load(name, type(), {index()}); }

  // OUT<n>[i] = value for all elements, as one kernel of the program.
  void add(const Expr& value, std::vector<Buffer> inputs) {
    const std::string out = fmt::format("OUT{}", program_.kernels.size());
    const DataType element = value.type().element();
    const bool narrow = value.type().lanes() != lanes();  // a reduction: one element for each vector
    inputs.push_back(param(out, element, {narrow ? kElements / lanes() : kElements}));
    Kernel kernel = make_kernel(fmt::format("k{}", program_.kernels.size()), std::move(inputs), {out},
                                {loop::make_for("i", kElements / lanes(), ForKind::kSerial,
                                                {loop::make_store(out, {narrow ? var("i") : index()}, value)})});
    memory_[out] = small_ints(element, kernel.params.back().shape, 9);
    program_.kernels.push_back(std::move(kernel));
  }
  void add_unary(Op op) { add(unary(op, in("A")), {param("A", type(), {kElements})}); }
  void add_binary(Op op, const std::string& right) {
    add(binary(op, in("A"), in(right)), {param("A", type(), {kElements}), param(right, type(), {kElements})});
  }
  void input(const std::string& name, loop::HostBuffer buffer) { memory_[name] = std::move(buffer); }

  void check() {
    program_.name = to_string(type().with_lanes(lanes()));
    std::vector<std::string> levels = {"x86-64-v3", "host"};
    // Halves need the F16C instructions, which the lowest level lacks, and fma is no part of it.
    if (!is_half(type()) && !uses_fma_) levels.insert(levels.begin(), "x86-64-v2");
    if (lanes() >= 8) levels.push_back("x86-64-v4");
    check_program(program_, memory_, levels);
  }

  loop::Program program_;
  Memory memory_;
  bool uses_fma_ = false;
};

// Suites by what the operations are defined on.
class AnyOps : public OpsTest {};
class NumberOps : public OpsTest {};
class IntOps : public OpsTest {};
class BoolOps : public OpsTest {};
class WideFloatOps : public OpsTest {};
class HalfOps : public OpsTest {};
class NumberVectorOps : public OpsTest {};
class IntVectorOps : public OpsTest {};

TEST_P(NumberOps, Arithmetic) {
  input("A", random_buffer(type(), {kElements}, 1));
  input("B", random_buffer(type(), {kElements}, 2));
  for (const Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kMin, Op::kMax, Op::kEq, Op::kNe, Op::kLt, Op::kLe})
    add_binary(op, "B");
  for (const Op op : {Op::kNeg, Op::kAbs}) add_unary(op);
  if (type().is_float()) {
    add_binary(Op::kDiv, "B");
    for (const Op op : {Op::kFloor, Op::kCeil, Op::kRound, Op::kTrunc}) add_unary(op);
    // Against constants: the short forms that rely on one side never being NaN.
    for (const Op op : {Op::kMin, Op::kMax}) {
      const Expr half = float_imm(0.5, type().with_lanes(lanes()));
      add(binary(op, in("A"), half), {param("A", type(), {kElements})});
      add(binary(op, half, in("A")), {param("A", type(), {kElements})});
    }
  } else {
    for (const Op op : {Op::kAnd, Op::kOr, Op::kXor}) add_binary(op, "B");
    add_unary(Op::kNot);
  }
  check();
}

TEST_P(IntOps, DivisionAndShifts) {
  const bool is_signed = type().is_signed_int();
  input("A", random_buffer(type(), {kElements}, 3));
  input("D", small_ints(type(), {kElements}, 4, 1, 11));
  input("N", small_ints(type(), {kElements}, 5, is_signed ? -11 : 3, is_signed ? -2 : 9));
  input("S", small_ints(type(), {kElements}, 6, 0, type().bits() - 1));
  for (const Op op : {Op::kDiv, Op::kFloorDiv, Op::kFloorMod}) {
    add_binary(op, "D");
    add_binary(op, "N");
    for (const int64_t divisor : {1, 3, 8, 64}) {
      add(binary(op, in("A"), int_imm(divisor, type().with_lanes(lanes()))), {param("A", type(), {kElements})});
    }
    if (!is_signed) continue;
    add(binary(op, in("A"), int_imm(-5, type().with_lanes(lanes()))), {param("A", type(), {kElements})});
  }
  add_binary(Op::kShiftLeft, "S");
  add_binary(Op::kShiftRight, "S");
  check();
}

TEST_P(BoolOps, BoolLogic) {
  input("A", random_buffer(type(), {kElements}, 1));
  input("B", random_buffer(type(), {kElements}, 2));
  for (const Op op : {Op::kAnd, Op::kOr, Op::kXor, Op::kEq, Op::kNe}) add_binary(op, "B");
  add_unary(Op::kNot);
  if (lanes() > 1) {
    for (const Op op : {Op::kReduceAnd, Op::kReduceOr})
      add(reduce_lanes(op, in("A")), {param("A", type(), {kElements})});
  }
  check();
}

TEST_P(WideFloatOps, FmaAndSqrt) {
  uses_fma_ = true;
  std::vector<Buffer> params;
  for (const char* name : {"A", "B", "C"}) {
    input(name, random_buffer(type(), {kElements}, static_cast<uint32_t>(*name)));
    params.push_back(param(name, type(), {kElements}));
  }
  add(fma(in("A"), in("B"), in("C")), params);
  add(fma(unary(Op::kNeg, in("A")), in("B"), unary(Op::kNeg, in("C"))), params);
  add(call("sqrt", {in("A")}), {params[0]});
  check();
}

TEST_P(HalfOps, Sqrt) {
  input("A", random_buffer(type(), {kElements}, 1));
  add(call("sqrt", {in("A")}), {param("A", type(), {kElements})});
  check();
}

TEST_P(AnyOps, SelectAndExtract) {
  input("A", random_buffer(type(), {kElements}, 1));
  input("B", random_buffer(type(), {kElements}, 2));
  input("P", random_buffer(DataType::boolean(), {kElements}, 3));
  const std::vector<Buffer> params = {param("A", type(), {kElements}), param("B", type(), {kElements}),
                                      param("P", DataType::boolean(), {kElements})};
  add(select(load("P", DataType::boolean(), {index()}), in("A"), in("B")), params);
  add(select(load("P", DataType::boolean(), {var("i")}), in("A"), in("B")), params);
  if (lanes() > 1) {
    add(extract(in("A"), lanes() - 1), {params[0]});
    add(broadcast(load("A", type(), {var("i")}), lanes()), {params[0]});
  }
  check();
}

TEST_P(AnyOps, CastToEveryType) {
  input("A", random_buffer(type(), {kElements}, 7));
  for (const DataType to : all_types()) {
    uses_fma_ = uses_fma_ || is_half(to);
    if (to != type()) add(cast(to, in("A")), {param("A", type(), {kElements})});
  }
  check();
}

TEST_P(AnyOps, BitcastToEveryTypeOfTheWidth) {
  input("A", random_buffer(type(), {kElements}, 8));
  for (const DataType to : all_types()) {
    const bool fits = to.bits() == type().bits() && to != type() && !to.is_bool();
    if (fits) add(bitcast(to, in("A")), {param("A", type(), {kElements})});
  }
  check();
}

TEST_P(NumberVectorOps, Reductions) {
  input("A", random_buffer(type(), {kElements}, 8));
  for (const Op op : {Op::kReduceAdd, Op::kReduceMul, Op::kReduceMin, Op::kReduceMax}) {
    add(reduce_lanes(op, in("A")), {param("A", type(), {kElements})});
  }
  if (!type().is_float()) {
    for (const Op op : {Op::kReduceAnd, Op::kReduceOr})
      add(reduce_lanes(op, in("A")), {param("A", type(), {kElements})});
  }
  check();
}

TEST_P(IntVectorOps, Ramps) {
  input("A", random_buffer(type(), {kElements}, 8));
  add(ramp(load("A", type(), {var("i")}), load("A", type(), {var("i") + 1}), lanes()),
      {param("A", type(), {kElements})});
  check();
}

bool is_number(DataType type) { return !type.is_bool(); }
bool is_int(DataType type) { return type.is_int(); }
bool is_bool(DataType type) { return type.is_bool(); }
bool is_wide_float(DataType type) { return type.is_float() && !is_half(type); }

std::vector<DataType> types_that(bool (*holds)(DataType)) {
  std::vector<DataType> types;
  std::ranges::copy_if(all_types(), std::back_inserter(types), holds);
  return types;
}

constexpr int kAllLanes[] = {1, 4, 7, 8, 16};
constexpr int kVectorLanes[] = {4, 7, 8, 16};

#define TW_OPS_OF(suite, types, lanes)                                                        \
  INSTANTIATE_TEST_SUITE_P(                                                                   \
      All, suite, ::testing::Combine(::testing::ValuesIn(types), ::testing::ValuesIn(lanes)), \
      [](const auto& info) { return to_string(std::get<0>(info.param).with_lanes(std::get<1>(info.param))); })
TW_OPS_OF(AnyOps, all_types(), kAllLanes);
TW_OPS_OF(NumberOps, types_that(is_number), kAllLanes);
TW_OPS_OF(IntOps, types_that(is_int), kAllLanes);
TW_OPS_OF(BoolOps, types_that(is_bool), kAllLanes);
TW_OPS_OF(WideFloatOps, types_that(is_wide_float), kAllLanes);
TW_OPS_OF(HalfOps, types_that(is_half), kAllLanes);
TW_OPS_OF(NumberVectorOps, types_that(is_number), kVectorLanes);
TW_OPS_OF(IntVectorOps, types_that(is_int), kVectorLanes);

}  // namespace
}  // namespace tw::codegen::cpu::testing
