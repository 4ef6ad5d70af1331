// The command as a function of another program: text goes to the caller, and errors are status objects.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tilewright/compiler.h"

namespace tw::cli {
namespace {

const TwCompilerApi& api() { return *tw_get_compiler_api(TW_COMPILER_API_VERSION); }

struct Caller {
  std::string output, error;
  int32_t exit_code = -1;
  TwCompilerErrorKind kind = TW_COMPILER_OK;
  std::string message;

  static void write(void* user, int32_t stream, const char* text, size_t size) {
    auto& caller = *static_cast<Caller*>(user);
    (stream == 1 ? caller.output : caller.error).append(text, size);
  }
  void call(const std::vector<const char*>& words) {
    const TwCompileCallbacks callbacks{sizeof(TwCompileCallbacks), this, nullptr, nullptr, nullptr};
    TwCompilerStatus* const status = tw_call_command(words.data(), words.size(), &callbacks, write, &exit_code);
    kind = api().status_kind(status);
    message = api().status_message(status);
    api().status_free(status);
  }
};

TEST(CallCommand, TextGoesToTheCallerAndNotToTheStreamsOfTheProcess) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Caller caller;
  caller.call({"cache", "path", "--json"});
  EXPECT_EQ(testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(caller.message, "");
  EXPECT_EQ(caller.exit_code, 0);
  EXPECT_NE(caller.output.find("tilewright.cache.v1"), std::string::npos) << caller.output;
}

TEST(CallCommand, HelpIsText) {
  Caller caller;
  caller.call({"explain", "--help"});
  EXPECT_EQ(caller.exit_code, 0);
  EXPECT_NE(caller.output.find("--no-run"), std::string::npos) << caller.output;
}

TEST(CallCommand, ErrorsAreStatusObjectsAndNotText) {
  testing::internal::CaptureStderr();
  Caller caller;
  caller.call({"explain", "nowhere.tw"});
  EXPECT_EQ(caller.kind, TW_COMPILER_USAGE);
  EXPECT_NE(caller.message.find("nowhere.tw"), std::string::npos) << caller.message;
  caller.call({"explain", "nowhere.tw", "--no-runs"});
  EXPECT_EQ(caller.kind, TW_COMPILER_USAGE);
  EXPECT_NE(caller.message.find("--no-run"), std::string::npos) << caller.message;
  caller.call({});
  EXPECT_EQ(caller.kind, TW_COMPILER_USAGE);
  EXPECT_EQ(caller.output + caller.error, "");
  EXPECT_EQ(caller.exit_code, -1) << "as it was";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(CallCommand, ArgumentsAreChecked) {
  const char* const word = nullptr;
  int32_t code = 0;
  for (TwCompilerStatus* status :
       {tw_call_command(&word, 1, nullptr, nullptr, &code), tw_call_command(nullptr, 1, nullptr, nullptr, &code),
        tw_call_command(nullptr, 0, nullptr, nullptr, nullptr)}) {
    EXPECT_EQ(api().status_kind(status), TW_COMPILER_USAGE);
    EXPECT_NE(std::string(api().status_message(status)).find("NULL"), std::string::npos);
    api().status_free(status);
  }
}

}  // namespace
}  // namespace tw::cli
