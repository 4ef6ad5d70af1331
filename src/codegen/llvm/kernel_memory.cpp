// Loads, stores and addresses.
#include <llvm/IR/Constants.h>

#include <bit>
#include <numeric>

#include "codegen/llvm/kernel_emitter.h"
#include "support/error.h"

namespace tw::codegen::cpu {

KernelEmitter::Access KernelEmitter::access(const std::string& name, std::span<const Expr> indices, int lanes) {
  const BufferState& state = buffer(name);
  Access made{&state, linearise(state.info->shape, indices), state.info->type.with_lanes(lanes)};
  TW_CHECK(made.index.lanes == 1 || made.index.lanes == lanes, "kernel {}: access of {} with {} and {} lanes",
           kernel_.name, name, made.index.lanes, lanes);
  made.index.lanes = lanes;
  const bool in_registers = state.info->scope == loop::Scope::kRegister;
  TW_CHECK(!in_registers || made.index.is_constant(), "kernel {}: an index of the register buffer {} is no constant",
           kernel_.name, name);
  return made;
}

// ---- Loads.

Value* KernelEmitter::load(const Expr& e) {
  const size_t rank = e->args.size() - (e->predicated ? 1 : 0);
  const Access source = access(e->name, std::span(e->args).first(rank), e.type().lanes());
  Value* guard = nullptr;  // scalar condition
  Value* mask = nullptr;   // vector condition
  if (e->predicated) {
    const Expr& predicate = e->args.back();
    const Expr condition = predicate.op() == Op::kBroadcast ? predicate.arg(0) : predicate;
    if (!condition.is_int(1)) (condition.type().is_vector() ? mask : guard) = value(condition);
  }
  if (mask_ && !in_bounds(source)) {
    const auto lanes = ::llvm::cast<::llvm::FixedVectorType>(mask_->getType())->getNumElements();
    if (static_cast<int>(lanes) == source.type.lanes()) {
      mask = mask ? builder_.CreateAnd(mask_, mask) : mask_;
    } else {
      guard = guard ? builder_.CreateAnd(any_lane(mask_), guard) : any_lane(mask_);
    }
  }
  if (!guard) return load_masked(source, mask);
  return branch(
      guard, [&] { return load_masked(source, mask); },
      [&] { return ::llvm::Constant::getNullValue(value_type(context_, source.type)); });
}

// Lanes where `mask` (null: all hold) is false are not read and give 0.
Value* KernelEmitter::load_masked(const Access& source, Value* mask) {
  if (!source.type.is_vector()) return load_run(source, nullptr);
  if (!source.index.is_strided()) return gather(source, mask);
  switch (source.index.lane_stride) {
    case 0:
      return load_once(source, mask);
    case 1:
    case -1:
      return load_run(source, mask);
    default:
      return load_strided(source, mask);
  }
}

// Lanes at which a constant mask holds, all without a mask; nothing when the mask is no constant.
std::optional<std::vector<int>> KernelEmitter::known_lanes(Value* mask, int lanes) {
  std::vector<int> known;
  const auto* constant = mask ? ::llvm::dyn_cast<::llvm::Constant>(mask) : nullptr;
  if (mask && !constant) return std::nullopt;
  for (int lane = 0; lane < lanes; ++lane) {
    const ::llvm::Constant* holds = constant ? constant->getAggregateElement(static_cast<unsigned>(lane)) : nullptr;
    if (constant && !holds) return std::nullopt;
    if (!holds || !holds->isNullValue()) known.push_back(lane);
  }
  return known;
}

// On x86 cores the gather instruction takes two to three times as long as the loads it stands for: two that cover every
// second element, loads that neighbours share, or else one a lane.
Value* KernelEmitter::load_strided(const Access& source, Value* mask) {
  const std::optional<std::vector<int>> lanes = known_lanes(mask, source.type.lanes());
  if (!lanes) return gather(source, mask);
  if (Value* pair = load_every_second(source, *lanes)) return from_memory(builder_, source.type, pair);
  if (Value* shared = mask ? nullptr : column(source)) return shared;
  ::llvm::Type* type = memory_type(context_, source.type);
  ::llvm::Type* element = memory_type(context_, source.type.element());
  Value* loaded = mask ? static_cast<Value*>(::llvm::Constant::getNullValue(type)) : ::llvm::PoisonValue::get(type);
  for (const int lane : *lanes) {
    auto* one = builder_.CreateAlignedLoad(element, pointer(source, lane), alignment(source, lane));
    loaded = builder_.CreateInsertElement(loaded, tagged(source, one), static_cast<uint64_t>(lane));
  }
  return from_memory(builder_, source.type, loaded);
}

// Stride 2: one vector from the first lane's element, one that ends with the last lane's; between the two lie only
// elements of the buffer. Null where the lanes are too few for two vectors.
Value* KernelEmitter::load_every_second(const Access& source, const std::vector<int>& lanes) {
  const int64_t all = source.type.lanes();
  const auto width = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(all)));
  if (source.index.lane_stride != 2 || lanes.empty()) return nullptr;
  const int64_t span = 2 * (lanes.back() - lanes.front()) + 1;  // at most 2 * width - 1
  if (span < width) return nullptr;
  std::vector<int> order(static_cast<size_t>(all), static_cast<int>(2 * width - 1));
  for (const int lane : lanes) {
    const int64_t element = 2 * (lane - lanes.front());
    order[lane] = static_cast<int>(element < width ? element : element + 2 * width - span);
  }
  Access end = source;
  end.index.constant += span - width;
  ::llvm::Type* type = memory_type(context_, source.type.with_lanes(static_cast<int>(width)));
  const auto load = [&](const Access& at) {
    return tagged(at, builder_.CreateAlignedLoad(type, pointer(at, lanes.front()), alignment(at, lanes.front())));
  };
  Value* first = load(source);
  Value* loaded = builder_.CreateShuffleVector(first, load(end), order);
  if (static_cast<int64_t>(lanes.size()) == all) return loaded;
  // Lanes that are not read are 0.
  for (int lane = 0, at = 0; lane < all; ++lane) {
    const bool counts = at < static_cast<int>(lanes.size()) && lanes[at] == lane;
    at += counts ? 1 : 0;
    order[lane] = counts ? lane : static_cast<int>(all) + lane;
  }
  return builder_.CreateShuffleVector(loaded, ::llvm::Constant::getNullValue(loaded->getType()), order);
}

