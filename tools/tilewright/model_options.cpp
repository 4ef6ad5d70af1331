#include "tilewright/model_options.h"

#include <filesystem>

#include "tilewright/command.h"
#include "tilewright/host.h"
#include "tilewright/interrupt.h"

namespace tw::cli {
namespace {

// This very program, as a worker; where another one calls the command, one that is beside this library.
std::vector<std::string> worker_command() {
  if (host() != nullptr) return driver::find_worker();
  return {std::filesystem::read_symlink("/proc/self/exe").string(), "worker"};
}

std::function<void(const std::string&)> notices(const Progress& progress) {
  return [&progress](const std::string& notice) { progress.note(notice); };
}

}  // namespace

driver::CompileOptions with_surroundings(driver::CompileOptions options, Progress& progress) {
  driver::CompileOptions out = driver::with_surroundings(std::move(options), {worker_command(), notices(progress)});
  out.machine_model = measured_parameters();
  out.progress = std::ref(progress);
  if (out.no_measure) return out;
  if (host() == nullptr) {  // signals are the host's own
    watch_interrupts();
    out.tuning.interrupted = interrupted;
  }
  out.tuning.event = [&progress](const driver::TuneEvent& event) { progress.measured(event); };
  return out;
}

driver::CachePlace find_in_cache(const std::string& model, driver::CompileOptions& options, Progress& progress) {
  return driver::find_in_cache(model, options, notices(progress));
}

}  // namespace tw::cli
