// Files that are either the old one or the new one, whatever happens during the write.
#pragma once
#include <functional>
#include <string>

#include "runtime/format/hash.h"

namespace tw::format {

using PutBytes = std::function<void(Bytes)>;

/// Replaces `path` by the bytes that `produce` hands to its argument: temporary file in the same directory, fsync,
/// rename, fsync of the directory. On any error, also one thrown by `produce`, the temporary file is removed and `path`
/// is as before. Throws Error: kDiskFull, kIo, or kInvalidArgument when the directory is missing or `path` is something
/// else than a regular file.
void write_file_atomically(const std::string& path, const std::function<void(const PutBytes&)>& produce);

}  // namespace tw::format
