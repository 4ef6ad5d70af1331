#include "support/folders.h"

#include <cstdlib>

namespace tw {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string cache_folder() {
  if (std::string own = variable("TILEWRIGHT_CACHE_DIR"); !own.empty()) return own;
  const std::string xdg = variable("XDG_CACHE_HOME");
  if (xdg.starts_with('/')) return xdg + "/tilewright";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/tilewright";
}

}  // namespace tw
