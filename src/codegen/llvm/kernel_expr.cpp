// Expressions.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <cmath>

#include "codegen/llvm/kernel_emitter.h"
#include "expr/scalar.h"
#include "support/error.h"

namespace tw::codegen::cpu {

using ::llvm::BasicBlock;

namespace {

constexpr int kNanSearchDepth = 6;  // operands are shared: a search without bound could take exponential time

bool is_division(Op op) { return op == Op::kDiv || op == Op::kFloorDiv || op == Op::kFloorMod; }

bool never_nan(const Expr& e, int depth = kNanSearchDepth) {
  if (depth == 0) return false;
  if (e.op() == Op::kBroadcast || is_unary(e.op())) return never_nan(e.arg(0), depth - 1);
  switch (e.op()) {
    case Op::kFloatImm:
      return !std::isnan(e->number);
    case Op::kCast:
      return !e.arg(0).type().is_float() || never_nan(e.arg(0), depth - 1);
    case Op::kMin:
    case Op::kMax:
      return never_nan(e.arg(0), depth - 1) && never_nan(e.arg(1), depth - 1);
    case Op::kSelect:
      return never_nan(e.arg(1), depth - 1) && never_nan(e.arg(2), depth - 1);
    default:
      return false;
  }
}

bool is_constant(const Expr& e) {
  return e.op() == Op::kIntImm || (e.op() == Op::kBroadcast && e.arg(0).op() == Op::kIntImm);
}

}  // namespace

void KernelEmitter::begin_statement() {
  memo_.assign(1, {});
  guard_memo_.clear();
}

Value* KernelEmitter::value(const Expr& e) {
  for (auto scope = memo_.rbegin(); scope != memo_.rend(); ++scope) {
    const auto it = scope->find(&*e);
    if (it != scope->end()) return it->second;
  }
  Value* computed = compute(e);
  memo_.back().emplace(&*e, computed);
  return computed;
}

Value* KernelEmitter::compute(const Expr& e) {
  if (is_unary(e.op())) return emit_unary(builder_, e.op(), e.type(), value(e.arg(0)));
  switch (e.op()) {
    case Op::kIntImm:
    case Op::kFloatImm:
      return immediate(context_, *e);
    case Op::kVar: {
      const auto it = variables_.find(e->name);
      TW_CHECK(it != variables_.end(), "kernel {}: unknown variable {}", kernel_.name, e->name);
      return it->second.value;
    }
    case Op::kFma: {
      Value* a = value(e.arg(0));
      Value* b = value(e.arg(1));
      if (e.type().scalar() == ScalarType::kF64 && !level_.has("fma"))
        return emit_fma_by_parts(builder_, a, b, value(e.arg(2)));
      return emit_fma(builder_, e.type(), a, b, value(e.arg(2)));
    }
    case Op::kSelect:
      return select(e);
    case Op::kCast:
      return emit_cast(builder_, e.type(), e.arg(0).type(), value(e.arg(0)));
    case Op::kBitcast:
      return emit_bitcast(builder_, e.type(), e.arg(0).type(), value(e.arg(0)));
    case Op::kCall:
      TW_CHECK(e->name == "sqrt", "kernel {}: the call of {} is not expanded", kernel_.name, e->name);
      return emit_sqrt(builder_, e.type(), value(e.arg(0)));
    case Op::kLoad:
      return load(e);
    default:
      return is_binary(e.op()) ? binary(e) : compute_vector(e);
  }
}

Value* KernelEmitter::compute_vector(const Expr& e) {
  const auto lanes = static_cast<unsigned>(e.type().lanes());
  switch (e.op()) {
    case Op::kBroadcast:
      return builder_.CreateVectorSplat(lanes, value(e.arg(0)));
    case Op::kRamp: {
      Value* base = builder_.CreateVectorSplat(lanes, value(e.arg(0)));
      Value* stride = builder_.CreateVectorSplat(lanes, value(e.arg(1)));
      return builder_.CreateAdd(base, builder_.CreateMul(stride, lane_numbers(context_, e.type())));
    }
    case Op::kExtract:
      return builder_.CreateExtractElement(value(e.arg(0)), static_cast<uint64_t>(e->value));
    default:
      return emit_reduce(builder_, e.op(), e.arg(0).type(), value(e.arg(0)));
  }
}

// A product of words, or a sum and such a product; null for everything else, and where the level has no instruction.
Value* KernelEmitter::word_product(const Expr& e) {
  if (e.op() != Op::kAdd) return nullptr;
  const auto emit = [&](const Expr& product, const Expr& sum) -> Value* {
    const std::optional<WordOperands> words = match_word_product(product);
    if (!words) return nullptr;
    Value* a = value(words->a);
    Value* b = value(words->b);
    return emit_word_product(builder_, level_, words->format, a, b, sum ? value(sum) : nullptr);
  };
  if (Value* product = emit(e, {})) return product;
  if (Value* sum = emit(e.arg(1), e.arg(0))) return sum;
  return emit(e.arg(0), e.arg(1));
}

Value* KernelEmitter::binary(const Expr& e) {
  const DataType type = e.arg(0).type();
  if (Value* compared = lane_comparison(e)) return compared;
  if (Value* sum = word_product(e)) return sum;
  Value* a = value(e.arg(0));
  Value* b = value(e.arg(1));
  OperandFacts facts;
  if (e.op() == Op::kMin || e.op() == Op::kMax) {
    facts.a_never_nan = type.is_float() && never_nan(e.arg(0));
    facts.b_never_nan = type.is_float() && never_nan(e.arg(1));
  }
  if (is_division(e.op()) && type.is_signed_int()) facts.a_not_negative = analyzer_.bounds(e.arg(0)).lo >= 0;
  if (mask_ && is_division(e.op()) && type.is_int() && !is_constant(e.arg(1))) {
    // Lanes that do not count may divide by zero.
    const auto lanes = ::llvm::cast<::llvm::FixedVectorType>(mask_->getType())->getNumElements();
    Value* counts = static_cast<int>(lanes) == type.lanes() ? mask_ : any_lane(mask_);
    b = builder_.CreateSelect(counts, b, int_constant(context_, type, 1));
  }
  return emit_binary(builder_, e.op(), type, a, b, facts);
}

// base + lane < bound and the like, the masks of loop tails: compares the lane's number with one clamped scalar instead
// of two 64-bit vectors. Null for everything else.
Value* KernelEmitter::lane_comparison(const Expr& e) {
  const DataType type = e.arg(0).type();
  const bool orders = e.op() == Op::kLt || e.op() == Op::kLe;
  if (!orders || !type.is_vector() || type.scalar() != ScalarType::kI64) return nullptr;
  const std::vector<Expr> difference = {e.arg(1) - e.arg(0)};
  const LinearIndex linear = linearise({1}, difference);  // b - a = scalar + lane_stride * lane
  if (!linear.is_strided() || (linear.lane_stride != 1 && linear.lane_stride != -1)) return nullptr;
  Value* scalar = builder_.getInt64(static_cast<uint64_t>(linear.constant));
  for (const LinearTerm& term : linear.terms) {
    Value* atom = emit_cast(builder_, DataType::i64(), term.atom.type(), value(term.atom));
    scalar = builder_.CreateAdd(scalar, builder_.CreateMul(atom, builder_.getInt64(static_cast<uint64_t>(term.scale))));
  }
  // Falling: scalar - lane > 0 where lane < scalar (>= 0: lane < scalar + 1).
  // Rising: scalar + lane > 0 where not lane < 1 - scalar (>= 0: not lane < -scalar).
  const bool falls = linear.lane_stride == -1;
  const bool adds_one = falls == (e.op() == Op::kLe);
  Value* limit = falls ? scalar : builder_.CreateNeg(scalar);
  if (adds_one) limit = builder_.CreateAdd(limit, builder_.getInt64(1));
  if (const auto* known = ::llvm::dyn_cast<::llvm::ConstantInt>(limit)) {  // the builder folds no intrinsic
    limit = builder_.getInt64(static_cast<uint64_t>(std::clamp<int64_t>(known->getSExtValue(), 0, type.lanes())));
  } else {
    limit = builder_.CreateBinaryIntrinsic(::llvm::Intrinsic::smax, limit, builder_.getInt64(0));
    limit = builder_.CreateBinaryIntrinsic(::llvm::Intrinsic::smin, limit,
                                           builder_.getInt64(static_cast<uint64_t>(type.lanes())));
  }
  Value* limits = builder_.CreateVectorSplat(static_cast<unsigned>(type.lanes()),
                                             builder_.CreateTrunc(limit, builder_.getInt32Ty()));
  ::llvm::Constant* numbers = lane_numbers(context_, DataType::i32().with_lanes(type.lanes()));
  return falls ? builder_.CreateICmpULT(numbers, limits) : builder_.CreateICmpUGE(numbers, limits);
}

// ---- Selects and what they protect.

Value* KernelEmitter::select(const Expr& e) {
  const Expr condition = e.arg(0).op() == Op::kBroadcast ? e.arg(0).arg(0) : e.arg(0);
  const Expr& then = e.arg(1);
  const Expr& otherwise = e.arg(2);
  const bool guard_then = needs_guard(then);
  const bool guard_otherwise = needs_guard(otherwise);
  Value* picks = value(condition);
  if (!condition.type().is_vector() && (guard_then || guard_otherwise)) {
    return branch(
        picks, [&] { return value(then); }, [&] { return value(otherwise); });
  }
  Value* first = guard_then ? under_mask(picks, [&] { return value(then); }) : value(then);
  Value* second =
      guard_otherwise ? under_mask(builder_.CreateNot(picks), [&] { return value(otherwise); }) : value(otherwise);
  return builder_.CreateSelect(picks, first, second);
}

Value* KernelEmitter::branch(Value* condition, const Emit& then, const Emit& otherwise) {
  BasicBlock* blocks[2] = {new_block("pick"), new_block("skip")};
  BasicBlock* after = new_block("picked");
  builder_.CreateCondBr(condition, blocks[0], blocks[1]);
  std::pair<Value*, BasicBlock*> results[2];
  for (int i : {0, 1}) {
    builder_.SetInsertPoint(blocks[i]);
    memo_.emplace_back();
    Value* result = i == 0 ? then() : otherwise();
    memo_.pop_back();
    results[i] = {result, builder_.GetInsertBlock()};
    builder_.CreateBr(after);
  }
  builder_.SetInsertPoint(after);
  auto* merged = builder_.CreatePHI(results[0].first->getType(), 2);
  for (const auto& [result, block] : results) merged->addIncoming(result, block);
  return merged;
}

Value* KernelEmitter::under_mask(Value* mask, const Emit& emit) {
  Value* outer = mask_;
  const bool same_lanes = outer && outer->getType() == mask->getType();
  if (same_lanes) {
    mask_ = builder_.CreateAnd(outer, mask);
  } else {
    mask_ = outer
                ? builder_.CreateAnd(mask, builder_.CreateVectorSplat(
                                               ::llvm::cast<::llvm::FixedVectorType>(mask->getType())->getNumElements(),
                                               any_lane(outer)))
                : mask;
  }
  memo_.emplace_back();
  Value* result = emit();
  memo_.pop_back();
  mask_ = outer;
  return result;
}

Value* KernelEmitter::any_lane(Value* mask) { return builder_.CreateOrReduce(mask); }

// Whether evaluating e where it is not picked could fault: a load that may lie outside its buffer, or an integer
// division by what is no constant.
bool KernelEmitter::needs_guard(const Expr& e) {
  const auto known = guard_memo_.find(&*e);
  if (known != guard_memo_.end()) return known->second;
  const bool needed = find_needs_guard(e);
  guard_memo_.emplace(&*e, needed);
  return needed;
}

bool KernelEmitter::find_needs_guard(const Expr& e) {
  if (is_division(e.op()) && e.type().is_int() && !is_constant(e.arg(1))) return true;
  for (const Expr& arg : e->args) {
    if (needs_guard(arg)) return true;
  }
  if (e.op() != Op::kLoad) return false;
  const size_t rank = e->args.size() - (e->predicated ? 1 : 0);
  // The predicate says which lanes are read when the load is performed, not whether it is.
  return !in_bounds(access(e->name, std::span(e->args).first(rank), e.type().lanes()));
}

}  // namespace tw::codegen::cpu
