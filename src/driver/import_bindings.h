// Options that say what becomes of a model's inputs: shapes, dimensions, constants, states.
#pragma once
#include <string>

#include "driver/options.h"
#include "support/option_value.h"

namespace tw::driver {

/// Each adds to options.imports. A list of values makes one combination of each: lists are taken together, the first
/// values, the second ones and so on; a single value holds in every combination. A range (NAME=1..128) makes one
/// combination of each of its extents (driver/ranges.h) with each that there is. UsageError for a malformed text.
void set_shape(const OptionRow& row, const OptionText& text, CompileOptions& options);  // NAME:1x3x224x224,8x3x224x224
void set_dim(const OptionRow& row, const OptionText& text, CompileOptions& options);    // NAME=1,8
/// NAME=300, in every combination.
void set_bound(const OptionRow& row, const OptionText& text, CompileOptions& options);
void set_constant(const OptionRow& row, const OptionText& text, CompileOptions& options);  // NAME=@FILE
void set_links(const OptionRow& row, const OptionText& text, CompileOptions& options);     // FOLDER
/// INPUT=OUTPUT or INPUT=OUTPUT=@FILE: one more of options.states.
void set_state(const OptionRow& row, const OptionText& text, CompileOptions& options);

/// What all combinations say, in order; of constants a hash.
std::string print_shapes(const OptionRow& row, const CompileOptions& options);
std::string print_dims(const OptionRow& row, const CompileOptions& options);
std::string print_bounds(const OptionRow& row, const CompileOptions& options);
std::string print_constants(const OptionRow& row, const CompileOptions& options);
std::string print_links(const OptionRow& row, const CompileOptions& options);
std::string print_states(const OptionRow& row, const CompileOptions& options);

}  // namespace tw::driver
