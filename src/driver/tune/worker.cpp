#include "driver/tune/worker.h"

#include <sys/socket.h>
#include <unistd.h>

#include "measure/cuda_executor.h"
#include "measure/worker.h"
#ifdef TW_HAVE_CUDA
#include "codegen/cuda/cubin_worker.h"
#endif

namespace tw::driver {

void serve_compiler(const std::string& job) {
  int type = 0;
  socklen_t size = sizeof(type);
  if (getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &size) != 0)
    throw UsageError("the compiler starts workers by itself: standard input is not its socket");
  if (job == "cpu") return measure::serve_worker(STDIN_FILENO);
  if (job != "cubins") return measure::serve_worker(STDIN_FILENO, [&] { return measure::make_cuda_executor(job); });
#ifdef TW_HAVE_CUDA
  codegen::serve_cubins(STDIN_FILENO);
#else
  throw Unsupported("this build has no CUDA (TW_CUDA=OFF)");
#endif
}

}  // namespace tw::driver
