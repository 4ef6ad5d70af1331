#include "driver/compile_cache.h"

#include <time.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "driver/option_table.h"
#include "driver/tune/tuning_records.h"
#include "runtime/format/atomic_file.h"
#include "support/build_id.h"
#include "support/hash.h"
#ifdef TW_HAVE_CUDA
#include "templates/library.h"
#endif

namespace tw::driver {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kArtefact = ".tw";
constexpr const char* kAbout = ".json";  // written last: without it there is no entry

// Of the clock that files get their times from, which is behind the usual one by up to a tick.
int64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

// What the artefact depends on besides the options and the model: the build, the targets' machine parameters, and where
// candidates are measured whatever else may decide between them.
std::string surroundings_text(const CompileOptions& o, std::span<const targets::Target> targets,
                              const CacheOptions& cache) {
  std::string text = fmt::format("build {}\n", build_id());
  for (const targets::Target& target : targets) {
    text += fmt::format("target {}\n", target_text(target.info));
    for (const auto& [name, library] : usable_libraries(o, target.info))
      text += fmt::format("library {} {}\n", name, library.version);
  }
  const TunerOptions& t = o.tuning;
  if (!is_measured(o)) return text + "by construction\n";
#ifdef TW_HAVE_CUDA
  if (targets.front().info.kind == DeviceKind::kCuda) {
    const Result<std::string> gpu = cache.find_gpu(architecture(targets.front().info));
    text += fmt::format("gpu {}\ntemplates {} {}\n", gpu.ok() ? *gpu : "none",
                        templates::library_revision(templates::template_folder()),
                        templates::TemplateLibrary({}).can_build());
  }
#endif
  return text + fmt::format("light {} us, whole {}, drop {}, database revision {}\n", t.light_us, t.whole_share,
                            t.drop_ratio, database_revision(t.database));
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// External data is named from the model's folder, wherever that is today.
fs::path folder_of(const std::string& model) { return fs::weakly_canonical(fs::absolute(model).parent_path()); }

// Names in models need not be UTF-8.
std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

bool external_data_is(const Json& files, const fs::path& folder) {
  return std::ranges::all_of(files, [&](const Json& file) {
    const Result<MappedFile> now = MappedFile::open(folder / file.at("path").get<std::string>());
    return now.ok() && hash_pieces(now->bytes()) == file.at("hash").get<std::string>();
  });
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CompileSummary, target, entries, families, groups, kernels, winograd_groups, opset,
                                   warnings)

CompileSummary summarize(const plan::Plan& plan) {
  CompileSummary s;
  s.target = plan.targets();
  for (const plan::EntryPlan& entry : plan.entries) {
    if (entry.target == plan.entries.front().target) s.entries.push_back(entry.name);
    s.groups += static_cast<int64_t>(entry.groups.size());
    for (const plan::GroupPlan& g : entry.groups) ++s.families[g.family];
  }
  return s;
}

CompileSummary summarize(const Compiled& compiled) {
  CompileSummary s = summarize(compiled.plan);
  s.kernels = compiled.kernels;
  s.winograd_groups = compiled.winograd_groups;
  s.opset = compiled.opset;
  s.warnings = compiled.warnings;
  return s;
}

std::string CompileCache::about_path(const Key& key) const { return options_.folder + "/" + key.name + kAbout; }

// Named by its content, so that what another compiler stores under the same key replaces no artefact that is read.
std::string CompileCache::artefact_path(const Key& key, const std::string& hash) const {
  return fmt::format("{}/{}.{}{}", options_.folder, key.name, hash, kArtefact);
}

std::optional<CompileCache::Key> CompileCache::key(const std::string& model, const CompileOptions& options,
                                                   std::span<const targets::Target> targets) const {
  if (options_.folder.empty() || kept_from_cache(options) != nullptr) return std::nullopt;
  Key key;
  key.started_ns = now_ns();
  key.model = model;
  const Result<MappedFile> file = MappedFile::open(model);
  if (!file.ok()) return std::nullopt;
  key.model_modified_ns = file->modified_ns();
  key.name =
      content_hash(key_text(options) + surroundings_text(options, targets, options_) + hash_pieces(file->bytes()));
  return key;
}

std::optional<CompileCache::Hit> CompileCache::find(const Key& key) const {
  const std::string text = read_text(about_path(key));
  if (text.empty()) return std::nullopt;
  const Json json = Json::parse(text, nullptr, false);
  try {
    if (!external_data_is(json.at("external"), folder_of(key.model))) return std::nullopt;
    const auto hash = json.at("hash").get<std::string>();
    const Json& summary = json.at("summary");
    const bool is_whole = content_hash(text_of(summary)) == json.at("of_summary").get<std::string>();
    Result<MappedFile> artefact = MappedFile::open(artefact_path(key, hash));
    if (is_whole && artefact.ok() && hash_pieces(artefact->bytes()) == hash) {
      std::error_code ignored;
      fs::last_write_time(about_path(key), fs::file_time_type::clock::now(), ignored);
      return Hit{std::move(artefact).value(), summary.get<CompileSummary>()};
    }
  } catch (const nlohmann::json::exception&) {
    // no text of ours: as damaged as other bytes would be
  }
  // Unless another compiler has written it anew since.
  if (read_text(about_path(key)) != text) return std::nullopt;
  remove(key);
  if (options_.notice) options_.notice(fmt::format("a damaged entry of the cache was removed: {}", about_path(key)));
  return std::nullopt;
}

// Files that are being written have endings of their own.
void CompileCache::remove(const Key& key) const {
  std::error_code ignored;
  fs::remove(about_path(key), ignored);
  for (const fs::directory_entry& file : fs::directory_iterator(options_.folder, ignored)) {
    const std::string name = file.path().filename().string();
    std::error_code gone;
    if (name.starts_with(key.name + ".") && name.ends_with(kArtefact)) fs::remove(file.path(), gone);
  }
}

void CompileCache::store(const Key& key, std::span<const uint8_t> artefact, const Compiled& compiled) const {
  if (!compiled.complete || static_cast<int64_t>(artefact.size()) > options_.max_bytes) return;
  try {
    Json external = Json::array();
    const Result<MappedFile> model = MappedFile::open(key.model);
    if (!model.ok() || model->modified_ns() != key.model_modified_ns) return;
    for (const std::string& name : compiled.external_files) {
      const Result<MappedFile> file = MappedFile::open(name);
      if (!file.ok() || file->modified_ns() >= key.started_ns) return;
      external.push_back({{"path", fs::path(name).lexically_relative(folder_of(key.model)).string()},
                          {"hash", hash_pieces(file->bytes())}});
    }
    fs::create_directories(options_.folder);
    const std::string hash = hash_pieces(artefact);
    format::write_file_atomically(artefact_path(key, hash), artefact, format::Durability::kCached);
    const Json summary = summarize(compiled);
    const std::string about = text_of(
        {{"hash", hash}, {"external", external}, {"summary", summary}, {"of_summary", content_hash(text_of(summary))}});
    format::write_file_atomically(about_path(key), format::bytes_of(about), format::Durability::kCached);
    prune(options_.max_bytes);
  } catch (const std::runtime_error& error) {  // of folders and of files
    if (options_.notice) options_.notice(fmt::format("the artefact is not cached: {}", error.what()));
  }
}

CacheStatus CompileCache::status() const {
  CacheStatus status{options_.folder, 0, 0, 0, options_.max_bytes};
  std::error_code missing;
  for (const fs::directory_entry& file : fs::directory_iterator(options_.folder, missing)) {
    std::error_code gone;
    const std::uintmax_t bytes = file.file_size(gone);
    if (!gone) status.bytes += static_cast<int64_t>(bytes);
    if (file.path().extension() == kAbout) ++status.entries;
    if (file.path().extension() == kCubinEnding) ++status.kernels;
  }
  return status;
}

int64_t CompileCache::prune(int64_t max_bytes) const {
  format::remove_abandoned_files(options_.folder);
  struct Entry {
    fs::file_time_type used = fs::file_time_type::min();
    int64_t bytes = 0;
    std::vector<fs::path> files;
  };
  std::map<std::string, Entry> entries;  // by the part of the name before a dot inside: temporary files are there too
  std::error_code missing;
  for (const fs::directory_entry& file : fs::directory_iterator(options_.folder, missing)) {
    std::error_code gone;
    const std::string name = file.path().filename().string();
    Entry& entry = entries[name.substr(0, name.find('.', 1))];
    const auto bytes = static_cast<int64_t>(file.file_size(gone));
    if (!gone) entry.bytes += bytes;
    const auto used = file.last_write_time(gone);
    if (!gone) entry.used = std::max(entry.used, used);
    entry.files.push_back(file.path());
  }
  std::vector<const Entry*> oldest;
  int64_t total = 0, removed = 0;
  for (const auto& [name, entry] : entries) {
    oldest.push_back(&entry);
    total += entry.bytes;
  }
  std::ranges::sort(oldest, [](const Entry* a, const Entry* b) { return a->used < b->used; });
  for (const Entry* entry : oldest) {
    if (total <= max_bytes) break;
    bool gone = true;
    for (const fs::path& file : entry->files) {
      fs::remove(file, missing);
      gone = gone && !missing;
    }
    if (!gone) continue;
    total -= entry->bytes;
    ++removed;
  }
  return removed;
}

}  // namespace tw::driver
