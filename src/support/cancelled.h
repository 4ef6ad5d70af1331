// What ends work that nobody wants any more.
#pragma once
#include <stdexcept>

#include "support/error.h"

namespace tw {

/// Whoever asked for the work has given up: no failure of its own.
class Cancelled : public FormattedError<std::runtime_error> {
 public:
  using FormattedError::FormattedError;
};

}  // namespace tw
