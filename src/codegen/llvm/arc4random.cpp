// glibc has arc4random since 2.36, and LLVM's support library asks for it (names of temporary files). With a definition
// of our own the library runs on glibc 2.34, too: the oldest that its packages promise.
#include <sys/random.h>

#include <cstdint>

extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() noexcept {
  uint32_t number = 0;
  // Four bytes are never cut short, and only a kernel without the call refuses: then every name is the first one tried.
  if (getrandom(&number, sizeof(number), 0) != sizeof(number)) return 0;
  return number;
}
