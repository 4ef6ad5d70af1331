#include "loop/expr_verifier.h"

#include "expr/elementary.h"

namespace tw::loop {
namespace {

void require_args(const ExprNode& e, size_t count) {
  if (e.args.size() == count) return;
  throw BrokenRule{fmt::format("an operation with {} operands has {}", count, e.args.size()), false};
}

void require_same_types(const ExprNode& e) {
  const DataType type = e.args[0].type();
  for (const Expr& arg : e.args) {
    TW_RULE(arg.type() == type, "operands of one operation are {} and {}", to_string(type), to_string(arg.type()));
  }
}

// Whether the value is known when code is generated: an immediate, or a vector made of immediates.
bool is_constant_index(const Expr& e) {
  if (e.op() == Op::kIntImm) return true;
  const bool is_vector = e.op() == Op::kRamp || e.op() == Op::kBroadcast;
  return is_vector && std::ranges::all_of(e->args, is_constant_index);
}

// Whether the value tells nothing but a thread and a place in a step of matrices.
bool is_place_index(const Expr& e, const NamesInScope& names) {
  bool only_places = !e.type().is_vector();
  const auto is_place = [&](const std::string& name) {
    return names.thread_vars.contains(name) || names.matrix_vars.contains(name);
  };
  visit(e,
        [&](const Expr& x) { only_places = only_places && x.op() != Op::kLoad && (!x.is_var() || is_place(x->name)); });
  return only_places;
}

bool is_division(Op op) { return op == Op::kFloorDiv || op == Op::kFloorMod; }

}  // namespace

void ExprVerifier::check(const Expr& e) {
  TW_RULE(bool(e), "a missing operand");
  if (!done_.insert(&*e).second) return;
  for (const Expr& arg : e->args) check(arg);
  node(e);
}

const Buffer& ExprVerifier::check_access(const std::string& name, const std::vector<Expr>& indices) {
  const auto it = names_.buffers.find(name);
  TW_RULE(it != names_.buffers.end(), "unknown buffer {}", name);
  const Buffer& buffer = *it->second;
  TW_RULE(indices.size() == buffer.shape.size(), "{} indices for {} of rank {}", indices.size(), name,
          buffer.shape.size());
  for (const Expr& index : indices) check(index);
  const int lanes = lanes_of(indices);
  for (const Expr& index : indices) {
    const DataType type = index.type();
    TW_RULE(type.is_int(), "index {} of {} is {}", to_string(index), name, to_string(type));
    TW_RULE(!type.is_vector() || type.lanes() == lanes, "indices of {} have {} and {} lanes", name, type.lanes(),
            lanes);
    const bool must_be_constant = rules_.register_constant_indices && buffer.scope == Scope::kRegister;
    TW_RULE(!must_be_constant || is_constant_index(index) || is_place_index(index, names_),
            "index {} of the register buffer {} is no constant", to_string(index), name);
  }
  return buffer;
}

void ExprVerifier::check_predicate(const Expr& predicate, int lanes) {
  check(predicate);
  const DataType type = predicate.type();
  TW_RULE(type.is_bool(), "condition {} is {}", to_string(predicate), to_string(type));
  TW_RULE(type.lanes() == 1 || type.lanes() == lanes, "a condition of {} lanes for {}", type.lanes(), lanes);
}

void ExprVerifier::node(const Expr& e) {
  if (is_binary(e.op())) return binary(*e);
  if (is_unary(e.op())) return unary(*e);
  switch (e.op()) {
    case Op::kIntImm:
      return TW_RULE(!e.type().is_float() && !e.type().is_vector(), "an integer immediate is {}", to_string(e.type()));
    case Op::kFloatImm:
      return TW_RULE(e.type().is_float() && !e.type().is_vector(), "a float immediate is {}", to_string(e.type()));
    case Op::kVar: {
      const auto it = names_.vars.find(e->name);
      TW_RULE(it != names_.vars.end(), "unknown variable {}", e->name);
      return TW_RULE(it->second == e.type(), "variable {} is {}, used as {}", e->name, to_string(it->second),
                     to_string(e.type()));
    }
    case Op::kFma:
      require_args(*e, 3);
      require_same_types(*e);
      return TW_RULE(e.type() == e.arg(0).type() && e.type().is_float(), "fma of {}", to_string(e.arg(0).type()));
    case Op::kSelect:
      return select(*e);
    case Op::kCast:
    case Op::kBitcast:
      return conversion(*e);
    case Op::kCall:
      return call(*e);
    case Op::kLoad:
      return load(e);
    default:
      return vector_node(*e);
  }
}

void ExprVerifier::binary(const ExprNode& e) {
  require_args(e, 2);
  require_same_types(e);
  const DataType type = e.args[0].type();
  const DataType result = is_comparison(e.op) ? DataType::boolean().with_lanes(type.lanes()) : type;
  TW_RULE(e.type == result, "an operation on {} gives {}", to_string(type), to_string(e.type));
  if (is_comparison(e.op)) return;
  const bool logical = e.op == Op::kAnd || e.op == Op::kOr || e.op == Op::kXor;
  const bool integers_only = is_division(e.op) || e.op == Op::kShiftLeft || e.op == Op::kShiftRight;
  TW_RULE(logical || !type.is_bool(), "arithmetic on {}", to_string(type));
  TW_RULE(!logical || !type.is_float(), "a bit operation on {}", to_string(type));
  TW_RULE(!integers_only || type.is_int(), "a floor division or shift on {}", to_string(type));
}

void ExprVerifier::unary(const ExprNode& e) {
  require_args(e, 1);
  require_same_types(e);
  TW_RULE(e.type == e.args[0].type(), "an operation on {} gives {}", to_string(e.args[0].type()), to_string(e.type));
  TW_RULE(!is_rounding(e.op) || e.type.is_float(), "rounding of {}", to_string(e.type));
  TW_RULE(e.op != Op::kNot || !e.type.is_float(), "not of {}", to_string(e.type));
  TW_RULE(e.op == Op::kNot || !e.type.is_bool(), "arithmetic on {}", to_string(e.type));
}

void ExprVerifier::select(const ExprNode& e) {
  require_args(e, 3);
  check_predicate(e.args[0], e.type.lanes());
  for (size_t i : {1, 2}) {
    TW_RULE(e.args[i].type() == e.type, "a select of {} gives {}", to_string(e.args[i].type()), to_string(e.type));
  }
}

void ExprVerifier::conversion(const ExprNode& e) {
  require_args(e, 1);
  const DataType from = e.args[0].type();
  TW_RULE(from.lanes() == e.type.lanes(), "a conversion of {} to {}", to_string(from), to_string(e.type));
  const bool fits = e.op == Op::kCast || from.bits() == e.type.bits();
  TW_RULE(fits, "a bitcast of {} to {}", to_string(from), to_string(e.type));
}

void ExprVerifier::call(const ExprNode& e) {
  const ElementaryFunction* function = find_elementary(e.name);
  TW_RULE(function != nullptr, "unknown elementary function {}", e.name);
  require_args(e, static_cast<size_t>(function->arity));
  require_same_types(e);
  const bool fits = e.name == kPhilox ? e.type.scalar() == ScalarType::kU32 : e.type.is_float();
  TW_RULE(fits && e.type == e.args[0].type(), "{} of {} gives {}", e.name, to_string(e.args[0].type()),
          to_string(e.type));
  TW_RULE(!rules_.no_elementary_calls || is_instruction(e.name), "the call of {} is not expanded", e.name);
}

void ExprVerifier::load(const Expr& e) {
  std::vector<Expr> indices = e->args;
  const bool complete = !e->predicated || !indices.empty();
  if (!complete) throw BrokenRule{fmt::format("a load of {} without its predicate", e->name), false};
  int lanes = 1;
  if (e->predicated) {
    lanes = indices.back().type().lanes();
    indices.pop_back();
  }
  const Buffer& buffer = check_access(e->name, indices);
  lanes = std::max(lanes, lanes_of(indices));
  const DataType expected = buffer.type.with_lanes(lanes);
  TW_RULE(e.type() == expected, "a load of {} from {} is {}", to_string(expected), e->name, to_string(e.type()));
  const bool vectors_agree = lanes_of(indices) == 1 || lanes_of(indices) == lanes;
  TW_RULE(vectors_agree, "indices of {} have {} lanes, the predicate {}", e->name, lanes_of(indices), lanes);
  if (e->predicated) check_predicate(e->args.back(), lanes);
}

void ExprVerifier::vector_node(const ExprNode& e) {
  const bool is_ramp = e.op == Op::kRamp;
  require_args(e, is_ramp ? 2 : 1);
  require_same_types(e);
  const DataType from = e.args[0].type();
  const std::string shown = to_string(from);
  TW_RULE(from.scalar() == e.type.scalar(), "a vector operation on {} gives {}", shown, to_string(e.type));
  if (is_ramp || e.op == Op::kBroadcast) {
    TW_RULE(!from.is_vector() && e.type.is_vector(), "a vector of {} lanes made of {}", e.type.lanes(), shown);
    return TW_RULE(!is_ramp || from.is_int(), "a ramp of {}", shown);
  }
  TW_RULE(from.is_vector() && !e.type.is_vector(), "a reduction or extract of {} gives {}", shown, to_string(e.type));
  if (e.op == Op::kExtract) {
    return TW_RULE(e.value >= 0 && e.value < from.lanes(), "lane {} of {}", e.value, shown);
  }
  const bool logical = e.op == Op::kReduceAnd || e.op == Op::kReduceOr;
  TW_RULE(logical ? !from.is_float() : !from.is_bool(), "this reduction is not defined on {}", shown);
}

bool MovingDivision::moves(const Expr& e) {
  if (e.op() == Op::kLoad) return false;
  if (e.is_var()) return moving_.contains(e->name);
  if (const auto it = known_.find(&*e); it != known_.end()) return it->second;
  const bool found = std::ranges::any_of(e->args, [this](const Expr& arg) { return moves(arg); });
  known_.emplace(&*e, found);
  return found;
}

void MovingDivision::check(const Expr& e) {
  if (!checked_.insert(&*e).second) return;
  for (const Expr& arg : e->args) check(arg);
  TW_RULE(!is_division(e.op()) || !moves(e) || is_allowed(e.arg(1)), "{} divides the variable of an innermost loop",
          to_string(e));
}

bool MovingDivision::is_allowed(const Expr& divisor) const {
  const Expr& scalar = divisor.op() == Op::kBroadcast ? divisor.arg(0) : divisor;
  return scalar.op() == Op::kIntImm && scalar->value != 0 && allowed_ % scalar->value == 0;
}

void MovingDivision::bind(const std::string& var, const Expr& value) {
  known_.clear();
  checked_.clear();
  if (moves(value)) {
    moving_.insert(var);
  } else {
    moving_.erase(var);
  }
}

}  // namespace tw::loop
