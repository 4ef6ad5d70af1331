// Reads the text that to_string(Program) prints; printer.cpp shows the grammar by example.
#include "expr/parser.h"

#include <algorithm>

#include "loop/text.h"
#include "support/error.h"
#include "support/lexer.h"

namespace tw::loop {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {
    expr_scope_.tensor_type = [this](const std::string& name) { return find(buffers_, name); };
    expr_scope_.var_type = [this](const std::string& name) {
      const auto type = find(vars_, name);
      if (!type) Lexer::fail_at(expr_at_, fmt::format("unknown variable '{}'", name));
      return *type;
    };
  }

  Program program() {
    Program program;
    lexer_.expect("program");
    program.name = lexer_.name("the program's name");
    while (!lexer_.at_end()) program.kernels.push_back(kernel());
    return program;
  }

 private:
  // Names in scope with their types, innermost last.
  using Names = std::vector<std::pair<std::string, DataType>>;

  static std::optional<DataType> find(const Names& names, const std::string& name) {
    for (auto it = names.rbegin(); it != names.rend(); ++it) {
      if (it->first == name) return it->second;
    }
    return std::nullopt;
  }

  Kernel kernel() {
    Kernel kernel;
    buffers_.clear();
    vars_.clear();
    lexer_.expect("kernel");
    kernel.name = lexer_.name("the kernel's name");
    lexer_.expect("(");
    while (!lexer_.accept(")")) {
      if (!kernel.params.empty()) lexer_.expect(",");
      kernel.params.push_back(buffer());
      buffers_.emplace_back(kernel.params.back().name, kernel.params.back().type);
      if (lexer_.accept("written")) kernel.written.push_back(kernel.params.back().name);
    }
    if (lexer_.accept("tiles")) {
      kernel.tile_var = lexer_.name("the tile variable");
      lexer_.expect("in");
      kernel.tiles = extent();
      if (lexer_.accept("clusters")) kernel.cluster = extent();
      if (lexer_.accept("units")) {
        kernel.units = extent();
        lexer_.expect("together");
        kernel.together = extent();
      }
      vars_.emplace_back(kernel.tile_var, DataType::i64());
    }
    if (lexer_.accept("implementation")) kernel.implementation = implementation();
    kernel.body = braces();
    return kernel;
  }

  Implementation implementation() {
    const Token at = lexer_.peek();
    try {
      return parse_implementation(lexer_.string("an implementation"));
    } catch (const UserError& error) {
      Lexer::fail_at(at, error.what());
    }
  }

  // name: type[extents] scope
  Buffer buffer() {
    Buffer buffer;
    buffer.name = lexer_.name("a buffer's name");
    lexer_.expect(":");
    const Token type_at = lexer_.peek();
    const std::optional<DataType> type = parse_data_type(lexer_.identifier("an element type"));
    if (!type || type->is_vector()) Lexer::fail_at(type_at, fmt::format("'{}' is no scalar type", type_at.text));
    buffer.type = *type;
    lexer_.expect("[");
    while (!lexer_.accept("]")) {
      if (!buffer.shape.empty()) lexer_.expect(",");
      buffer.shape.push_back(extent());
    }
    const std::optional<Scope> scope = find_scope(lexer_.peek().text);
    if (!scope) lexer_.expected("param, scratch, stack or register");
    lexer_.next();
    buffer.scope = *scope;
    return buffer;
  }

  int64_t extent() {
    const Token at = lexer_.peek();
    const int64_t value = lexer_.integer("an extent");
    if (value < 0) Lexer::fail_at(at, "an extent is not negative");
    return value;
  }

  Expr expression() {
    expr_at_ = lexer_.peek();
    return parse_expr(lexer_, expr_scope_);
  }

  std::vector<Stmt> braces() {
    lexer_.expect("{");
    std::vector<Stmt> stmts = list();
    lexer_.expect("}");
    return stmts;
  }

  // Everything up to a closing brace.
  std::vector<Stmt> list() {
    std::vector<Stmt> stmts;
    while (!lexer_.is("}") && !lexer_.at_end()) statement(stmts);
    return stmts;
  }

  // The body of a let or alloc: in braces, or the rest of the enclosing list.
  std::vector<Stmt> scope_body() { return lexer_.is("{") ? braces() : list(); }

  // Appends one statement (two for a store and the `if` after it).
  void statement(std::vector<Stmt>& out) {
    const Token at = lexer_.peek();
    const bool is_access = at.kind == TokenKind::kString || lexer_.peek(1).text == "[";
    if (is_access) return store(out);
    if (lexer_.accept("for")) return out.push_back(loop());
    if (lexer_.accept("let")) return out.push_back(let());
    if (lexer_.accept("alloc")) return out.push_back(allocate());
    if (lexer_.accept("block")) return out.push_back(make_block(braces()));
    if (lexer_.accept("prefetch")) return out.push_back(prefetch());
    if (!lexer_.accept("if")) lexer_.expected("a statement");
    const Expr value = condition();
    out.push_back(branches(value));
  }

