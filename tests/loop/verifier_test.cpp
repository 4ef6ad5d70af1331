// Every rule of the verifier rejects a program that breaks it, and only then.
#include "tests/loop/helpers.h"

namespace tw::loop::test {
namespace {

Expr f32_one() { return float_imm(1.0); }
Expr node(Op op, DataType type, std::vector<Expr> args, int64_t value = 0, std::string name = {}) {
  return Expr(std::make_shared<const ExprNode>(ExprNode{op, type, value, 0, std::move(name), std::move(args)}));
}
Stmt raw(StmtNode stmt) { return Stmt(std::make_shared<const StmtNode>(std::move(stmt))); }

// A kernel with X: f32[4, 8], I: i64[4], B: bool[4] to read and Y: f32[4] to write; t is its tile variable.
Program with_body(std::vector<Stmt> body) {
  Kernel kernel;
  kernel.name = "k";
  kernel.params = {{"X", DataType::f32(), {4, 8}, Scope::kParam},
                   {"I", DataType::i64(), {4}, Scope::kParam},
                   {"B", DataType::boolean(), {4}, Scope::kParam},
                   {"Y", DataType::f32(), {4}, Scope::kParam}};
  kernel.written = {"Y"};
  kernel.tile_var = "t";
  kernel.tiles = 4;
  kernel.body = std::move(body);
  return {"p", {kernel}};
}

Stmt store_y(Expr value) { return make_store("Y", {var("t")}, std::move(value)); }

std::string rejection(std::vector<Stmt> body, const VerifyRules& rules = {}) {
  const Program program = with_body(std::move(body));
  return internal_error([&] { verify(program, rules); });
}

TEST(LoopVerifier, NamesTheKernelAndTheStatement) {
  const std::string message = rejection({make_for("i", 3, ForKind::kSerial, {make_store("Y", {var("j")}, f32_one())})});
  EXPECT_EQ(message, "kernel k: in 'Y[j] = 1:f32': unknown variable j");
}

TEST(LoopVerifier, Signature) {
  const auto broken = [](auto change) {
    Program program = with_body({});
    change(program.kernels[0]);
    return internal_error([&] { verify(program); });
  };
  EXPECT_CONTAINS(broken([](Kernel& k) { k.params[0].scope = Scope::kStack; }), "parameter X has the scope stack");
  EXPECT_CONTAINS(broken([](Kernel& k) { k.params[1].name = "X"; }), "buffer X is declared twice");
  EXPECT_CONTAINS(broken([](Kernel& k) { k.params[0].name = ""; }), "a buffer has no name");
  EXPECT_CONTAINS(broken([](Kernel& k) { k.params[0].shape = {4, -8}; }), "buffer X has the extent -8");
  EXPECT_CONTAINS(broken([](Kernel& k) { k.params[0].type = DataType::f32().with_lanes(4); }), "vector type f32x4");
  EXPECT_CONTAINS(broken([](Kernel& k) { k.written = {"Z"}; }), "'Z' is written but no parameter");
  EXPECT_CONTAINS(broken([](Kernel& k) { k.written = {"Y", "Y"}; }), "'Y' is twice among the written parameters");
  EXPECT_CONTAINS(broken([](Kernel& k) { k.tile_var = ""; }), "4 tiles without a tile variable");
  EXPECT_CONTAINS(broken([](Kernel& k) { k.tiles = -1; }), "-1 tiles");
  EXPECT_CONTAINS(broken([](Kernel& k) { k.units = 2, k.together = 0; }), "2 units, 0 tiles together");
  EXPECT_CONTAINS(broken([](Kernel& k) { k.tiles = k.cluster = 2, k.units = 3; }),
                  "3 units, 1 tiles together, in clusters of 2");
  EXPECT_CONTAINS(broken([](Kernel& k) { k.name = ""; }), "a kernel has no name");
  Program twice = with_body({});
  twice.kernels.push_back(twice.kernels[0]);
  EXPECT_CONTAINS(internal_error([&] { verify(twice); }), "kernel k: the name is used twice");
}

TEST(LoopVerifier, Declarations) {
  const auto loop = [](std::vector<Stmt> body) { return make_for("i", 3, ForKind::kSerial, std::move(body)); };
  EXPECT_CONTAINS(rejection({loop({loop({})})}), "variable i is declared twice");
  EXPECT_CONTAINS(rejection({make_for("t", 3, ForKind::kSerial, {})}), "variable t is declared twice");
  EXPECT_CONTAINS(rejection({loop({make_let("i", f32_one(), {})})}), "variable i is declared twice");
  EXPECT_NO_THROW(verify(with_body({loop({}), loop({})}))) << "one after the other";
  const Buffer a{"a", DataType::f32(), {2}, Scope::kStack};
  EXPECT_CONTAINS(rejection({make_allocate(a, {make_allocate(a, {})})}), "buffer a is declared twice");
  EXPECT_CONTAINS(rejection({make_allocate({"X", DataType::f32(), {2}, Scope::kStack}, {})}),
                  "buffer X is declared twice");
  EXPECT_NO_THROW(verify(with_body({make_allocate(a, {}), make_allocate(a, {})})));
  EXPECT_CONTAINS(rejection({make_allocate(a, {}), store_y(load("a", DataType::f32(), {0}))}), "unknown buffer a");
  EXPECT_CONTAINS(rejection({Stmt()}), "a null statement");
  StmtNode param;
  param.kind = StmtKind::kAllocate;
  param.allocated = {"a", DataType::f32(), {2}, Scope::kParam};
  EXPECT_CONTAINS(rejection({raw(param)}), "buffer a of scope param is allocated");
  StmtNode negative;
  negative.kind = StmtKind::kFor;
  negative.var = "i";
  negative.extent = -2;
  EXPECT_CONTAINS(rejection({raw(negative)}), "a loop of extent -2");
}

TEST(LoopVerifier, Stores) {
  const Expr t = var("t");
  EXPECT_CONTAINS(rejection({make_store("X", {t, 0}, f32_one())}), "the kernel does not list X as written");
  EXPECT_CONTAINS(rejection({make_store("Z", {t}, f32_one())}), "unknown buffer Z");
  EXPECT_CONTAINS(rejection({make_store("Y", {t, 0}, f32_one())}), "2 indices for Y of rank 1");
  EXPECT_CONTAINS(rejection({store_y(t)}), "the value is i64, the place f32");
  const Buffer a{"a", DataType::f32(), {4, 4}, Scope::kStack};
  EXPECT_NO_THROW(verify(with_body({make_allocate(a, {make_store("a", {t, ramp(0, 1, 4)}, f32_one())})})));
  EXPECT_NO_THROW(verify(with_body({make_allocate(a, {make_store("a", {ramp(0, 1, 4), t}, f32_one())})})));
  EXPECT_NO_THROW(verify(with_body({make_allocate(a, {make_store("a", {ramp(0, 1, 4), ramp(0, 1, 4)}, f32_one())})})));
  StmtNode uneven;
  uneven.kind = StmtKind::kStore;
  uneven.buffer = "a";
  uneven.indices = {ramp(0, 1, 2), ramp(0, 1, 4)};
  uneven.value = broadcast(f32_one(), 4);
  EXPECT_CONTAINS(rejection({make_allocate(a, {raw(uneven)})}), "indices of a have 2 and 4 lanes");
  StmtNode condition;
  condition.kind = StmtKind::kStore;
  condition.buffer = "Y";
  condition.indices = {t};
  condition.value = f32_one();
  condition.predicate = t;
  EXPECT_CONTAINS(rejection({raw(condition)}), "condition t is i64");
  condition.predicate = broadcast(int_imm(1, DataType::boolean()), 2);
  EXPECT_CONTAINS(rejection({raw(condition)}), "a condition of 2 lanes for 1");
  condition.predicate = Expr();
  condition.value = Expr();
  EXPECT_CONTAINS(rejection({raw(condition)}), "a store without a value");
}

TEST(LoopVerifier, OtherStatements) {
  StmtNode stmt;
  stmt.kind = StmtKind::kIf;
  EXPECT_CONTAINS(rejection({raw(stmt)}), "an if without a condition");
  stmt.predicate = var("t");
  EXPECT_CONTAINS(rejection({raw(stmt)}), "condition t is i64");
  StmtNode let;
  let.kind = StmtKind::kLet;
  let.var = "x";
  EXPECT_CONTAINS(rejection({raw(let)}), "a let without a value");
  const Buffer r{"r", DataType::f32(), {4}, Scope::kRegister};
  EXPECT_CONTAINS(rejection({make_allocate(r, {make_prefetch("r", {0}, 1)})}), "a prefetch of the register buffer r");
  EXPECT_CONTAINS(rejection({make_prefetch("X", {0}, 1)}), "1 indices for X of rank 2");
  StmtNode prefetch;
  prefetch.kind = StmtKind::kPrefetch;
  prefetch.buffer = "Y";
  prefetch.indices = {var("t")};
  EXPECT_CONTAINS(rejection({raw(prefetch)}), "a prefetch into cache level 0");
  prefetch.extent = 1;
  prefetch.indices = {ramp(0, 1, 4)};
  EXPECT_CONTAINS(rejection({raw(prefetch)}), "a prefetch of a vector of addresses");
}

TEST(LoopVerifier, Loads) {
  const DataType f32 = DataType::f32();
  EXPECT_CONTAINS(rejection({store_y(load("Z", f32, {0}))}), "unknown buffer Z");
  EXPECT_CONTAINS(rejection({store_y(load("X", f32, {0}))}), "1 indices for X of rank 2");
  EXPECT_CONTAINS(rejection({store_y(load("I", f32, {0}))}), "a load of i64 from I is f32");
  EXPECT_CONTAINS(rejection({store_y(load("Y", f32, {float_imm(0)}))}), "of Y is f32");
  EXPECT_CONTAINS(rejection({store_y(load_if("Y", f32, {0}, var("t")))}), "condition t is i64");
  EXPECT_CONTAINS(rejection({store_y(load("X", f32, {node(Op::kAdd, DataType::i64(), {var("t"), Expr()}), 0}))}),
                  "a missing operand");
  const Expr p2 = broadcast(int_imm(1, DataType::boolean()), 2);
  const Expr uneven = reduce_lanes(Op::kReduceAdd, load_if("Y", f32, {ramp(0, 1, 4)}, p2));
  EXPECT_CONTAINS(rejection({store_y(uneven)}), "a condition of 2 lanes for 4");
}

TEST(LoopVerifier, TypesOfOperations) {
  const DataType f32 = DataType::f32();
  const DataType b = DataType::boolean();
  const Expr x = f32_one();
  const Expr t = var("t");
  const Expr yes = int_imm(1, b);
  const Expr v = broadcast(x, 4);
  struct Case {
    Expr e;
    const char* message;
  };
  const Case cases[] = {
      {node(Op::kAdd, f32, {x, t}), "operands of one operation are f32 and i64"},
      {node(Op::kAdd, f32, {x}), "an operation with 2 operands has 1"},
      {node(Op::kAdd, f32, {t, t}), "an operation on i64 gives f32"},
      {node(Op::kAdd, b, {yes, yes}), "arithmetic on bool"},
      {node(Op::kAnd, f32, {x, x}), "a bit operation on f32"},
      {node(Op::kFloorDiv, f32, {x, x}), "a floor division or shift on f32"},
      {node(Op::kShiftLeft, f32, {x, x}), "a floor division or shift on f32"},
      {node(Op::kLt, f32, {x, x}), "an operation on f32 gives f32"},
      {node(Op::kFma, DataType::i64(), {t, t, t}), "fma of i64"},
      {node(Op::kFloor, DataType::i64(), {t}), "rounding of i64"},
      {node(Op::kNeg, b, {yes}), "arithmetic on bool"},
      {node(Op::kNot, f32, {x}), "not of f32"},
      {node(Op::kSelect, f32, {t, x, x}), "condition t is i64"},
      {node(Op::kSelect, f32, {yes, x, t}), "a select of i64 gives f32"},
      {node(Op::kCast, f32, {v}), "a conversion of f32x4 to f32"},
      {node(Op::kBitcast, f32, {t}), "a bitcast of i64 to f32"},
      {node(Op::kCall, f32, {x}, 0, "gamma"), "unknown elementary function gamma"},
      {node(Op::kCall, f32, {x, x}, 0, "exp"), "an operation with 1 operands has 2"},
      {node(Op::kCall, DataType::i64(), {t}, 0, "exp"), "exp of i64 gives i64"},
      {node(Op::kRamp, f32.with_lanes(4), {x, x}), "a ramp of f32"},
      {node(Op::kBroadcast, f32, {x}), "a vector of 1 lanes made of f32"},
      {node(Op::kReduceAdd, f32, {x}), "a reduction or extract of f32 gives f32"},
      {node(Op::kReduceAnd, f32, {v}), "this reduction is not defined on f32x4"},
      {node(Op::kReduceAdd, b, {broadcast(yes, 4)}), "this reduction is not defined on boolx4"},
      {node(Op::kExtract, f32, {v}, 4), "lane 4 of f32x4"},
      {node(Op::kIntImm, f32, {}), "an integer immediate is f32"},
      {node(Op::kFloatImm, DataType::i64(), {}), "a float immediate is i64"},
      {var("t", f32), "variable t is i64, used as f32"},
      {var("u", f32), "unknown variable u"},
  };
  for (const Case& c : cases) EXPECT_CONTAINS(rejection({make_let("x", c.e, {})}), c.message);
}

TEST(LoopVerifier, RulesAboutLoopKinds) {
  const auto loop = [](ForKind kind) { return make_for("i", 3, kind, {}); };
  const VerifyRules no_vectors{.no_vector_loops = true};
  const VerifyRules no_unrolled{.no_unrolled_loops = true};
  EXPECT_CONTAINS(rejection({loop(ForKind::kVectorized)}, no_vectors), "no vectorized loop may be left here");
  EXPECT_CONTAINS(rejection({loop(ForKind::kUnrolled)}, no_unrolled), "no unrolled loop may be left here");
  EXPECT_NO_THROW(verify(with_body({loop(ForKind::kUnrolled), loop(ForKind::kSerial)}), no_vectors));
  EXPECT_NO_THROW(verify(with_body({loop(ForKind::kVectorized), loop(ForKind::kSerial)}), no_unrolled));
}

TEST(LoopVerifier, ThreadsNestWithoutAnythingBetween) {
  const auto threads = [](const char* name, std::vector<Stmt> body) {
    return make_for(name, 4, ForKind::kThreads, std::move(body));
  };
  const Stmt store = make_store("Y", {var("i")}, f32_one());
  EXPECT_NO_THROW(verify(with_body({threads("j", {threads("i", {store})})})));
  EXPECT_NO_THROW(verify(with_body({make_for("k", 2, ForKind::kSerial, {threads("i", {store})})})));
  EXPECT_CONTAINS(rejection({threads("j", {make_for("k", 2, ForKind::kSerial, {threads("i", {store})})})}),
                  "a loop of threads among what one thread does");
  EXPECT_CONTAINS(rejection({threads("j", {make_store("Y", {var("j")}, f32_one()), threads("i", {store})})}),
                  "a loop of threads among what one thread does");
  EXPECT_CONTAINS(rejection({threads("i", {store}), make_store("Y", {0}, f32_one())}),
                  "a store that no thread does alone");
}

TEST(LoopVerifier, ARegisterOfAThread) {
  const Buffer r{"r", DataType::f32(), {4, 2}, Scope::kRegister};
  const auto with = [&](const Expr& index) {
    const Stmt store = make_store("r", {index, 1}, f32_one());
    return std::vector<Stmt>{
        make_allocate(r, {make_for("k", 2, ForKind::kSerial, {make_for("i", 4, ForKind::kThreads, {store})})})};
  };
  const VerifyRules constant{.register_constant_indices = true};
  EXPECT_NO_THROW(verify(with_body(with(var("i"))), constant));
  EXPECT_NO_THROW(verify(with_body(with(floor_div(var("i"), 2))), constant));
  EXPECT_CONTAINS(rejection(with(var("k")), constant), "is no constant");
  EXPECT_CONTAINS(rejection(with(floor_mod(var("i") + var("k"), 4)), constant), "is no constant");
}

TEST(LoopVerifier, NoDivisionOfAnInnermostVariable) {
  const VerifyRules rules{.inner_divisor = 1};
  const Expr i = var("i");
  const auto loop = [](std::vector<Stmt> body, ForKind kind = ForKind::kSerial) {
    return make_for("i", 4, kind, std::move(body));
  };
  const auto at = [](const Expr& index) { return make_store("Y", {index}, f32_one()); };
  const char* const message = "divides the variable of an innermost loop";
  EXPECT_CONTAINS(rejection({loop({at(floor_div(i, 2))})}, rules), message);
  EXPECT_CONTAINS(rejection({loop({at(floor_mod(i + var("t"), 2))})}, rules), message);
  EXPECT_CONTAINS(rejection({loop({make_let("j", i + 1, {at(floor_mod(var("j"), 2))})})}, rules), message);
  EXPECT_CONTAINS(rejection({loop({make_if(floor_div(i, 2) < 1, {})})}, rules), message);
  const Stmt unrolled = make_for("j", 2, ForKind::kUnrolled, {at(floor_mod(i, 2))});
  EXPECT_CONTAINS(rejection({loop({unrolled})}, rules), message);
  EXPECT_NO_THROW(verify(with_body({loop({at(floor_div(i, 2))})})));
  EXPECT_NO_THROW(verify(with_body({loop({at(floor_div(var("t"), 2))})}), rules)) << "does not move";
  const Stmt outer = loop({make_let("j", floor_div(i, 2), {make_for("n", 2, ForKind::kSerial, {at(var("j"))})})});
  EXPECT_NO_THROW(verify(with_body({outer}), rules)) << "not an innermost loop";
  EXPECT_NO_THROW(verify(with_body({loop({at(floor_div(i, 2))}, ForKind::kUnrolled)}), rules)) << "constants later";
  const Expr data = floor_mod(load("I", DataType::i64(), {i}), 3);
  EXPECT_NO_THROW(verify(with_body({loop({at(data)})}), rules)) << "data, not an index";
}

TEST(LoopVerifier, DivisionsOfAnInnermostVariableByWhatIsAllowed) {
  const auto loop = [](const Expr& index) {
    return make_for("i", 4, ForKind::kSerial, {make_store("Y", {index}, f32_one())});
  };
  const Expr i = var("i");
  const char* const message = "divides the variable of an innermost loop";
  const VerifyRules six{.inner_divisor = 6};
  for (const int64_t n : {1, 2, 3, 6}) EXPECT_NO_THROW(verify(with_body({loop(floor_mod(i, int_imm(n)))}), six)) << n;
  EXPECT_CONTAINS(rejection({loop(floor_mod(i, 4))}, six), message);
  EXPECT_CONTAINS(rejection({loop(floor_div(1, i + 1))}, six), message);
  const Expr lanes = floor_div(ramp(i, 1, 4), broadcast(int_imm(3), 4));
  const Stmt vector = make_for("i", 4, ForKind::kSerial, {make_store("Y", {lanes}, f32_one())});
  EXPECT_NO_THROW(verify(with_body({vector}), six));
  EXPECT_CONTAINS(rejection({vector}, {.inner_divisor = 2}), message);
}

TEST(LoopVerifier, ElementaryCallsAndRegisterIndices) {
  const VerifyRules no_calls{.no_elementary_calls = true};
  EXPECT_CONTAINS(rejection({store_y(call("exp", {f32_one()}))}, no_calls), "the call of exp is not expanded");
  EXPECT_NO_THROW(verify(with_body({store_y(call("sqrt", {f32_one()}))}), no_calls));
  EXPECT_NO_THROW(verify(with_body({store_y(call("exp", {f32_one()}))})));

  const VerifyRules constant{.register_constant_indices = true};
  const auto with_buffer = [](Scope scope, Stmt stmt) {
    return std::vector<Stmt>{make_allocate({"r", DataType::f32(), {2, 8}, scope}, {std::move(stmt)})};
  };
  const Expr t = var("t");
  const auto write = [](Expr row, Expr column) {
    return make_store("r", {std::move(row), std::move(column)}, f32_one());
  };
  EXPECT_CONTAINS(rejection(with_buffer(Scope::kRegister, write(t, 0)), constant),
                  "of the register buffer r is no constant");
  EXPECT_CONTAINS(rejection(with_buffer(Scope::kRegister, write(0, ramp(t, 1, 4))), constant), "is no constant");
  EXPECT_CONTAINS(rejection(with_buffer(Scope::kRegister, store_y(load("r", DataType::f32(), {0, t}))), constant),
                  "index t");
  EXPECT_NO_THROW(verify(with_body(with_buffer(Scope::kRegister, write(1, ramp(4, 1, 4)))), constant));
  EXPECT_NO_THROW(verify(with_body(with_buffer(Scope::kStack, write(t, 0))), constant));
  EXPECT_NO_THROW(verify(with_body(with_buffer(Scope::kRegister, write(t, 0)))));
}

TEST(LoopVerifier, SharedOperandsAreCheckedOnce) {
  Expr x = load("Y", DataType::f32(), {var("t")});
  for (int i = 0; i < 200; ++i) x = x + x;  // 2^200 paths
  EXPECT_NO_THROW(verify(with_body({make_for("i", 3, ForKind::kSerial, {store_y(x)})}), {.inner_divisor = 1}));
}

}  // namespace
}  // namespace tw::loop::test
