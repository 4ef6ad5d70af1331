// Housekeeping of the tuning database for the command: what is in it, and its way to and from other machines.
#pragma once
#include <functional>
#include <string>

#include "database/database.h"

namespace tw::driver {

using Notice = std::function<void(const std::string&)>;

/// What the database `path` holds. ResourceError, with the reason, when it cannot be opened.
database::DatabaseStatus database_status(const std::string& path, const Notice& notice);

/// All records as text: a line of JSON that names the format, then a line for each record.
std::string export_records(const std::string& path, const Notice& notice);

struct Imported {
  int64_t added = 0;
  int64_t known = 0;  // records of candidates that the database has already: those stay
};
/// Adds the records of export_records(). UsageError naming the line that is no record.
Imported import_records(const std::string& path, std::string_view text, const Notice& notice);
/// Adds the records of another database. UsageError when `other` is none.
Imported merge_database(const std::string& path, const std::string& other, const Notice& notice);

}  // namespace tw::driver
