// A worker of its own for the tests of measuring, so that they need neither LLVM nor the command.
#include "measure/worker.h"

int main() { tw::measure::serve_worker(0); }
