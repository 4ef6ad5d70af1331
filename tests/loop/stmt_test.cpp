// Constructors, traversal and rewriting of statements.
#include "tests/loop/helpers.h"

namespace tw::loop::test {
namespace {

Expr i() { return var("i"); }
Expr one() { return float_imm(1.0); }
Stmt store_at(const Expr& index) { return make_store("Y", {index}, one()); }

TEST(Stmt, StoreBroadcastsItsValueToTheLanesOfTheIndices) {
  const Stmt store = make_store("Y", {var("m"), ramp(0, 1, 8)}, one());
  EXPECT_EQ(store->value.type(), DataType::f32().with_lanes(8));
  EXPECT_EQ(store_at(i())->value.type(), DataType::f32());
}

TEST(Stmt, ConstructorsRefuseWhatCannotBeRight) {
  const Expr p8 = broadcast(var("p", DataType::boolean()), 8);
  EXPECT_THROW(make_for("", 3, ForKind::kSerial, {}), InternalError);
  EXPECT_THROW(make_for("i", -1, ForKind::kSerial, {}), InternalError);
  EXPECT_THROW(make_let("", one(), {}), InternalError);
  EXPECT_THROW(make_let("x", Expr(), {}), InternalError);
  EXPECT_THROW(make_store("", {i()}, one()), InternalError);
  EXPECT_THROW(make_store("Y", {i()}, Expr()), InternalError);
  EXPECT_THROW(make_store("Y", {one()}, one()), InternalError);
  EXPECT_THROW(make_store("Y", {i()}, broadcast(one(), 8)), InternalError) << "eight lanes to one place";
  EXPECT_THROW(make_store("Y", {ramp(0, 1, 4)}, broadcast(one(), 8)), InternalError);
  EXPECT_THROW(make_store("Y", {i()}, one(), i()), InternalError) << "the predicate is no bool";
  EXPECT_THROW(make_store("Y", {ramp(0, 1, 4)}, one(), p8), InternalError);
  EXPECT_THROW(make_if(Expr(), {}), InternalError);
  EXPECT_THROW(make_if(p8, {}), InternalError);
  EXPECT_THROW(make_allocate({"a", DataType::f32(), {3}, Scope::kParam}, {}), InternalError);
  EXPECT_THROW(make_allocate({"a", DataType::f32(), {-3}, Scope::kStack}, {}), InternalError);
  EXPECT_THROW(make_allocate({"a", DataType::f32().with_lanes(4), {3}, Scope::kStack}, {}), InternalError);
  EXPECT_THROW(make_prefetch("W", {i()}, 3), InternalError);
  EXPECT_THROW(make_prefetch("W", {ramp(0, 1, 4)}, 1), InternalError);
}

std::vector<Stmt> nest() {
  const Stmt first = store_at(i());
  const Stmt second = make_store("Y", {var("j")}, var("v", DataType::f32()), var("p", DataType::boolean()));
  return {make_for("i", 3, ForKind::kSerial, {first}),
          make_if(i() < var("n"), {make_block({second})}, {make_prefetch("W", {i()}, 1)}),
          make_allocate({"a", DataType::f32(), {2}, Scope::kStack}, {make_let("v", one(), {second})})};
}

TEST(Stmt, RewriteKeepsEveryNodeThatDoesNotChange) {
  const std::vector<Stmt> before = nest();
  Rewriter nothing;
  nothing.expr = [](const Expr& e) { return e; };
  nothing.stmt = [](const Stmt& s) { return std::vector<Stmt>{s}; };
  const std::vector<Stmt> after = rewrite(before, nothing);
  ASSERT_EQ(after.size(), before.size());
  for (size_t k = 0; k < after.size(); ++k) EXPECT_TRUE(after[k].same(before[k])) << k;
  EXPECT_TRUE(rewrite(before, {})[1].same(before[1])) << "a rewriter without functions";
}

TEST(Stmt, RewriteRebuildsOnlyThePathToAChange) {
  const std::vector<Stmt> before = nest();
  Rewriter rewriter;
  rewriter.expr = [](const Expr& e) { return e.is_var() && e->name == "p" ? int_imm(1, DataType::boolean()) : Expr(); };
  const std::vector<Stmt> after = rewrite(before, rewriter);
  EXPECT_TRUE(after[0].same(before[0]));
  EXPECT_FALSE(after[1].same(before[1]));
  EXPECT_TRUE(after[1]->otherwise[0].same(before[1]->otherwise[0]));
  EXPECT_TRUE(after[1]->body[0]->body[0]->predicate.is_int(1));
}

TEST(Stmt, RewriteReplacesChildrenBeforeTheirParent) {
  Rewriter rewriter;
  rewriter.stmt = [](const Stmt& s) -> std::vector<Stmt> {
    if (s->kind == StmtKind::kStore) return {s, s};
    if (s->kind == StmtKind::kFor) return s->body;  // sees the doubled body
    return {};
  };
  EXPECT_EQ(rewrite({make_for("i", 3, ForKind::kSerial, {store_at(i())})}, rewriter).size(), 2u);
  EXPECT_TRUE(rewrite({make_prefetch("W", {i()}, 1)}, rewriter).empty());
}

TEST(Stmt, VisitGoesFromOuterToInner) {
  std::vector<StmtKind> kinds;
  visit(nest(), [&](const Stmt& s) { kinds.push_back(s->kind); });
  const std::vector<StmtKind> expected = {StmtKind::kFor,      StmtKind::kStore, StmtKind::kIf,
                                          StmtKind::kBlock,    StmtKind::kStore, StmtKind::kPrefetch,
                                          StmtKind::kAllocate, StmtKind::kLet,   StmtKind::kStore};
  EXPECT_EQ(kinds, expected);
  int exprs = 0;
  visit_exprs(nest(), [&](const Expr& e) { exprs += e ? 1 : 0; });
  // Two for the first store, condition, three for the second store (twice), one for the prefetch, one for the let.
  EXPECT_EQ(exprs, 2 + 1 + 3 + 1 + 1 + 3);
}

TEST(Stmt, SubstituteLeavesHiddenVariablesAlone) {
  const std::vector<Stmt> before = nest();
  const std::vector<Stmt> after = substitute(before, {{"i", Expr(7)}, {"v", float_imm(2.0)}});
  EXPECT_TRUE(after[0].same(before[0])) << "the loop declares i";
  EXPECT_TRUE(equal(after[1]->predicate, Expr(7) < var("n")));
  EXPECT_EQ(after[1]->body[0]->body[0]->value->number, 2.0);
  EXPECT_TRUE(after[2].same(before[2])) << "the let declares v";
}

TEST(Stmt, SubstituteWidensTheUsesOfALetThatBecomesAVector) {
  const Expr x = load("X", DataType::f32(), {i()});
  const std::vector<Stmt> before = {make_let("x", x, {make_store("Y", {i()}, var("x", DataType::f32()) * one())})};
  const std::vector<Stmt> after = substitute(before, {{"i", ramp(0, 1, 4)}});
  EXPECT_EQ(after[0]->value.type().lanes(), 4);
  EXPECT_EQ(after[0]->body[0]->value.arg(0).type().lanes(), 4);
}

}  // namespace
}  // namespace tw::loop::test
