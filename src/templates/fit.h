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

  Instance instance(const Row& row, std::string_view target) const;  ///< `target`: "cuda:sm_90a"
  Fit without_epilogue() const;                                      ///< the product alone
};

/// The sum of `problem` with an epilogue, or why templates do not compute it.
Result<Fit> fit(const format::ProblemDescriptor& problem, Epilogue epilogue = {});

/// A convolution that reads single pixels as the product that it is, whose right side lies by columns; others as given.
format::ProblemDescriptor as_product(format::ProblemDescriptor problem);

/// The epilogues that are built ahead, the last one where it is asked for.
struct EpilogueClass {
  std::string_view name;
  Epilogue epilogue;
  DataType output;
};
std::vector<EpilogueClass> epilogue_classes(DataType operand);
inline constexpr std::string_view kWideClass = "none_f32";  ///< results as sums are, rounded to nothing

/// An instance that is built ahead, by the name of its class: that of its epilogue, or "none_by_columns" (a right side
/// whose columns are contiguous), "none_3d", "none_8_bytes", "none_4_bytes" (what lines are multiples of). `usual`: not
/// only where it is asked for by name.
struct Buildable {
  std::string kind;
  Instance instance;
  bool usual;
};
std::vector<Buildable> buildable(std::string_view target, DataType operand);

/// The buffers that a kernel takes, each with the least number of elements.
std::vector<std::pair<format::Operand, int64_t>> operands_of(const loop::TemplateCall& call);

}  // namespace tw::templates
