// The command with the verbs that there are, in the order of the help.
#include "tilewright/application.h"
#include "tilewright/help.h"
#include "tilewright/verb.h"

namespace tw::cli {

std::function<void()> set_up(Application& application) {
  CLI::App& app = application.app;
  app.name("tilewright");
  app.description(
      "Example: tilewright compile resnet50.onnx -o resnet50.tw && tilewright bench resnet50.tw\n\n"
      "Tilewright compiles ONNX models to verified native artefacts and runs them.");
  app.set_version_flag("--version", std::string(kVersionText));
  app.require_subcommand(1);
  app.fallthrough();
  std::function<void()> read_global_options = add_global_options(application);
  add_verbs(application);
  app.allow_config_extras(CLI::config_extras_mode::error);
  for (CLI::App* verb : app.get_subcommands({})) verb->allow_config_extras(CLI::config_extras_mode::error);
  return read_global_options;
}

void add_verbs(Application& application) {
  add_compile(application);
  add_run(application);
  add_bench(application);
  add_verify(application);
  add_inspect(application);
  add_explain(application);
  add_analyze(application);
  add_report(application);
  add_refit(application);
  add_sign(application);
  add_train(application);
  add_export_weights(application);
  add_advise(application);
  add_doctor(application);
  add_cache(application);
  add_db(application);
  add_templates(application);
  add_options_page(application);
  add_worker(application);
  use_help_text(application.app);
}

}  // namespace tw::cli
