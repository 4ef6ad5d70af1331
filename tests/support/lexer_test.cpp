#include "support/lexer.h"

#include <gtest/gtest.h>

#include "support/error.h"

namespace tw {
namespace {

std::string error_of(std::string_view text, void (*read)(Lexer&)) {
  try {
    Lexer lexer(text);
    read(lexer);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Lexer, SplitsAllKinds) {
  Lexer lexer("a.b $r0 12 1.5e-3:f32 \"x\\\"y\" -> .. 0..4 # gone\n<<= inf:f16 info nan0x7f:f32");
  const std::vector<std::pair<TokenKind, std::string>> expected = {
      {TokenKind::kIdentifier, "a.b"},     {TokenKind::kIdentifier, "$r0"},
      {TokenKind::kNumber, "12"},          {TokenKind::kNumber, "1.5e-3:f32"},
      {TokenKind::kString, "x\"y"},        {TokenKind::kPunctuation, "->"},
      {TokenKind::kPunctuation, ".."},     {TokenKind::kNumber, "0"},
      {TokenKind::kPunctuation, ".."},     {TokenKind::kNumber, "4"},
      {TokenKind::kPunctuation, "<<"},     {TokenKind::kPunctuation, "="},
      {TokenKind::kNumber, "inf:f16"},     {TokenKind::kIdentifier, "info"},
      {TokenKind::kNumber, "nan0x7f:f32"}, {TokenKind::kEnd, ""}};
  for (const auto& [kind, text] : expected) {
    const Token token = lexer.next();
    EXPECT_EQ(token.kind, kind) << text;
    EXPECT_EQ(token.text, text);
  }
  EXPECT_TRUE(lexer.at_end());
  EXPECT_EQ(lexer.next().kind, TokenKind::kEnd);
}

TEST(Lexer, ColonAndDotStayApartFromNames) {
  Lexer lexer("x: 3: f32 a..b end.");
  std::vector<std::string> texts;
  while (!lexer.at_end()) texts.push_back(lexer.next().text);
  EXPECT_EQ(texts, (std::vector<std::string>{"x", ":", "3", ":", "f32", "a", "..", "b", "end", "."}));
}

TEST(Lexer, CountsLinesAndColumns) {
  Lexer lexer("a\n  bb # c\n\n\tc");
  EXPECT_EQ(lexer.peek().line, 1);
  EXPECT_EQ(lexer.peek(1).line, 2);
  EXPECT_EQ(lexer.peek(1).column, 3);
  EXPECT_EQ(lexer.peek(2).line, 4);
  EXPECT_EQ(lexer.peek(2).column, 2);
  EXPECT_EQ(lexer.peek(9).kind, TokenKind::kEnd);
}

TEST(Lexer, ReadsIntegers) {
  Lexer lexer("7 -7 -9223372036854775808 9223372036854775807");
  EXPECT_EQ(lexer.integer(), 7);
  EXPECT_EQ(lexer.integer(), -7);
  EXPECT_EQ(lexer.integer(), INT64_MIN);
  EXPECT_EQ(lexer.integer(), INT64_MAX);
}

TEST(Lexer, SaysWhereAndWhat) {
  EXPECT_EQ(error_of("a\n b",
                     [](Lexer& l) {
                       l.next();
                       l.expect("=");
                     }),
            "line 2, column 2: expected '=', found 'b'");
  EXPECT_EQ(error_of("a",
                     [](Lexer& l) {
                       l.next();
                       l.identifier();
                     }),
            "line 1, column 2: expected an identifier, found the end");
  EXPECT_EQ(error_of("12.5", [](Lexer& l) { l.integer("a size"); }), "line 1, column 1: expected a size, found '12.5'");
  EXPECT_EQ(error_of("9223372036854775808", [](Lexer& l) { l.integer(); }),
            "line 1, column 1: expected an integer, found '9223372036854775808'");
  EXPECT_EQ(error_of("- x", [](Lexer& l) { l.integer(); }), "line 1, column 1: expected an integer, found '-'");
  EXPECT_EQ(error_of("x \"ab\ncd\"", [](Lexer&) {}), "line 1, column 3: this string has no end");
  EXPECT_EQ(error_of("x\n `", [](Lexer&) {}), "line 2, column 2: unexpected character '`'");
}

TEST(Lexer, QuotesNamesThatNeedIt) {
  EXPECT_EQ(quote_name("conv1.out"), "conv1.out");
  EXPECT_EQ(quote_name("/a/b:0"), "\"/a/b:0\"");
  EXPECT_EQ(quote_name(""), "\"\"");
  EXPECT_EQ(quote_name("a."), "\"a.\"");
  for (const std::string name : {"x", "a b", "q\"\\\n\t", "0x", "", "a..b", "-1", "\xc3\xa9"}) {
    Lexer lexer(quote_name(name));
    EXPECT_EQ(lexer.name(), name);
    EXPECT_TRUE(lexer.at_end());
  }
}

}  // namespace
}  // namespace tw
