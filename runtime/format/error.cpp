#include "runtime/format/error.h"

#include <cerrno>
#include <system_error>

namespace tw::format {

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNoSuchShape:
    case ErrorCode::kInputValue:
      return 2;
    case ErrorCode::kDamaged:
    case ErrorCode::kIncompatible:
    case ErrorCode::kDevice:
      return 5;
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kDiskFull:
      return 6;
    case ErrorCode::kInternal:
      return 70;
    case ErrorCode::kIo:
      break;
  }
  return 1;
}

void fail_errno(int error, const std::string& doing) {
  // EFBIG: the file would pass the process's file size limit, which to the user is a full disk.
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  const ErrorCode code = full ? ErrorCode::kDiskFull : error == ENOMEM ? ErrorCode::kOutOfMemory : ErrorCode::kIo;
  fail(code, doing, ": ", std::generic_category().message(error));
}

}  // namespace tw::format