// One element for all lanes.
Value* KernelEmitter::load_once(const Access& source, Value* mask) {
  Access scalar = source;
  scalar.type = source.type.element();
  scalar.index.lanes = 1;
  const auto lanes = static_cast<unsigned>(source.type.lanes());
  if (!mask) return builder_.CreateVectorSplat(lanes, load_run(scalar, nullptr));
  ::llvm::Constant* zero = ::llvm::Constant::getNullValue(value_type(context_, scalar.type));
  Value* element = branch(
      any_lane(mask), [&] { return load_run(scalar, nullptr); }, [&] { return zero; });
  Value* splat = builder_.CreateVectorSplat(lanes, element);
  return builder_.CreateSelect(mask, splat, ::llvm::Constant::getNullValue(splat->getType()));
}

// A scalar, or consecutive elements in either direction.
Value* KernelEmitter::load_run(const Access& source, Value* mask) {
  const bool backwards = source.index.lane_stride == -1 && source.type.is_vector();
  const int64_t first = backwards ? source.type.lanes() - 1 : 0;
  ::llvm::Type* type = memory_type(context_, source.type);
  Value* address = pointer(source, first);
  Value* loaded = nullptr;
  if (mask && is_register(source)) {  // the buffer becomes values: whole vectors
    loaded = builder_.CreateAlignedLoad(type, address, alignment(source, first));
    loaded = builder_.CreateSelect(backwards ? reversed(mask) : mask, loaded, ::llvm::Constant::getNullValue(type));
  } else if (mask) {
    loaded = tagged(
        source, builder_.CreateMaskedLoad(type, address, alignment(source, first), backwards ? reversed(mask) : mask,
                                          ::llvm::Constant::getNullValue(type)));
  } else {
    loaded = tagged(source, builder_.CreateAlignedLoad(type, address, alignment(source, first)));
  }
  if (backwards) loaded = reversed(loaded);
  return from_memory(builder_, source.type, loaded);
}