  Stmt loop() {
    const std::string name = lexer_.name("a loop variable");
    lexer_.expect("in");
    const int64_t count = extent();
    ForKind kind = ForKind::kSerial;
    for (const ForKind named :
         {ForKind::kUnrolled, ForKind::kVectorized, ForKind::kThreads, ForKind::kMatrix, ForKind::kBulk}) {
      if (lexer_.accept(for_kind_name(named))) kind = named;
    }
    int64_t stages = 1;
    if (lexer_.accept(for_kind_name(ForKind::kPipelined))) {
      kind = ForKind::kPipelined;
      lexer_.expect("(");
      stages = extent();
      lexer_.expect(")");
    }
    vars_.emplace_back(name, DataType::i64());
    Stmt stmt = make_for(name, count, kind, braces(), stages);
    vars_.pop_back();
    return stmt;
  }

  Stmt let() {
    const std::string name = lexer_.name("a variable");
    lexer_.expect("=");
    const Expr value = expression();
    vars_.emplace_back(name, value.type());
    Stmt stmt = make_let(name, value, scope_body());
    vars_.pop_back();
    return stmt;
  }

  Stmt allocate() {
    const Token at = lexer_.peek();
    Buffer allocated = buffer();
    if (allocated.scope == Scope::kParam) Lexer::fail_at(at, "only a kernel's parameters have the scope param");
    buffers_.emplace_back(allocated.name, allocated.type);
    Stmt stmt = make_allocate(std::move(allocated), scope_body());
    buffers_.pop_back();
    return stmt;
  }

  Stmt prefetch() {
    lexer_.expect("(");
    const Token level_at = lexer_.peek();
    const int64_t level = lexer_.integer("a cache level");
    if (level != 1 && level != 2) Lexer::fail_at(level_at, "the cache level of a prefetch is 1 or 2");
    lexer_.expect(")");
    const Token at = lexer_.peek();
    const Access access = access_text();
    if (access.lanes > 1) Lexer::fail_at(at, "a prefetch has one address");
    return make_prefetch(access.buffer, access.indices, static_cast<int>(level));
  }

  Stmt branches(const Expr& decides) {
    std::vector<Stmt> then = braces();
    std::vector<Stmt> otherwise;
    if (lexer_.accept("else")) otherwise = braces();
    return make_if(decides, std::move(then), std::move(otherwise));
  }

  Expr condition() {
    const Token at = lexer_.peek();
    const Expr value = expression();
    if (value.type() != DataType::boolean()) {
      Lexer::fail_at(at, fmt::format("the condition of an if is one bool, not {}", to_string(value.type())));
    }
    return value;
  }

  struct Access {
    std::string buffer;
    std::vector<Expr> indices;
    DataType type;  // of the element
    int lanes = 1;
  };

  // buffer[indices]
  Access access_text() {
    Access access;
    const Token at = lexer_.peek();
    access.buffer = lexer_.name("a buffer's name");
    const std::optional<DataType> type = find(buffers_, access.buffer);
    if (!type) Lexer::fail_at(at, fmt::format("unknown buffer '{}'", access.buffer));
    access.type = *type;
    lexer_.expect("[");
    while (!lexer_.accept("]")) {
      if (!access.indices.empty()) lexer_.expect(",");
      const Token index_at = lexer_.peek();
      const Expr index = expression();
      const int lanes = index.type().lanes();
      if (!index.type().is_int())
        Lexer::fail_at(index_at, fmt::format("an index is an integer, not {}", to_string(index.type())));
      if (lanes > 1 && access.lanes > 1 && lanes != access.lanes) Lexer::fail_at(index_at, "indices of unequal lanes");
      access.lanes = std::max(access.lanes, lanes);
      access.indices.push_back(index);
    }
    return access;
  }

  // A predicate and the condition of an `if` statement in the next line look alike: only the latter is followed by `{`.
  void store(std::vector<Stmt>& out) {
    const Access access = access_text();
    lexer_.expect("=");
    const Token value_at = lexer_.peek();
    const Expr value = expression();
    const DataType type = value.type();
    if (type.element() != access.type || (type.is_vector() && type.lanes() != access.lanes)) {
      Lexer::fail_at(value_at, fmt::format("the value is {}, the place {}", to_string(type),
                                           to_string(access.type.with_lanes(access.lanes))));
    }
    Expr predicate;
    if (lexer_.accept("if")) {
      const Token at = lexer_.peek();
      predicate = expression();
      if (lexer_.is("{")) {
        out.push_back(make_store(access.buffer, access.indices, value));
        if (predicate.type() != DataType::boolean()) Lexer::fail_at(at, "the condition of an if is one bool");
        return out.push_back(branches(predicate));
      }
      check_predicate(at, predicate.type(), access.lanes);
    }
    out.push_back(make_store(access.buffer, access.indices, value, predicate));
  }

  static void check_predicate(const Token& at, DataType type, int lanes) {
    if (!type.is_bool()) Lexer::fail_at(at, fmt::format("a predicate is bool, not {}", to_string(type)));
    if (type.is_vector() && type.lanes() != lanes) {
      Lexer::fail_at(at, fmt::format("a predicate of {} lanes for {}", type.lanes(), lanes));
    }
  }

  Lexer lexer_;
  ExprScope expr_scope_;
  Names buffers_;
  Names vars_;
  Token expr_at_;  // where the expression now being read starts
};

}  // namespace

Program parse_program(std::string_view text) { return Parser(text).program(); }

}  // namespace tw::loop
