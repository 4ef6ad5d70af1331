// The program `tilewright`.
#include "tilewright/command_main.h"

int main(int argc, char** argv) { return tw_command_main(argc, argv); }
