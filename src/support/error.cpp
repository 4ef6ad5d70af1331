#include "support/error.h"

#include <cstring>

namespace tw {

void fail_check(const char* file, int line, const char* condition, const std::string& message) {
  const char* base = std::strrchr(file, '/');
  throw InternalError("internal error at {}:{}: {} does not hold{}{}", base ? base + 1 : file, line, condition,
                      message.empty() ? "" : ": ", message);
}

}  // namespace tw
