#include "support/folders.h"

#include <cstdlib>
#include <string_view>

namespace tw {
namespace {

constexpr std::string_view kNowhere = "/dev/null";  // as a place: none is wanted

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

std::string state_folder() {
  const std::string xdg = variable("XDG_STATE_HOME");
  if (xdg.starts_with('/')) return xdg + "/tilewright";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.local/state/tilewright";
}

std::string tuning_database(const std::string& asked) {
  const std::string own = asked.empty() ? variable("TILEWRIGHT_DB") : asked;
  if (!own.empty()) return own == kNowhere ? "" : own;
  const std::string folder = state_folder();
  return folder.empty() ? "" : folder + "/tuning.db";
}

}  // namespace tw
