// The command `tilewright` as a function of libtilewright: the compiler is in one file, which the program only starts.
#pragma once
#include "tilewright/compiler.h"

/// The program's own entry, for nobody else: takes over the process's standard streams, SIGPIPE and SIGINT. Returns the
/// exit code.
extern "C" TW_API int tw_command_main(int argc, char** argv);
