#include "expr/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/join.h"
#include "te/text.h"

namespace tw::te {
namespace {

using Variables = std::map<std::string, DataType>;

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}

  Program run() {
    lexer_.expect("te");
    program_.name = lexer_.name("the program's name");
    while (!lexer_.at_end()) {
      // A tensor may be called "input": its name is then followed by a colon.
      const bool keyword = !lexer_.peek(1).text.starts_with(":");
      if (keyword && lexer_.accept("input")) {
        program_.inputs.push_back(declare(tensor()));
      } else if (keyword && lexer_.accept("output")) {
        outputs();
      } else {
        compute();
      }
    }
    verify(program_);
    return std::move(program_);
  }

 private:
  Tensor tensor() {
    at_tensor_ = lexer_.peek();
    Tensor tensor;
    tensor.name = lexer_.name("a tensor's name");
    lexer_.expect(":");
    const Token at = lexer_.peek();
    const std::optional<DataType> type = parse_data_type(lexer_.identifier("an element type"));
    if (!type || type->is_vector()) Lexer::fail_at(at, fmt::format("'{}' is no element type", at.text));
    tensor.type = *type;
    lexer_.expect("[");
    if (!lexer_.accept("]")) {
      do {
        tensor.shape.push_back(extent());
      } while (lexer_.accept(","));
      lexer_.expect("]");
    }
    return tensor;
  }

  int64_t extent() {
    const Token at = lexer_.peek();
    const int64_t value = lexer_.integer("an extent");
    if (value < 0) Lexer::fail_at(at, fmt::format("extent {}", value));
    return value;
  }

  Tensor declare(const Tensor& tensor) {
    if (!tensors_.emplace(tensor.name, tensor).second) {
      Lexer::fail_at(at_tensor_, fmt::format("a second tensor named '{}'", tensor.name));
    }
    return tensor;
  }

  void outputs() {
    do {
      const Token at = lexer_.peek();
      const std::string name = lexer_.name("a tensor's name");
      if (!tensors_.contains(name)) Lexer::fail_at(at, fmt::format("unknown tensor '{}'", name));
      program_.outputs.push_back(name);
    } while (lexer_.accept(","));
  }

  void compute() {
    Compute compute;
    do {
      compute.outputs.push_back(tensor());
    } while (lexer_.accept(","));
    const bool reduces = !lexer_.is("(");
    if (reduces) {
      lexer_.expect("=");
      reduction(compute);
    } else {
      axes(compute);
      lexer_.expect("=");
      compute.body = expr_list(compute, axis_variables(compute));
    }
    for (const Tensor& output : compute.outputs) declare(output);
    program_.computes.push_back(std::move(compute));
  }

  void reduction(Compute& compute) {
    const Token at = lexer_.peek();
    const auto kind = std::ranges::find(kCombinerNames, lexer_.identifier("a combiner or axes"));
    if (kind == kCombinerNames.end()) Lexer::fail_at(at, fmt::format("unknown combiner '{}'", at.text));
    Combiner& combiner = compute.combiner;
    combiner.kind = static_cast<CombinerKind>(kind - kCombinerNames.begin());
    const bool tuple = combiner.kind == CombinerKind::kTuple;
    lexer_.expect("(");
    do {
      const std::string name = axis_name(compute);
      lexer_.expect("in");
      compute.reduce_axes.push_back({name, extent()});
    } while (lexer_.accept(","));
    lexer_.expect(")");
    if (tuple || lexer_.is("from")) {
      lexer_.expect("from");
      combiner.identity = expr_list(compute, {});
    } else {
      combiner.identity =
          mapped(compute.outputs, [&](const Tensor& output) { return identity_of(combiner.kind, output.type); });
    }
    lexer_.expect("over");
    axes(compute);
    lexer_.expect("of");
    compute.body = expr_list(compute, axis_variables(compute));
    if (tuple) tuple_result(compute);
  }

  // The result of a tuple combiner: `by (lhs), (rhs) -> (results)`.
  void tuple_result(Compute& compute) {
    lexer_.expect("by");
    Variables variables;
    compute.combiner.lhs = side(compute, variables);
    lexer_.expect(",");
    compute.combiner.rhs = side(compute, variables);
    lexer_.expect("->");
    compute.combiner.result = expr_list(compute, variables, false);
  }