Value* KernelEmitter::gather(const Access& source, Value* mask) {
  ::llvm::Type* type = memory_type(context_, source.type);
  const ::llvm::Align element(static_cast<uint64_t>(source.type.bytes()));
  if (!mask) mask = int_constant(context_, DataType::boolean().with_lanes(source.type.lanes()), 1);
  auto* loaded =
      builder_.CreateMaskedGather(type, lane_pointers(source), element, mask, ::llvm::Constant::getNullValue(type));
  return from_memory(builder_, source.type, tagged(source, loaded));
}

// ---- Stores.

// Lanes where `mask` (null: all hold) is false are not written.
void KernelEmitter::store_masked(const Access& target, Value* stored, Value* mask) {
  stored = to_memory(builder_, target.type, stored);
  const bool run = target.index.is_strided() && (target.index.lane_stride == 1 || target.index.lane_stride == -1);
  if (target.type.is_vector() && !run) return scatter(target, stored, mask);
  const bool backwards = target.type.is_vector() && target.index.lane_stride == -1;
  const int64_t first = backwards ? target.type.lanes() - 1 : 0;
  if (backwards) {
    stored = reversed(stored);
    if (mask) mask = reversed(mask);
  }
  Value* address = pointer(target, first);
  if (mask && is_register(target)) {
    Value* kept = builder_.CreateAlignedLoad(stored->getType(), address, alignment(target, first));
    builder_.CreateAlignedStore(builder_.CreateSelect(mask, stored, kept), address, alignment(target, first));
  } else if (mask) {
    tagged(target, builder_.CreateMaskedStore(stored, address, alignment(target, first), mask));
  } else {
    tagged(target, builder_.CreateAlignedStore(stored, address, alignment(target, first)));
  }
}

void KernelEmitter::scatter(const Access& target, Value* stored, Value* mask) {
  const ::llvm::Align element(static_cast<uint64_t>(target.type.bytes()));
  if (!mask) mask = int_constant(context_, DataType::boolean().with_lanes(target.type.lanes()), 1);
  tagged(target, builder_.CreateMaskedScatter(stored, lane_pointers(target), element, mask));
}

Value* KernelEmitter::reversed(Value* vector) {
  const auto lanes = ::llvm::cast<::llvm::FixedVectorType>(vector->getType())->getNumElements();
  std::vector<int> order(lanes);
  std::iota(order.rbegin(), order.rend(), 0);
  return builder_.CreateShuffleVector(vector, order);
}

// ---- Addresses.

// base + variable * bytes, placed where the variable becomes known.
Value* KernelEmitter::offset_by(Value* base, Value* variable, int64_t bytes) {
  Value* distance = builder_.CreateMul(variable, builder_.getInt64(static_cast<uint64_t>(bytes)), "", /*HasNUW=*/false,
                                       /*HasNSW=*/true);
  return builder_.CreateGEP(builder_.getInt8Ty(), base, distance);
}

