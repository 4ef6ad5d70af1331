// Where files of this user live.
#pragma once
#include <string>

namespace tw {

/// Folder for what can be made anew: $TILEWRIGHT_CACHE_DIR, else $XDG_CACHE_HOME/tilewright, else
/// $HOME/.cache/tilewright (XDG Base Directory Specification: empty counts as unset, relative is ignored); empty when
/// none of them is set. The folder need not exist.
std::string cache_folder();

}  // namespace tw
