// tilewright worker: runs candidates for a compiler that started it. Not for people.
#include "driver/worker.h"

#include "tilewright/command.h"

namespace tw::cli {

void add_worker(Application& application) {
  CLI::App* verb = application.app.add_subcommand("worker", "Measures candidates for a compiler that starts it.");
  verb->group("");  // not in the help
  verb->callback([&application] {
    application.run = [] {
      driver::serve_compiler();
      return static_cast<int>(kOk);
    };
  });
}

}  // namespace tw::cli
