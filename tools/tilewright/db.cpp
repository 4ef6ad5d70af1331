// tilewright db status|export|import|merge: tuning records.
#include "driver/tune/tuning_database.h"
#include "runtime/format/atomic_file.h"
#include "support/error.h"
#include "support/folders.h"
#include "support/text.h"
#include "tilewright/command.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

std::string path_of(const VerbOptions& options) { return tuning_database(options.compile.tuning.database); }

std::function<void(const std::string&)> notes(const GlobalOptions& global) {
  return [global](const std::string& text) { note(global, text); };
}

int status(const GlobalOptions& global, const VerbOptions& options) {
  const database::DatabaseStatus status = driver::database_status(path_of(options), notes(global));
  if (global.json) {
    print_json("tilewright.db.v1", {{"path", status.path},
                                    {"bytes", status.bytes},
                                    {"tasks", status.tasks},
                                    {"measured", status.measured},
                                    {"quarantined", status.quarantined},
                                    {"environments", status.environments}});
    return kOk;
  }
  say(global, fmt::format("{}: {}, {}, {} measured, {} quarantined, {}", status.path,
                          size_text(static_cast<double>(status.bytes)), count_text(status.tasks, "task"),
                          count_text(status.measured, "candidate"), status.quarantined,
                          count_text(std::ssize(status.environments), "environment")));
  return kOk;
}

int export_to(const GlobalOptions& global, const VerbOptions& options) {
  const std::string text = driver::export_records(path_of(options), notes(global));
  format::write_file_atomically(options.model, format::bytes_of(text));
  const auto records = std::ranges::count(text, '\n') - 1;
  if (global.json) {
    print_json("tilewright.db.v1", {{"file", options.model}, {"records", records}});
    return kOk;
  }
  say(global, fmt::format("{} -> {}", count_text(records, "record"), options.model));
  return kOk;
}

int report(const GlobalOptions& global, const driver::Imported& imported) {
  if (global.json) {
    print_json("tilewright.db.v1", {{"added", imported.added}, {"known", imported.known}});
    return kOk;
  }
  say(global, fmt::format("{} added, {} known already", count_text(imported.added, "record"), imported.known));
  return kOk;
}

int import_from(const GlobalOptions& global, const VerbOptions& options) {
  const std::vector<uint8_t> bytes = read_file(options.model);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    return report(global, driver::import_records(path_of(options), text, notes(global)));
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("'{}': {}", options.model, error.what()));
  }
}

int merge(const GlobalOptions& global, const VerbOptions& options) {
  return report(global, driver::merge_database(path_of(options), options.model, notes(global)));
}

}  // namespace

void add_db(Application& application) {
  add_group(
      application, "db",
      "Example: tilewright db status\n\nShows, exports or adds to the tuning database. It is $TILEWRIGHT_DB, else "
      "tilewright/tuning.db in $XDG_STATE_HOME.");
  add_verb(application,
           {"db/status", "Example: tilewright db status\n\nShows how much the database holds.", "", "", status});
  add_verb(application,
           {"db/export",
            "Example: tilewright db export tuning.ndjson\n\nWrites all records to a file, one JSON object per line.",
            "FILE", "File to write", export_to});
  add_verb(application, {"db/import",
                         "Example: tilewright db export tuning.ndjson && tilewright db import tuning.ndjson\n\nAdds "
                         "records from a file. Records that the database has already stay as they are.",
                         "FILE", "File written by db export", import_from});
  add_verb(
      application,
      {"db/merge",
       "Example: tilewright db status --db other.db && tilewright db merge other.db\n\nAdds the records of another "
       "database.",
       "FILE", "The other database", merge});
}

}  // namespace tw::cli
