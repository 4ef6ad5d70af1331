#include "support/memory.h"

#include <algorithm>

#include "runtime/host/limits.h"
#include "support/error.h"
#include "support/text.h"

namespace tw {

void require_memory(int64_t bytes, std::string_view what) {
  constexpr int64_t kWorthALook = int64_t{1} << 20;  // less is had anywhere, and limits are read from files
  if (bytes < kWorthALook) return;
  const host::MemoryLimit limit = host::memory_limit();
  if (bytes <= limit.available) return;
  const auto text = [](int64_t size) { return size_text(static_cast<double>(size)); };
  throw ResourceError("{} needs {} of memory; {} has {} left of {}", what, text(bytes), limit.owner,
                      text(limit.available), text(limit.bytes));
}

int processes_that_fit(int64_t bytes) {
  return static_cast<int>(std::clamp<int64_t>(host::memory_limit().available / bytes, 1, host::usable_cpus()));
}

}  // namespace tw
