// Which build of the compiler this is, and where it lies.
#pragma once
#include <string>

namespace tw {

/// The build id that the linker gave to the program or shared library that holds this function: hexadecimal digits of a
/// hash of its content, so that another compiler has another one; "unknown" when it was linked without. Where LLVM is a
/// shared library, its id follows: it makes the code.
std::string build_id();

/// The file of that program or shared library, as an absolute path; empty when it is not known.
std::string own_file();

}  // namespace tw
