#include "support/lexer.h"

#include <array>
#include <charconv>

#include "support/error.h"

namespace tw {
namespace {

constexpr std::array<std::string_view, 11> kLongPunctuation = {
    "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "..", "+="};
constexpr std::string_view kPunctuation = "()[]{}<>,;:=+-*/%&|^~!?.";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '@'; }

// Length of the identifier at the start of `text`, 0 if none. A dot belongs to it only before a further name character.
size_t identifier_length(std::string_view text) {
  if (text.empty() || !is_letter(text[0])) return 0;
  const auto continues = [&](size_t i) { return i < text.size() && (is_letter(text[i]) || is_digit(text[i])); };
  size_t n = 1;
  while (continues(n) || (n < text.size() && text[n] == '.' && continues(n + 1))) ++n;
  return n;
}

// inf, nan and nan0x<bits> are numbers, but only with a type suffix.
bool names_number(std::string_view word) { return word == "inf" || word == "nan" || word.starts_with("nan0x"); }

// Length of ":f32" at the start of `text`, 0 if it is not there.
size_t suffix_length(std::string_view text) {
  if (text.empty() || text[0] != ':') return 0;
  const size_t n = identifier_length(text.substr(1));
  return n ? n + 1 : 0;
}

size_t number_length(std::string_view text) {
  if (text.empty() || !is_digit(text[0])) return 0;
  size_t n = 1;
  const auto digit = [&](size_t i) { return i < text.size() && is_digit(text[i]); };
  while (digit(n)) ++n;
  if (n < text.size() && text[n] == '.' && digit(n + 1)) {
    ++n;
    while (digit(n)) ++n;
  }
  if (n < text.size() && (text[n] == 'e' || text[n] == 'E')) {
    const size_t sign = n + 1 < text.size() && (text[n + 1] == '+' || text[n + 1] == '-') ? 1 : 0;
    if (digit(n + 1 + sign)) {
      n += 2 + sign;
      while (digit(n)) ++n;
    }
  }
  return n + suffix_length(text.substr(n));
}

size_t punctuation_length(std::string_view text) {
  for (std::string_view p : kLongPunctuation) {
    if (text.starts_with(p)) return p.size();
  }
  return kPunctuation.find(text[0]) == std::string_view::npos ? 0 : 1;
}

// Reads the string that starts at text[0] == '"' into *out; returns its length in `text`, 0 when it has no end.
size_t read_string(std::string_view text, std::string* out) {
  for (size_t i = 1; i < text.size() && text[i] != '\n'; ++i) {
    if (text[i] == '"') return i + 1;
    if (text[i] != '\\') {
      *out += text[i];
      continue;
    }
    if (++i == text.size()) break;
    *out += text[i] == 'n' ? '\n' : text[i] == 't' ? '\t' : text[i];
  }
  return 0;
}

// Fills kind and text of the token at the start of `text`, returns its length.
size_t read_token(std::string_view text, Token* token) {
  if (text[0] == '"') {
    const size_t n = read_string(text, &token->text);
    if (n == 0) Lexer::fail_at(*token, "this string has no end");
    token->kind = TokenKind::kString;
    return n;
  }
  size_t n = identifier_length(text);
  token->kind = TokenKind::kIdentifier;
  if (n > 0 && names_number(text.substr(0, n)) && suffix_length(text.substr(n)) > 0) {
    n += suffix_length(text.substr(n));
    token->kind = TokenKind::kNumber;
  }
  if (n == 0) {
    n = number_length(text);
    token->kind = TokenKind::kNumber;
  }
  if (n == 0) {
    n = punctuation_length(text);
    token->kind = TokenKind::kPunctuation;
  }
  if (n == 0) Lexer::fail_at(*token, fmt::format("unexpected character '{}'", text[0]));
  token->text = std::string(text.substr(0, n));
  return n;
}

std::string describe(const Token& token) {
  if (token.kind == TokenKind::kEnd) return "the end";
  return token.kind == TokenKind::kString ? quote_string(token.text) : fmt::format("'{}'", token.text);
}

}  // namespace

Lexer::Lexer(std::string_view text) {
  int line = 1;
  size_t line_start = 0;
  size_t i = 0;
  while (i < text.size()) {
    if (text[i] == '\n') {
      ++line;
      line_start = ++i;
    } else if (text[i] == ' ' || text[i] == '\t' || text[i] == '\r') {
      ++i;
    } else if (text[i] == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
    } else {
      Token token{TokenKind::kEnd, {}, line, static_cast<int>(i - line_start) + 1};
      i += read_token(text.substr(i), &token);
      tokens_.push_back(std::move(token));
    }
  }
  tokens_.push_back({TokenKind::kEnd, {}, line, static_cast<int>(i - line_start) + 1});
}

const Token& Lexer::peek(size_t ahead) const { return tokens_[std::min(position_ + ahead, tokens_.size() - 1)]; }

Token Lexer::next() {
  Token token = peek();
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool Lexer::is(std::string_view text) const {
  const Token& token = peek();
  return (token.kind == TokenKind::kPunctuation || token.kind == TokenKind::kIdentifier) && token.text == text;
}

bool Lexer::accept(std::string_view text) {
  if (!is(text)) return false;
  next();
  return true;
}

Token Lexer::expect(std::string_view text) {
  if (!is(text)) expected(fmt::format("'{}'", text));
  return next();
}

std::string Lexer::identifier(std::string_view what) {
  if (peek().kind != TokenKind::kIdentifier) expected(what);
  return next().text;
}

std::string Lexer::name(std::string_view what) {
  if (peek().kind != TokenKind::kIdentifier && peek().kind != TokenKind::kString) expected(what);
  return next().text;
}

std::string Lexer::string(std::string_view what) {
  if (peek().kind != TokenKind::kString) expected(what);
  return next().text;
}

int64_t Lexer::integer(std::string_view what) {
  const bool negative = is("-") && peek(1).kind == TokenKind::kNumber;
  const Token& token = peek(negative ? 1 : 0);
  if (token.kind != TokenKind::kNumber) expected(what);
  const std::string digits = (negative ? "-" : "") + token.text;
  int64_t value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || end != digits.data() + digits.size()) expected(what);
  if (negative) next();
  next();
  return value;
}

void Lexer::expected(std::string_view what) const {
  fail(fmt::format("expected {}, found {}", what, describe(peek())));
}

void Lexer::fail(std::string_view message) const { fail_at(peek(), message); }

void Lexer::fail_at(const Token& at, std::string_view message) {
  throw UserError("line {}, column {}: {}", at.line, at.column, message);
}

std::string quote_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n' || c == '\t') {
      out += c == '\n' ? "\\n" : "\\t";
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string quote_name(std::string_view name) {
  return !name.empty() && identifier_length(name) == name.size() ? std::string(name) : quote_string(name);
}

}  // namespace tw
