// Shared by the tests of loop passes: text in, text out.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "lower/pass.h"

namespace tw::lower::test {

/// A program with one kernel k(X: f32[8, 16], I: i64[8], Y: f32[8, 16] written, S: f32[8] written) over 6 tiles t.
inline loop::Program kernel(const std::string& body) {
  const std::string head =
      "program p kernel k(X: f32[8, 16] param, I: i64[8] param, Y: f32[8, 16] param written, S: f32[8] param written) "
      "tiles t in 6 {\n";
  loop::Program program = loop::parse_program(head + body + "\n}\n");
  loop::verify(program);
  return program;
}

/// The body of `kernel(body)` after the pass, verified with the pass's rules.
inline std::string after(const std::string& pass, const std::string& body) {
  const loop::Program result = find_pass(pass).run(kernel(body), {});
  loop::verify(result, find_pass(pass).rules);
  return loop::to_string(result);
}

/// The pass turns the body into `wanted`, written in any spacing.
inline void expect_pass(const std::string& pass, const std::string& body, const std::string& wanted) {
  EXPECT_EQ(after(pass, body), loop::to_string(kernel(wanted))) << "from\n" << loop::to_string(kernel(body));
}

}  // namespace tw::lower::test
