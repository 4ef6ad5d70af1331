// The part of the verifier that looks into expressions: names, types and lanes of every node.
#pragma once
#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "expr/scalar.h"
#include "loop/loop.h"

namespace tw::loop {

/// A rule that does not hold; the verifier of statements adds kernel and statement.
struct BrokenRule {
  std::string message;
  bool printable = true;  // false: an operation lacks operands, so that the statement cannot be quoted
};

[[noreturn]] inline void broken_rule(std::string message) { throw BrokenRule{std::move(message)}; }

/// Throws BrokenRule with the formatted message when the condition does not hold; the arguments are evaluated only
/// then.
#define TW_RULE(condition, ...) ((condition) ? void() : ::tw::loop::broken_rule(fmt::format(__VA_ARGS__)))

struct NamesInScope {
  std::unordered_map<std::string, const Buffer*> buffers;
  std::unordered_map<std::string, DataType> vars;
  std::unordered_set<std::string> thread_vars;  // those of `vars` that tell a thread
  std::unordered_set<std::string> matrix_vars;  // those that tell a place in a step of matrices
};

class ExprVerifier {
 public:
  /// Both references must live as long as this.
  ExprVerifier(const NamesInScope& names, const VerifyRules& rules) : names_(names), rules_(rules) {}

  /// What was checked before may mean something else now (names came or went).
  void start_statement() { done_.clear(); }

  /// Throws BrokenRule unless every node of e has known names and the types that expr.h asks for. Shared nodes are
  /// looked at once.
  void check(const Expr& e);
  /// Checks buffer[indices] and returns the buffer.
  const Buffer& check_access(const std::string& buffer, const std::vector<Expr>& indices);
  /// Checks a bool expression of one lane or `lanes` lanes.
  void check_predicate(const Expr& predicate, int lanes);

 private:
  void node(const Expr& e);
  void binary(const ExprNode& e);
  void unary(const ExprNode& e);
  void select(const ExprNode& e);
  void conversion(const ExprNode& e);
  void call(const ExprNode& e);
  void load(const Expr& e);
  void vector_node(const ExprNode& e);

  const NamesInScope& names_;
  const VerifyRules& rules_;
  std::unordered_set<const ExprNode*> done_;
};

/// Finds divisions that would be paid in every turn of one loop.
class MovingDivision {
 public:
  /// Divisions by a divisor of `allowed` are none of its business.
  MovingDivision(const std::string& loop_var, int64_t allowed) : allowed_(allowed) { moving_.insert(loop_var); }
  /// Throws BrokenRule at a kFloorDiv or kFloorMod of something that moves with the loop's variable. What a load gives
  /// is data, not an index: it does not count as moving.
  void check(const Expr& e);
  /// From now on `var` is `value`.
  void bind(const std::string& var, const Expr& value);

 private:
  bool moves(const Expr& e);
  bool is_allowed(const Expr& divisor) const;

  int64_t allowed_;
  std::unordered_set<std::string> moving_;
  std::unordered_map<const ExprNode*, bool> known_;  // moves() of the nodes seen
  std::unordered_set<const ExprNode*> checked_;
};

}  // namespace tw::loop
