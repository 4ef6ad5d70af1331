// The command `tilewright`: one verb, its options, its exit code.
#include "tilewright/command.h"

int main(int argc, char** argv) {
  using namespace tw::cli;
  Application application;
  CLI::App& app = application.app;
  app.name("tilewright");
  app.description(
      "Example: tilewright compile resnet50.onnx -o resnet50.tw && tilewright bench resnet50.tw\n\n"
      "Tilewright compiles ONNX models to verified native artefacts and runs them.");
  app.set_version_flag("--version", "tilewright 0.1.0");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", application.global.json, "One JSON document on stdout; text goes to stderr");
  app.add_flag("-v", application.global.verbose, "Say more (-vv: more still)");
  add_compile(application);
  add_run(application);
  add_bench(application);
  add_verify(application);
  add_inspect(application);
  add_doctor(application);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  return guarded(application.run);
}
