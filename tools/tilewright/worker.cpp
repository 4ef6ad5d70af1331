// tilewright worker: runs candidates, or compiles GPU kernels, for a compiler that started it. Not for people.
#include "driver/worker.h"

#include "tilewright/command.h"

namespace tw::cli {

void add_worker(Application& application) {
  CLI::App* verb = application.app.add_subcommand("worker", "Works for a compiler that starts it.");
  verb->group("");  // not in the help
  auto job = std::make_shared<std::string>("measure");
  verb->add_option("JOB", *job)->check(CLI::IsMember({"measure", "cubins"}));
  verb->callback([&application, job] {
    application.run = [job] {
      driver::serve_compiler(*job == "cubins" ? driver::WorkerJob::kCubins : driver::WorkerJob::kMeasure);
      return static_cast<int>(kOk);
    };
  });
}

}  // namespace tw::cli
