// The command as a function of another program: no stream, no signal and no exit of that process is touched.
#include <algorithm>
#include <string>
#include <vector>

#include "driver/api/caller.h"
#include "driver/api/status.h"
#include "tilewright/application.h"
#include "tilewright/host.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

// What the command would say is thrown as an error.
int call(std::vector<std::string> words) {
  Application application;
  const std::function<void()> read_global_options = set_up(application);
  CLI::App& app = application.app;
  try {
    std::ranges::reverse(words);  // as CLI11 takes them
    app.parse(std::move(words));
  } catch (const CLI::ExtrasError&) {
    throw UsageError("{}", unknown_words(app));
  } catch (const CLI::CallForHelp&) {
    print_output(app.help());
    return kOk;
  } catch (const CLI::ParseError& error) {
    throw UsageError("{}", error.what());
  }
  read_global_options();
  return application.run();
}

std::vector<std::string> words_of(const char* const* words, size_t count) {
  driver::api::require(words != nullptr || count == 0, "the words are NULL");
  std::vector<std::string> all;
  for (size_t i = 0; i < count; ++i) {
    driver::api::require(words[i] != nullptr, "a word is NULL");
    all.emplace_back(words[i]);
  }
  return all;
}

}  // namespace
}  // namespace tw::cli

extern "C" TwCompilerStatus* tw_call_command(const char* const* words, size_t count,
                                             const TwCompileCallbacks* callbacks, TwCommandWrite write,
                                             int32_t* exit_code) {
  using namespace tw::cli;
  return tw::driver::api::guarded([&] {
    tw::driver::api::require(exit_code != nullptr, "there is no place for the exit code: NULL");
    tw::driver::api::Caller caller(callbacks);
    void* const user = callbacks == nullptr ? nullptr : callbacks->user;
    const Host program{[&](TextStream stream, std::string_view text) {
                         if (write != nullptr) write(user, static_cast<int32_t>(stream), text.data(), text.size());
                       },
                       caller.refit_progress()};
    const Hosted hosted(program);
    *exit_code = call(words_of(words, count));
  });
}
