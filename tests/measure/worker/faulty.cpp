// A worker that misbehaves when it is to run certain workloads for the first time. Arguments: FAULT:SLOT, with the
// faults crash, end (by somebody else), hang, garbage and leave; FAULT:SLOT:FILE for the first worker that makes FILE.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "measure/worker.h"

namespace {

[[noreturn]] void stop_for_ever() {
  for (;;) pause();
}

bool is_first(const std::string& file) { return open(file.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600) >= 0; }

void misbehave(const std::string& fault) {
  if (fault == "crash") std::raise(SIGSEGV);
  if (fault == "end") std::raise(SIGTERM);
  if (fault == "leave") _exit(3);
  if (fault == "hang") stop_for_ever();
  const std::string garbage(4096, 'x');
  if (send(0, garbage.data(), garbage.size(), MSG_NOSIGNAL) < 0) _exit(4);
}

}  // namespace

int main(int argc, char** argv) {
  tw::measure::serve_worker(0, tw::measure::make_cpu_executor, [&](const tw::measure::Request& request) {
    if (request.question != tw::measure::Question::kRun) return;
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      const size_t colon = word.find(':'), second = word.find(':', colon + 1);
      if (std::stoll(word.substr(colon + 1)) != request.slot) continue;
      if (second == std::string::npos || is_first(word.substr(second + 1))) misbehave(word.substr(0, colon));
    }
  });
}
