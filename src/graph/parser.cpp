// Reads the text form of a graph.
//
//   graph      = "graph" name "{" { input | const | node } "output" [ name { "," name } ] "}"
//   input      = "input" value
//   const      = "const" value "=" ( "[" elements "]" | "data" name )
//   node       = value { "," value } "=" op "(" [ operand { "," operand } ] ")" [ "{" attrs "}" ] [ "as" name ] [ graph
//   ] value      = name ":" type "[" extents "]" [ "layout" string ] operand    = name | "-" (absent) attrs      = key
//   "=" ( integer | float | string | [ "floats" | "strings" ] "[" items "]" ), comma-separated
// A float has a point, an exponent, or is inf or nan; names that are no identifiers are in quotes.
#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "graph/graph.h"
#include "graph/ref_tensor.h"
#include "support/lexer.h"

namespace tw::graph {
namespace {

constexpr int64_t kMaxInlineElements =
    1 << 20;  // of a constant written out in text: bounds what a bad extent may allocate

class Parser {
 public:
  Parser(Lexer& lexer, const ConstantSource& constants) : lexer_(lexer), constants_(constants) {}

  Graph parse() {
    lexer_.expect("graph");
    graph_.name = lexer_.name("the graph's name");
    lexer_.expect("{");
    while (!at_keyword("output")) {
      if (at_keyword("input")) {
        parse_input();
      } else if (at_keyword("const")) {
        parse_constant();
      } else {
        parse_node();
      }
    }
    lexer_.expect("output");
    while (!lexer_.is("}")) {
      graph_.outputs.push_back(parse_reference());
      if (!lexer_.accept(",")) break;
    }
    lexer_.expect("}");
    return std::move(graph_);
  }

 private:
  // A keyword is a value's name where ":" or "," follows.
  bool at_keyword(std::string_view word) const {
    const Token& token = lexer_.peek();
    if (token.kind != TokenKind::kIdentifier || token.text != word) return false;
    const Token& after = lexer_.peek(1);
    return after.kind != TokenKind::kPunctuation || (after.text != ":" && after.text != ",");
  }

  Value parse_value() {
    const Token at = lexer_.peek();
    Value value;
    value.name = lexer_.name("a value's name");
    if (ids_.count(value.name) != 0) Lexer::fail_at(at, fmt::format("the value '{}' is defined twice", value.name));
    lexer_.expect(":");
    value.type = parse_type();
    if (!at_keyword("layout")) return value;
    lexer_.expect("layout");
    const Token layout_at = lexer_.peek();
    try {
      value.layout = parse_layout(lexer_.string("a layout"));
      value.layout.storage_shape(value.type.shape);
    } catch (const std::exception& e) {
      Lexer::fail_at(layout_at, e.what());
    }
    return value;
  }

  TensorType parse_type() {
    const Token at = lexer_.peek();
    const auto type = parse_data_type(lexer_.identifier("an element type"));
    if (!type || type->is_vector()) Lexer::fail_at(at, fmt::format("'{}' is no element type", at.text));
    Shape shape;
    lexer_.expect("[");
    while (!lexer_.is("]")) {
      shape.push_back(lexer_.integer("an extent"));
      if (shape.back() < 0) Lexer::fail_at(at, "an extent is negative");
      if (!lexer_.accept(",")) break;
    }
    lexer_.expect("]");
    int64_t elements = 1;
    for (int64_t extent : shape) {
      if (__builtin_mul_overflow(elements, std::max<int64_t>(extent, 1), &elements))
        Lexer::fail_at(at, "the tensor is too large");
    }
    return {*type, std::move(shape)};
  }

  ValueId add(Value value) {
    const auto id = static_cast<ValueId>(graph_.values.size());
    ids_.emplace(value.name, id);
    graph_.values.push_back(std::move(value));
    return id;
  }

  ValueId parse_reference() {
    const Token at = lexer_.peek();
    const auto it = ids_.find(lexer_.name("a value's name"));
    if (it == ids_.end()) Lexer::fail_at(at, fmt::format("there is no value '{}'", at.text));
    return it->second;
  }

  void parse_input() {
    lexer_.expect("input");
    graph_.inputs.push_back(add(parse_value()));
  }

  void parse_constant() {
    lexer_.expect("const");
    Value value = parse_value();
    lexer_.expect("=");
    value.constant = lexer_.is("[") ? parse_elements(value.type) : find_data(value);
    add(std::move(value));
  }

  Bytes find_data(const Value& declared) {
    lexer_.expect("data");
    const Token at = lexer_.peek();
    Bytes bytes = constants_(declared, lexer_.name("the name of a constant"));
    if (bytes == nullptr) Lexer::fail_at(at, fmt::format("the data of the constant '{}' are not given", at.text));
    if (static_cast<int64_t>(bytes->size()) != declared.type.bytes()) {
      Lexer::fail_at(at, fmt::format("the constant '{}' has {} bytes, {} has {}", at.text, bytes->size(),
                                     to_string(declared.type), declared.type.bytes()));
    }
    return bytes;
  }

