// Options of the C interface: those of the driver, and which of them were given.
#pragma once
#include <set>
#include <string>

#include "driver/options.h"
#include "tilewright/compiler.h"

struct TwCompileOptions {
  tw::driver::CompileOptions values;
  std::set<std::string, std::less<>> given;  // by name
};

namespace tw::driver::api {

/// The functions of TwCompilerApi of these names; they throw.
size_t option_count();
TwOptionInfo option_info(size_t index);
size_t target_count();
const char* target_name(size_t index);  // null: there is none
void set_option(TwCompileOptions& options, std::string_view name, std::string_view text);
void set_shape(TwCompileOptions& options, size_t entry, const std::string& input, Shape shape);
void set_dimension(TwCompileOptions& options, size_t entry, const std::string& name, int64_t value);
void set_constant(TwCompileOptions& options, const std::string& name, const DLTensor& tensor);
void set_state(TwCompileOptions& options, StatePair state, const DLTensor* initial);

/// What the environment says of options that were not given.
void read_environment(TwCompileOptions& options);

}  // namespace tw::driver::api
