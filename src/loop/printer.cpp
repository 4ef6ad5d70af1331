// Text of programs. parse_program reads it back to an equal program.
//
//   program mlp
//
//   kernel dense(X: f32[8, 64] param, W: f32[64, 32] param, Y: f32[8, 32] param written) tiles t in 8 {
//     let row = (t * 1)
//     alloc acc: f32[32] register
//     for k in 64 {
//       for n in 2 unrolled {
//         acc[ramp((n * 16), 1, 16)] = fma(broadcast(X[row, k], 16), W[k, ramp((n * 16), 1, 16)], acc[ramp(..)])
//       }
//     }
//     if (t < 7) { prefetch(1) W[0, 0] } else { block { .. } }
//     Y[row, 0] = acc[0] if (row < 8)
//   }
//
// A `let` or `alloc` whose body goes on to the end of the enclosing list has no braces; elsewhere it has them.
#include <fmt/format.h>

#include <algorithm>

#include "loop/text.h"
#include "support/join.h"
#include "support/lexer.h"

namespace tw::loop {
namespace {

constexpr size_t kLineWidth = 120;  // characters; a longer kernel header has one parameter per line

std::string access_text(const StmtNode& stmt) {
  // After a store without predicate the word `if` would begin one.
  const std::string name = stmt.buffer == "if" ? quote_string(stmt.buffer) : quote_name(stmt.buffer);
  const auto indices = mapped(stmt.indices, [](const Expr& index) { return to_string(index); });
  return fmt::format("{}[{}]", name, fmt::join(indices, ", "));
}

std::string buffer_text(const Buffer& buffer) {
  return fmt::format("{}: {}[{}] {}", quote_name(buffer.name), to_string(buffer.type), fmt::join(buffer.shape, ", "),
                     scope_name(buffer.scope));
}

class Printer {
 public:
  std::string take() { return std::move(out_); }

  void kernel(const Kernel& kernel) {
    line(header(kernel) + " {");
    body(kernel.body);
    line("}");
  }

  void line(std::string_view text) {
    out_.append(2 * depth_, ' ');
    out_ += text;
    out_ += '\n';
  }

 private:
  static std::string header(const Kernel& kernel) {
    std::vector<std::string> params;
    size_t length = 0;
    for (const Buffer& param : kernel.params) {
      const bool written = std::ranges::find(kernel.written, param.name) != kernel.written.end();
      params.push_back(buffer_text(param) + (written ? " written" : ""));
      length += params.back().size() + 2;
    }
    const std::string begin = fmt::format("kernel {}(", quote_name(kernel.name));
    std::string clusters = kernel.cluster > 1 ? fmt::format(" clusters {}", kernel.cluster) : "";
    if (kernel.units > 0) clusters += fmt::format(" units {} together {}", kernel.units, kernel.together);
    std::string end = kernel.tile_var.empty()
                          ? ")"
                          : fmt::format(") tiles {} in {}{}", quote_name(kernel.tile_var), kernel.tiles, clusters);
    if (kernel.is_implemented()) end += " implementation " + quote_string(to_string(kernel.implementation));
    const bool fits = begin.size() + length + end.size() <= kLineWidth;
    const std::string separator = fits ? ", " : ",\n    ";
    return begin + (fits ? "" : "\n    ") + fmt::format("{}", fmt::join(params, separator)) + end;
  }

  void body(const std::vector<Stmt>& stmts) {
    ++depth_;
    list(stmts);
    --depth_;
  }

  void list(const std::vector<Stmt>& stmts) {
    for (size_t i = 0; i < stmts.size(); ++i)
      statement(*stmts[i], i + 1 == stmts.size() ? Place::kLast : Place::kInner);
  }

  enum class Place { kInner, kLast };

  void statement(const StmtNode& stmt, Place place) {
    switch (stmt.kind) {
      case StmtKind::kStore:
      case StmtKind::kPrefetch:
        return line(head_text(stmt));
      case StmtKind::kLet:
      case StmtKind::kAllocate:
        return place == Place::kLast ? open_scope(stmt) : braces(stmt);
      case StmtKind::kFor:
      case StmtKind::kIf:
      case StmtKind::kBlock:
        return braces(stmt);
    }
  }

  void open_scope(const StmtNode& stmt) {
    line(head_text(stmt));
    list(stmt.body);
  }

  void braces(const StmtNode& stmt) {
    line(head_text(stmt) + " {");
    body(stmt.body);
    if (!stmt.otherwise.empty()) {
      line("} else {");
      body(stmt.otherwise);
    }
    line("}");
  }

  std::string out_;
  size_t depth_ = 0;
};

}  // namespace

std::string head_text(const StmtNode& stmt) {
  switch (stmt.kind) {
    case StmtKind::kFor: {
      const std::string kind =
          stmt.for_kind == ForKind::kSerial ? "" : fmt::format(" {}", for_kind_name(stmt.for_kind));
      const std::string stages = stmt.for_kind == ForKind::kPipelined ? fmt::format("({})", stmt.stages) : "";
      return fmt::format("for {} in {}{}{}", quote_name(stmt.var), stmt.extent, kind, stages);
    }
    case StmtKind::kLet:
      return fmt::format("let {} = {}", quote_name(stmt.var), to_string(stmt.value));
    case StmtKind::kStore: {
      const std::string condition = stmt.predicate ? " if " + to_string(stmt.predicate) : "";
      return fmt::format("{} = {}{}", access_text(stmt), to_string(stmt.value), condition);
    }
    case StmtKind::kIf:
      return "if " + to_string(stmt.predicate);
    case StmtKind::kBlock:
      return "block";
    case StmtKind::kAllocate:
      return "alloc " + buffer_text(stmt.allocated);
    case StmtKind::kPrefetch:
      return fmt::format("prefetch({}) {}", stmt.extent, access_text(stmt));
  }
  return {};
}

std::string short_text(const StmtNode& stmt) {
  constexpr size_t kMax = 200;  // characters
  const std::string text = head_text(stmt);
  return text.size() <= kMax ? text : text.substr(0, kMax - 4) + " ...";
}

std::string to_string(const Program& program) {
  Printer printer;
  printer.line("program " + quote_name(program.name));
  for (const Kernel& kernel : program.kernels) {
    printer.line("");
    printer.kernel(kernel);
  }
  return printer.take();
}

}  // namespace tw::loop
