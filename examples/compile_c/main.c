/* compile_c MODEL.onnx OUTPUT.tw [OPTION=VALUE..]: compiles a model to a file, as `tilewright compile` does; options by
 * their names, for example target=cpu:x86-64-v3 or dim=batch=8. Ctrl-C ends measuring with the best so far. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <tilewright/compiler.h>

static volatile sig_atomic_t interrupted = 0;

static void on_interrupt(int number) {
  (void)number;
  interrupted = 1;
}

static int32_t stop(void* user) {
  (void)user;
  return interrupted;
}

static void progress(void* user, const char* phase, int64_t done, int64_t total, const char* detail) {
  (void)user;
  fprintf(stderr, "%s %lld/%lld %s\n", phase, (long long)done, (long long)total, detail == NULL ? "" : detail);
}

/* The exit code of a call: its error is printed and freed. */
static int report(const TwCompilerApi* api, TwCompilerStatus* status) {
  const int code = (int)api->status_kind(status);
  if (status != NULL) fprintf(stderr, "compile_c: %s\n", api->status_message(status));
  api->status_free(status);
  return code;
}

static int set_options(const TwCompilerApi* api, TwCompileOptions* options, char** words, int count) {
  for (int i = 0; i < count; ++i) {
    char* const equals = strchr(words[i], '=');
    if (equals != NULL) *equals = 0;
    const int code = report(api, api->options_set(options, words[i], equals == NULL ? "true" : equals + 1));
    if (code != 0) return code;
  }
  return 0;
}

static int compile(const TwCompilerApi* api, const TwCompileOptions* options, const char* model, const char* output) {
  TwCompileCallbacks callbacks = {0};
  callbacks.struct_size = sizeof(callbacks);
  callbacks.progress = progress;
  callbacks.stop = stop;
  TwCompilation* made = NULL;
  int code = report(api, api->compile_file(model, options, &callbacks, &made));
  if (code != 0) return code;
  code = report(api, api->compilation_write(made, output));
  if (code == 0) printf("%s\n", api->compilation_report(made));
  api->compilation_free(made);
  return code;
}

int main(int argc, char** argv) {
  const TwCompilerApi* const api = tw_get_compiler_api(TW_COMPILER_API_VERSION);
  if (api == NULL || argc < 3) {
    fprintf(stderr, api == NULL ? "compile_c: libtilewright is older than this program\n"
                                : "usage: compile_c MODEL.onnx OUTPUT.tw [OPTION=VALUE..]\n");
    return 2;
  }
  signal(SIGINT, on_interrupt);
  TwCompileOptions* options = NULL;
  int code = report(api, api->options_create(&options));
  if (code == 0) code = set_options(api, options, argv + 3, argc - 3);
  if (code == 0) code = compile(api, options, argv[1], argv[2]);
  api->options_free(options);
  return code;
}
