// Ctrl-C: while candidates are measured it means "enough", otherwise, and the second time, "stop".
#pragma once

namespace tw::cli {

/// From now on the first SIGINT during interruptible work only makes interrupted() true. Any other one ends the process
/// at once with kInterrupted; files are written atomically, so that is never half a file.
void watch_interrupts();
/// Whether what is done from now on can be cut short.
enum class Work { kInterruptible, kPlain };
void begin_work(Work kind);
bool interrupted();

}  // namespace tw::cli
