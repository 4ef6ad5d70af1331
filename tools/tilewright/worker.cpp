// tilewright worker: runs candidates, or compiles GPU kernels, for a compiler that started it. Not for people.
#include "driver/tune/worker.h"

#include "tilewright/application.h"

namespace tw::cli {

void add_worker(Application& application) {
  CLI::App* verb = application.app.add_subcommand("worker", "Works for a compiler that starts it.");
  verb->group("");  // not in the help
  auto job = std::make_shared<std::string>("cpu");
  verb->add_option("JOB", *job);
  verb->callback([&application, job] {
    application.run = [job] {
      driver::serve_compiler(*job);
      return static_cast<int>(kOk);
    };
  });
}

}  // namespace tw::cli
