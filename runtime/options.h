// Options of models and contexts after they passed the C interface; logging.
#pragma once
#include <string>
#include <vector>

#include "runtime/format/signature.h"
#include "runtime/memory.h"
#include "tilewright/runtime.h"

namespace tw::runtime {

struct Options {
  int threads = 0;  ///< 0: every CPU of the affinity mask that the CPU quota pays for
  int device = 0;
  int profile = 0;
  TwState* state = nullptr;  ///< of a context; null: its own
  std::string level;         ///< of a CPU artefact's targets, by its name; empty: the first one that this machine runs
  std::vector<format::PublicKey> trusted;  ///< of a model: with some it is loaded only if one of them signed it
  Allocator allocator;
  void (*log_function)(void* user, TwLogLevel level, const char* message) = nullptr;
  void* log_user = nullptr;

  void log(TwLogLevel level, const std::string& message) const {
    if (log_function != nullptr) log_function(log_user, level, message.c_str());
  }
};

}  // namespace tw::runtime
