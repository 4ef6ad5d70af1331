// The text of one instance of a template: a row's parameters, types, and the epilogue as code.
#pragma once
#include <string>
#include <vector>

#include "loop/implementation.h"
#include "templates/rows.h"

namespace tw::templates {

using Epilogue = loop::SumEpilogue;

struct Instance {
  Row row;
  DataType operand = DataType::f16(), output = DataType::f16();
  bool a_by_rows = true, b_by_rows = true;
  Epilogue epilogue = {};
  std::string architecture = "sm_90a";  ///< that it is compiled for
  /// Bytes that lines of operands and of the result are multiples of: 16, where the row is for warps 8 or 4, of results
  /// 2 too.
  Access access = {};
  int dims = 2;  ///< of a convolution's window
};

/// Why an epilogue cannot be part of a row's kernel; empty if it can.
std::string why_declined(const Row& row, const Epilogue& epilogue, DataType output);
/// Name of the kernel in its cubin.
inline constexpr std::string_view kKernelName = "tw_template";
/// CUDA C++ of the kernel `kKernelName` and of the host program that says what its launches take (host.h).
std::string source_of(const Instance& instance);
/// Everything but the text that the compiler must be told: of its own options, no paths.
std::vector<std::string> compiler_options(const Instance& instance);

}  // namespace tw::templates