  std::vector<std::string> side(const Compute& compute, Variables& variables) {
    std::vector<std::string> names;
    lexer_.expect("(");
    for (const Tensor& output : compute.outputs) {
      if (!names.empty()) lexer_.expect(",");
      const Token at = lexer_.peek();
      names.push_back(lexer_.name("a variable"));
      if (!variables.emplace(names.back(), output.type).second) Lexer::fail_at(at, "this variable stands twice");
    }
    lexer_.expect(")");
    return names;
  }

  std::string axis_name(const Compute& compute) {
    const Token at = lexer_.peek();
    const std::string name = lexer_.name("an axis");
    if (axis_variables(compute).contains(name)) Lexer::fail_at(at, fmt::format("a second axis named '{}'", name));
    return name;
  }

  void axes(Compute& compute) {
    const Token at = lexer_.expect("(");
    const Shape& shape = compute.outputs[0].shape;
    const bool tuple = compute.combiner.kind == CombinerKind::kTuple;
    for (const Tensor& output : compute.outputs) {
      const size_t rank = tuple ? std::min(output.shape.size(), shape.size()) : shape.size();
      if (output.shape != Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(rank)))
        Lexer::fail_at(at, "all outputs of one compute have one shape, or those of a tuple the first dims of it");
    }
    if (!lexer_.accept(")")) {
      do {
        if (compute.axes.size() == shape.size()) lexer_.fail("more axes than dimensions");
        compute.axes.push_back({axis_name(compute), shape[compute.axes.size()]});
      } while (lexer_.accept(","));
      lexer_.expect(")");
    }
    if (compute.axes.size() != shape.size()) Lexer::fail_at(at, fmt::format("axes for shape {}", to_string(shape)));
  }

  static Variables axis_variables(const Compute& compute) {
    Variables variables;
    for (const Axis& axis : compute.axes) variables.emplace(axis.name, DataType::i64());
    for (const Axis& axis : compute.reduce_axes) variables.emplace(axis.name, DataType::i64());
    return variables;
  }

  // One expression for each output, of its type; in parentheses when there are several.
  std::vector<Expr> expr_list(const Compute& compute, const Variables& variables, bool may_load = true) {
    const size_t count = compute.outputs.size();
    if (count > 1) lexer_.expect("(");
    std::vector<Expr> list;
    for (const Tensor& output : compute.outputs) {
      if (!list.empty()) lexer_.expect(",");
      const Token at = lexer_.peek();
      list.push_back(parse_expr(lexer_, scope(variables, may_load)));
      if (list.back().type() != output.type) {
        Lexer::fail_at(at, fmt::format("'{}' is {} but this is {}", output.name, to_string(output.type),
                                       to_string(list.back().type())));
      }
      check_nodes(at, list.back());
    }
    if (count > 1) lexer_.expect(")");
    return list;
  }

  ExprScope scope(const Variables& variables, bool may_load) const {
    ExprScope scope;
    scope.tensor_type = [this, may_load](const std::string& name) -> std::optional<DataType> {
      const auto it = tensors_.find(name);
      return may_load && it != tensors_.end() ? std::optional(it->second.type) : std::nullopt;
    };
    scope.var_type = [this, &variables](const std::string& name) {
      const auto it = variables.find(name);
      if (it == variables.end()) lexer_.fail(fmt::format("unknown variable '{}' before this", name));
      return it->second;
    };
    return scope;
  }

  void check_nodes(const Token& at, const Expr& body) const {
    visit(body, [&](const Expr& e) {
      if (e.type().is_vector()) Lexer::fail_at(at, "a vector in a tensor expression");
      if (e.op() != Op::kLoad) return;
      const size_t rank = e->args.size() - (e->predicated ? 1 : 0);
      const Shape& shape = tensors_.at(e->name).shape;
      if (rank != shape.size())
        Lexer::fail_at(at, fmt::format("{} indices for '{}' of shape {}", rank, e->name, to_string(shape)));
      for (size_t d = 0; d < rank; ++d) {
        if (e.arg(d).type() != DataType::i64())
          Lexer::fail_at(at, fmt::format("index {} of '{}' is no i64", d, e->name));
      }
    });
  }

  Lexer lexer_;
  Token at_tensor_;
  std::map<std::string, Tensor> tensors_;
  Program program_;
};

}  // namespace

Program parse_program(std::string_view text) { return Parser(text).run(); }

}  // namespace tw::te
