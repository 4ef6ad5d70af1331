// A worker that compiles kernels, without the command.
#include "codegen/cuda/cubin_worker.h"

int main() { tw::codegen::serve_cubins(0); }
