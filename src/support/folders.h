// Where files of this user live.
#pragma once
#include <string>

namespace tw {

/// Folder for what can be made anew: $TILEWRIGHT_CACHE_DIR, else $XDG_CACHE_HOME/tilewright, else
/// $HOME/.cache/tilewright (XDG Base Directory Specification: empty counts as unset, relative is ignored); empty when
/// none of them is set. The folder need not exist.
std::string cache_folder();

/// File of the tuning records: the one asked for, else $TILEWRIGHT_DB, else tuning.db in the folder for what is worth
/// keeping, $XDG_STATE_HOME/tilewright, else $HOME/.local/state/tilewright; empty when none of them is set, or when
/// /dev/null is named.
std::string tuning_database(const std::string& asked = "");

}  // namespace tw