  Bytes parse_elements(const TensorType& type) {
    const Token at = lexer_.expect("[");
    if (type.elements() > kMaxInlineElements) Lexer::fail_at(at, "the constant is too large for text");
    RefTensor tensor = RefTensor::zeros(type);
    for (int64_t i = 0; i < type.elements(); ++i) {
      if (i > 0) lexer_.expect(",");
      if (type.type.is_float()) {
        tensor.floats[i] = parse_float(type.type);
      } else {
        tensor.ints[i] = lexer_.integer("an element");
      }
    }
    lexer_.expect("]");
    return share(tensor.to_bytes());
  }

  bool at_float() const {
    const Token& token = lexer_.peek(lexer_.is("-") ? 1 : 0);
    if (token.text == "inf" || token.text == "nan") return token.kind != TokenKind::kString;
    return token.kind == TokenKind::kNumber && token.text.find_first_of(".eE") != std::string::npos;
  }

  double parse_float(DataType type) {
    const bool negative = lexer_.accept("-");
    const Token token = lexer_.next();
    double value = 0;
    if (token.text == "inf") {
      value = std::numeric_limits<double>::infinity();
    } else if (token.text == "nan") {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (token.kind != TokenKind::kNumber || !read_number(token.text, type, &value)) {
      Lexer::fail_at(token, fmt::format("'{}' is no number", token.text));
    }
    return negative ? -value : value;
  }

  // f32 digits are rounded once, to f32: by way of f64 they could be rounded twice.
  static bool read_number(const std::string& text, DataType type, double* value) {
    const char* end = text.data() + text.size();
    if (type == DataType::f64()) {
      const auto [stop, code] = std::from_chars(text.data(), end, *value);
      return stop == end && code == std::errc();
    }
    float narrow = 0;
    const auto [stop, code] = std::from_chars(text.data(), end, narrow);
    *value = narrow;
    return stop == end && code == std::errc();
  }

  void parse_node() {
    std::vector<Value> outputs;
    do {
      outputs.push_back(parse_value());
    } while (lexer_.accept(","));
    lexer_.expect("=");
    Node node;
    node.op = lexer_.name("an operator");
    lexer_.expect("(");
    while (!lexer_.is(")")) {
      node.inputs.push_back(lexer_.accept("-") ? kAbsent : parse_reference());
      if (!lexer_.accept(",")) break;
    }
    lexer_.expect(")");
    if (lexer_.accept("{")) parse_attrs(node);
    if (at_keyword("as")) {
      lexer_.expect("as");
      node.name = lexer_.name("the node's name");
    }
    if (at_keyword("graph")) {
      node.body = std::make_shared<const Graph>(Parser(lexer_, constants_).parse());
    }
    for (Value& value : outputs) {
      if (ids_.count(value.name) != 0) lexer_.fail(fmt::format("the value '{}' is defined twice", value.name));
      node.outputs.push_back(add(std::move(value)));
    }
    graph_.nodes.push_back(std::move(node));
  }

  void parse_attrs(Node& node) {
    do {
      const Token at = lexer_.peek();
      const std::string key = lexer_.name("an attribute's name");
      lexer_.expect("=");
      if (!node.attrs.emplace(key, parse_attr()).second)
        Lexer::fail_at(at, fmt::format("the attribute '{}' is given twice", key));
    } while (lexer_.accept(","));
    lexer_.expect("}");
  }

  Attr parse_attr() {
    if (lexer_.is("[") || lexer_.is("floats") || lexer_.is("strings")) return parse_list();
    if (lexer_.peek().kind == TokenKind::kString) return lexer_.string();
    if (at_float()) return parse_float(DataType::f64());
    return lexer_.integer("an attribute's value");
  }

  Attr parse_list() {
    const bool empty_floats = lexer_.accept("floats");
    const bool empty_strings = !empty_floats && lexer_.accept("strings");
    lexer_.expect("[");
    if (empty_floats || (!lexer_.is("]") && at_float()))
      return parse_items<double>([this] { return parse_float(DataType::f64()); });
    if (empty_strings || lexer_.peek().kind == TokenKind::kString)
      return parse_items<std::string>([this] { return lexer_.string(); });
    return parse_items<int64_t>([this] { return lexer_.integer(); });
  }

  template <typename T, typename Item>
  std::vector<T> parse_items(const Item& item) {
    std::vector<T> items;
    while (!lexer_.is("]")) {
      items.push_back(item());
      if (!lexer_.accept(",")) break;
    }
    lexer_.expect("]");
    return items;
  }

  Lexer& lexer_;
  const ConstantSource& constants_;
  Graph graph_;
  std::map<std::string, ValueId> ids_;
};

}  // namespace

Graph parse_graph_from(std::string_view text, const ConstantSource& source) {
  Lexer lexer(text);
  Graph graph = Parser(lexer, source).parse();
  if (!lexer.at_end()) lexer.expected("the end of the text");
  return graph;
}

Graph parse_graph(std::string_view text, const std::map<std::string, Bytes>& constants) {
  return parse_graph_from(text, [&](const Value&, const std::string& reference) {
    const auto found = constants.find(reference);
    return found == constants.end() ? nullptr : found->second;
  });
}

}  // namespace tw::graph
