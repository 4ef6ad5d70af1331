#include "driver/tune/tuning_database.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tw::database {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TaskKey, program, environment)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Record, family, layouts, schedule, predicted_us, outcome, reason, best_us, median_us,
                                   samples, quiet_share, is_rough)
}  // namespace tw::database

namespace tw::driver {
namespace {

using Json = nlohmann::json;
using database::Database;
using database::Record;
using database::TaskKey;

constexpr std::string_view kSchema = "tilewright.tuning.v2";
constexpr std::string_view kOldSchema = "tilewright.tuning.v1";  // records without is_rough

std::unique_ptr<Database> open(const std::string& path, const Notice& notice) {
  if (path.empty()) throw UsageError("there is no folder for a tuning database: set TILEWRIGHT_DB or give --db");
  std::string why;
  std::unique_ptr<Database> database = Database::open(path, [&](const std::string& text) {
    why = text;
    if (notice) notice(text);
  });
  if (database == nullptr) throw ResourceError(why);
  return database;
}

// Records by task, in one transaction for each.
class Adder {
 public:
  void add(TaskKey key, Record record) {
    tasks_[{std::move(key.program), std::move(key.environment)}].push_back(std::move(record));
  }
  Imported store(Database& database) {
    Imported result;
    for (auto& [words, records] : tasks_) {
      const TaskKey key{words.first, words.second};
      const std::vector<Record> known = database.find(key);
      std::erase_if(records, [&](const Record& r) {
        return std::ranges::any_of(known,
                                   [&](const Record& k) { return k.schedule == r.schedule && k.layouts == r.layouts; })
                   ? (++result.known, true)
                   : false;
      });
      result.added += static_cast<int64_t>(records.size());
      if (!records.empty()) database.store(key, records);
    }
    if (result.added > 0) database.note_change();
    return result;
  }

 private:
  std::map<std::pair<std::string, std::string>, std::vector<Record>> tasks_;
};

}  // namespace

database::DatabaseStatus database_status(const std::string& path, const Notice& notice) {
  return open(path, notice)->status();
}

std::string export_records(const std::string& path, const Notice& notice) {
  std::string text = Json{{"schema", kSchema}}.dump() + "\n";
  open(path, notice)->for_each([&](const TaskKey& key, const Record& r) {
    Json line = key;
    line.update(r);
    text += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  });
  return text;
}

Imported import_records(const std::string& path, std::string_view text, const Notice& notice) {
  std::istringstream lines{std::string(text)};
  Adder adder;
  int64_t number = 0;
  bool is_old = false;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    Json json = Json::parse(line, nullptr, false);
    try {
      if (number == 1) {
        const auto schema = json.at("schema").get<std::string>();
        is_old = schema == kOldSchema;
        if (!is_old && schema != kSchema) throw UsageError("another schema");
        continue;
      }
      if (is_old) json["is_rough"] = false;
      adder.add(json.get<TaskKey>(), json.get<Record>());
    } catch (const nlohmann::json::exception&) {
      throw UsageError("line {} is not a tuning record", number);
    }
  }
  if (number == 0) throw UsageError("the file is empty");
  return adder.store(*open(path, notice));
}

Imported merge_database(const std::string& path, const std::string& other, const Notice& notice) {
  if (!std::filesystem::is_regular_file(other))
    throw UsageError("cannot read the database '{}': there is no such file", other);
  const std::unique_ptr<Database> into = open(path, notice);
  const std::unique_ptr<Database> from = Database::open_existing(other);
  if (from == nullptr) throw UsageError("'{}' is not a tuning database", other);
  Adder adder;
  from->for_each([&](const TaskKey& key, const Record& record) { adder.add(key, record); });
  return adder.store(*into);
}

}  // namespace tw::driver
