// Files that are either the old one or the new one, whatever happens during the write.
#pragma once
#include <functional>
#include <string>

#include "runtime/format/hash.h"

namespace tw::format {

/// Writes bytes at a place of the file, in any order; what lies between is zeros.
using PutBytes = std::function<void(uint64_t at, Bytes bytes)>;

enum class Durability : uint8_t {
  kSynced,  // a crash of the machine leaves the old file or the new one
  kCached,  // it may leave half of one: for what is compared with a hash whenever it is read
};

/// Replaces `path` by the bytes that `produce` hands to its argument: temporary file in the same directory, rename,
/// both synchronized with the disk unless `durability` says otherwise. On any error, also one thrown by `produce`, the
/// temporary file is removed and `path` is as before; kSynced also removes what killed processes left there. Throws
/// Error: kDiskFull, kIo, or kInvalidArgument when the directory is missing or `path` is something else than a regular
/// file.
void write_file_atomically(const std::string& path, const std::function<void(const PutBytes&)>& produce,
                           Durability durability = Durability::kSynced);
/// The same with the bytes at hand.
void write_file_atomically(const std::string& path, Bytes bytes, Durability durability = Durability::kSynced);

/// Removes the temporary files of killed processes from a directory: files of that form of name, of this user, whose
/// process is no more and that nobody has written to for ten minutes. Returns how many.
int64_t remove_abandoned_files(const std::string& directory);

}  // namespace tw::format
