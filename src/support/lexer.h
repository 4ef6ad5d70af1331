// Splits text IR into tokens; the parsers of expr, te, loop, graph and schedule read from it. `#` starts a comment that
// ends with the line. Every error is a UserError "line L, column C: ...".
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tw {

enum class TokenKind : uint8_t {
  kIdentifier,   // letter, _, $ or @, then also digits and dots: `conv1.out`, `$r0`
  kNumber,       // 12, 1.5e-3, with an optional type suffix: 1.5:f32, inf:f16, nan:f32. No sign.
  kString,       // "..." with \" \\ \n \t; `text` is the content
  kPunctuation,  // one of -> << >> <= >= == != && || .. += or a single character
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int line = 1;    // from 1
  int column = 1;  // from 1, in bytes
};

class Lexer {
 public:
  /// Splits all of `text`; throws UserError at a character that starts no token or a string without end.
  explicit Lexer(std::string_view text);

  /// The token `ahead` places after the next one (kEnd past the end), without taking it.
  const Token& peek(size_t ahead = 0) const;
  /// Takes the next token.
  Token next();
  bool at_end() const { return peek().kind == TokenKind::kEnd; }

  /// Whether the next token is the punctuation or identifier `text`.
  bool is(std::string_view text) const;
  /// Takes the next token if it is `text`; says whether it did.
  bool accept(std::string_view text);
  /// Takes the next token, which must be `text`.
  Token expect(std::string_view text);

  /// Takes an identifier; `what` says in the error what was wanted.
  std::string identifier(std::string_view what = "an identifier");
  /// Takes an identifier or a string: the inverse of quote_name.
  std::string name(std::string_view what = "a name");
  /// Takes a string.
  std::string string(std::string_view what = "a string");
  /// Takes a whole number with an optional minus sign, without type suffix.
  int64_t integer(std::string_view what = "an integer");

  /// Throws "line L, column C: expected <what>, found <next token>".
  [[noreturn]] void expected(std::string_view what) const;
  /// Throws "line L, column C: <message>" at the next token, or at `at`.
  [[noreturn]] void fail(std::string_view message) const;
  [[noreturn]] static void fail_at(const Token& at, std::string_view message);

 private:
  std::vector<Token> tokens_;  // the last one is kEnd
  size_t position_ = 0;
};

/// `name` itself when the lexer reads it as one identifier, else as a quoted string.
std::string quote_name(std::string_view name);
/// "..." with escapes: the inverse of a kString token.
std::string quote_string(std::string_view text);

}  // namespace tw
