#include "runtime/device/cuda/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <sstream>

#include "runtime/format/error.h"

namespace tw::runtime::cuda {

using format::ErrorCode;

SharedLibrary::SharedLibrary(const char* name, const std::vector<const char*>& files, const char* remedy)
    : name_(name) {
  const char* listed = std::getenv("TILEWRIGHT_LIBRARY_PATH");
  std::istringstream folders(listed == nullptr ? "" : listed);
  for (bool more = true; more;) {
    std::string folder;
    more = static_cast<bool>(std::getline(folders, folder, ':'));
    if (more) folder += "/";  // the last one is none: where the system looks
    for (const char* file : files) {
      library_ = dlopen((folder + file).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library_ != nullptr) return;
    }
  }
  format::fail(ErrorCode::kDevice, name, ": ", files.front(), " cannot be opened (", dlerror(), "): ", remedy,
               ", name its folder in TILEWRIGHT_LIBRARY_PATH, or compile with --libraries none");
}

void* SharedLibrary::find(const char* symbol) const {
  void* found = dlsym(library_, symbol);
  if (found == nullptr) format::fail(ErrorCode::kDevice, name_, " is too old: it has no function ", symbol);
  return found;
}

}  // namespace tw::runtime::cuda
