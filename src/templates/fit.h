// Problems as templates see them: a product, an epilogue, and in which order a launch's operands stand.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "runtime/format/problem.h"
#include "support/error.h"
#include "templates/host.h"

namespace tw::templates {

struct Fit {
  GemmDescriptor product;
  Epilogue epilogue;
  std::vector<std::string> operands;  ///< names in the order of Launch: a, b, those of the epilogue, the result
  /// A convolution that reads single pixels, as a product: b is then channels by filters.
  bool b_turned = false;

  Instance instance(const Row& row, std::string_view target) const;  ///< `target`: "cuda:sm_90a"
  Fit without_epilogue() const;                                      ///< the product alone
};

/// The sum of `problem` with an epilogue, or why templates do not compute it.
Result<Fit> fit(const format::ProblemDescriptor& problem, Epilogue epilogue = {});

/// The epilogues that are built ahead, the last one where it is asked for.
struct EpilogueClass {
  std::string_view name;
  Epilogue epilogue;
  DataType output;
};
std::vector<EpilogueClass> epilogue_classes(DataType operand);
inline constexpr std::string_view kWideClass = "none_f32";  ///< results as sums are, rounded to nothing

/// The buffers that a kernel takes, each with the least number of elements.
std::vector<std::pair<format::Operand, int64_t>> operands_of(const loop::TemplateCall& call);

}  // namespace tw::templates
