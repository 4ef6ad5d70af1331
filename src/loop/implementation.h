// Who computes a kernel that is not of our own making, as a value: a library's call or a row of the template library,
// each with the problem that it computes (runtime/format/problem.h). Read from text where plans are, printed where
// plans and artefacts are.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "expr/expr.h"
#include "runtime/format/problem.h"

namespace tw::loop {

/// What happens to a sum of products before it is stored.
struct SumEpilogue {
  /// What is read beside the sum: an element for each column (a bias), or for each element of the result (a residual).
  struct Operand {
    std::string name;
    DataType type = DataType::f16();
    bool is_tensor = false;
    friend bool operator==(const Operand&, const Operand&) = default;
  };
  Expr value = var("x0", DataType::f32());  ///< f32, of x0, the f32 sum, and x1, x2, .. of the operands in their types
  std::vector<Operand> operands;
  bool is_plain() const { return operands.empty() && value.is_var(); }  ///< the sum itself
  friend bool operator==(const SumEpilogue& a, const SumEpilogue& b) {
    return a.operands == b.operands && equal(a.value, b.value);
  }
};

/// "x2:f16:column,x3:f16:point max(((x0 + cast<f32>(x1)) + cast<f32>(x2)), 0:f32)".
std::string to_string(const SumEpilogue& epilogue);
/// Inverse of to_string; UserError for any other text.
SumEpilogue parse_epilogue(std::string_view text);

/// A kernel of the template library (templates/rows.h).
struct TemplateCall {
  std::string row;                    ///< its name
  format::ProblemDescriptor problem;  ///< the sum alone
  SumEpilogue epilogue = {};
  friend bool operator==(const TemplateCall&, const TemplateCall&) = default;
};

/// Nobody else, or one of the two. Copies share what they hold.
class Implementation {
 public:
  Implementation() = default;
  Implementation(format::LibraryCall call) : call_(std::make_shared<const Call>(std::move(call))) {}
  Implementation(TemplateCall call) : call_(std::make_shared<const Call>(std::move(call))) {}

  explicit operator bool() const { return call_ != nullptr; }
  /// Null unless it is one.
  const format::LibraryCall* library() const { return std::get_if<format::LibraryCall>(call_.get()); }
  const TemplateCall* of_template() const { return std::get_if<TemplateCall>(call_.get()); }

  friend bool operator==(const Implementation& a, const Implementation& b) {
    return a.call_ == b.call_ || (a.call_ != nullptr && b.call_ != nullptr && *a.call_ == *b.call_);
  }

 private:
  using Call = std::variant<format::LibraryCall, TemplateCall>;
  std::shared_ptr<const Call> call_;
};

/// "cublaslt 130100 0 gemm batch=..", "template gemm_sm90_.. gemm batch=1 .. epilogue x2:f16:column ..", or nothing.
std::string to_string(const Implementation& implementation);
/// Inverse of to_string; UserError for any other text. Whether there is such a row, and whether a library does such
/// things, is looked at where code is made.
Implementation parse_implementation(std::string_view text);

}  // namespace tw::loop