// Address of lane `first_lane` of a strided access. Not inbounds: the variable part alone may point outside.
Value* KernelEmitter::pointer(const Access& target, int64_t first_lane) {
  const int64_t bytes = target.type.bytes();
  struct Known {
    Variable variable;
    int64_t scale;
  };
  std::vector<Known> known;
  std::vector<LinearTerm> others;
  for (const LinearTerm& term : target.index.terms) {
    const bool is_counter = term.atom.is_var() && term.atom.type() == DataType::i64();
    if (is_counter) {
      TW_CHECK(variables_.contains(term.atom->name), "kernel {}: unknown variable {}", kernel_.name, term.atom->name);
      known.push_back({variables_.at(term.atom->name), term.scale * bytes});
    } else {
      others.push_back(term);
    }
  }
  std::ranges::stable_sort(known, {}, [](const Known& k) { return k.variable.depth; });
  Value* address = target.buffer->base;
  for (const Known& k : known) {
    AddressScope& scope = scopes_[k.variable.depth];
    Value*& cached = scope.offsets[{address, k.variable.value, k.scale}];
    if (!cached) {
      Builder::InsertPointGuard guard(builder_);
      builder_.SetInsertPoint(scope.header->getTerminator());
      cached = offset_by(address, k.variable.value, k.scale);
    }
    address = cached;
  }
  for (const LinearTerm& term : others) {
    Value* atom = emit_cast(builder_, DataType::i64(), term.atom.type(), value(term.atom));
    address = offset_by(address, atom, term.scale * bytes);
  }
  const int64_t displacement = (target.index.constant + first_lane * target.index.lane_stride) * bytes;
  if (displacement == 0) return address;
  return builder_.CreateConstGEP1_64(builder_.getInt8Ty(), address, static_cast<uint64_t>(displacement));
}

// One pointer a lane, as base + index * element size: the form of the gather instruction.
Value* KernelEmitter::lane_pointers(const Access& target) {
  const DataType i64 = DataType::i64().with_lanes(target.type.lanes());
  Value* index = nullptr;
  const auto add = [&](Value* x) { index = index ? builder_.CreateAdd(index, x) : x; };
  for (const LinearTerm& term : target.index.vectors) {
    Value* atom = emit_cast(builder_, i64, term.atom.type(), value(term.atom));
    add(term.scale == 1 ? atom : builder_.CreateMul(atom, int_constant(context_, i64, term.scale)));
  }
  if (target.index.lane_stride != 0 || !index) {
    add(builder_.CreateMul(lane_numbers(context_, i64), int_constant(context_, i64, target.index.lane_stride)));
  }
  return builder_.CreateGEP(memory_type(context_, target.type.element()), pointer(target), index);
}

// What the constants of the linear index prove.
::llvm::Align KernelEmitter::alignment(const Access& target, int64_t first_lane) const {
  const int64_t bytes = target.type.bytes();
  int64_t common = target.buffer->alignment;
  for (const LinearTerm& term : target.index.terms) common = std::gcd(common, term.scale * bytes);
  common = std::gcd(common, (target.index.constant + first_lane * target.index.lane_stride) * bytes);
  return ::llvm::Align(static_cast<uint64_t>(common & -common));
}

// Whether every lane is in the buffer for all values of the variables around.
bool KernelEmitter::in_bounds(const Access& target) const {
  if (is_register(target)) return true;
  __extension__ using Wide = __int128;
  Wide lo = target.index.constant;
  Wide hi = lo;
  const auto add = [&](Wide scale, const Interval& range) {
    lo += scale * (scale > 0 ? range.lo : range.hi);
    hi += scale * (scale > 0 ? range.hi : range.lo);
  };
  add(target.index.lane_stride, {0, target.type.lanes() - 1});
  for (const auto* terms : {&target.index.terms, &target.index.vectors}) {
    for (const LinearTerm& term : *terms) {
      const Interval range = analyzer_.bounds(term.atom);
      if (range.lo <= Interval::kMin || range.hi >= Interval::kMax) return false;
      add(term.scale, range);
    }
  }
  return lo >= 0 && hi < target.buffer->info->size();
}

}  // namespace tw::codegen::cpu
