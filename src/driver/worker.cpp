#include "driver/worker.h"

#include <sys/socket.h>
#include <unistd.h>

#include "support/error.h"
#include "tune/measure/worker.h"

namespace tw::driver {

void serve_compiler() {
  int type = 0;
  socklen_t size = sizeof(type);
  if (getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &size) != 0)
    throw UsageError("the compiler starts workers by itself: standard input is not its socket");
  tune::serve_worker(STDIN_FILENO);
}

}  // namespace tw::driver
