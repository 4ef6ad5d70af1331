// A worker of its own for the tests of measuring, so that they need neither LLVM nor the command.
#include "tune/measure/worker.h"

int main() { tw::tune::serve_worker(0); }
