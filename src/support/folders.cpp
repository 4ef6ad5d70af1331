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

// Ours in the folder that `xdg` names, else in the one at `usual` of the user's.
std::string own_folder(const char* xdg, const std::string& usual) {
  const std::string named = variable(xdg);
  if (named.starts_with('/')) return named + "/tilewright";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + usual + "/tilewright";
}

}  // namespace

std::string cache_folder() {
  const std::string own = variable("TILEWRIGHT_CACHE_DIR");
  return own.empty() ? own_folder("XDG_CACHE_HOME", "/.cache") : own;
}

std::string tuning_database(const std::string& asked) {
  const std::string own = asked.empty() ? variable("TILEWRIGHT_DB") : asked;
  if (!own.empty()) return own == kNowhere ? "" : own;
  const std::string folder = own_folder("XDG_STATE_HOME", "/.local/state");
  return folder.empty() ? "" : folder + "/tuning.db";
}

}  // namespace tw
