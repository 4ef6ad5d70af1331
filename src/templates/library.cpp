#include "templates/library.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "codegen/cuda/fatbin.h"
#include "support/build_id.h"
#include "support/child_process.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/memory.h"
#include "support/parallel.h"

namespace tw::templates {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kBytesOfNvcc = int64_t{4} << 30;  // at its peak 3.4, for a kernel of CUTLASS 3.x
constexpr int kMaxSpillBytes = 64;
constexpr const char *kCubin = "kernel.cubin", *kHost = "host", *kAbout = "about.json";

std::atomic<int64_t> compilation_count = 0;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

void write_text(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), std::ssize(text));
  if (!file.flush()) throw ResourceError("templates: cannot write '{}'", path.string());
}

// A folder that nobody else has, on this machine or another that shares the place; it goes when this does.
struct WorkFolder {
  explicit WorkFolder(const fs::path& place) {
    std::error_code failed;  // said below
    fs::create_directories(place, failed);
    std::string name = (place / "tmp.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw ResourceError("templates: cannot make a folder in '{}': {}", place.string(), std::strerror(errno));
    path = name;
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

std::string quoted(const std::string& word) { return "'" + std::regex_replace(word, std::regex("'"), "'\\''") + "'"; }

// Runs a command with its output in a file; how it failed, empty: it did not. When this process has gone, a shell
// beside the command ends it and removes `made`, where all is that it makes.
std::string run(const std::vector<std::string>& command, const fs::path& log, const fs::path& made,
                const TemplateOptions& options) {
  constexpr double kLook = 0.05;  // seconds between two looks whether it is still wanted
  std::string line = fmt::format("exec 3<&0; {{ trap '' TERM; read x <&3; kill 0; rm -rf {}; kill -9 0; }} & exec",
                                 quoted(made.string()));
  for (const std::string& word : command) line += " " + quoted(word);
  Result<ChildProcess> started = ChildProcess::start({"/bin/sh", "-c", line + " > " + quoted(log.string()) + " 2>&1"});
  if (!started) throw ResourceError("templates: {}", started.reason());
  ChildProcess process = std::move(started).value();
  int signal = -1;
  for (double left = options.seconds; signal < 0 && left > 0; left -= kLook) {
    if (options.stop && options.stop()) return "stopped";
    signal = process.wait_signal(std::min(left, kLook));
  }
  const std::string how = process.end();
  if (signal < 0) return fmt::format("no end within {} s", options.seconds);
  return how == "exit code 0" ? "" : how;
}

// Whether nvcc refuses a text. It also passes on that a program of its own was killed or lacked something.
bool is_refusal(const std::string& how, const std::string& log) {
  static const std::regex kLacks("signal|[Kk]illed|[Mm]emory (exhausted|allocation)|out of memory|No space left");
  return how.starts_with("exit") && log.find("error") != std::string::npos && !std::regex_search(log, kLacks);
}

fs::path find_headers(const std::string& asked) {
  std::error_code none;
  const auto has = [&](const fs::path& folder) { return fs::exists(folder / "cutlass" / "cutlass.h", none); };
  const std::string given = asked.empty() ? variable("TILEWRIGHT_CUTLASS") : asked;
  if (!given.empty()) {
    if (has(given)) return given;
    throw UsageError("'{}' holds no cutlass/cutlass.h", given);
  }
  for (fs::path above = own_file(); above.has_relative_path(); above = above.parent_path()) {
    const fs::path folder = above.parent_path() / ".third_party" / "cutlass" / "include";
    if (has(folder)) return folder;
  }
  throw UsageError(
      "building templates needs CUTLASS's headers: scripts/fetch_cutlass.sh fetches them; or name their folder with "
      "--headers or TILEWRIGHT_CUTLASS");
}

std::string find_nvcc(const std::string& asked) {
  const std::string given = asked.empty() ? variable("TILEWRIGHT_NVCC") : asked;
  if (!given.empty()) return given;
  std::istringstream folders(variable("PATH") + ":/usr/local/cuda/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (const std::string path = folder + "/nvcc"; access(path.c_str(), X_OK) == 0) return path;
  }
  throw UsageError(
      "building templates needs nvcc of a CUDA toolkit (12.3 or newer): it is neither in PATH nor in "
      "/usr/local/cuda/bin; name it with --nvcc or TILEWRIGHT_NVCC");
}

// Names and sizes of all headers: another version differs in some.
std::string fingerprint(const fs::path& headers) {
  std::vector<std::string> files;
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(headers)) {
    if (file.is_regular_file())
      files.push_back(fmt::format("{} {}", file.path().lexically_relative(headers).string(), file.file_size()));
  }
  std::ranges::sort(files);
  return content_hash(fmt::format("{}", fmt::join(files, "\n"))).substr(0, 16);
}

// The line of `log` that says what is wrong.
std::string first_error(const std::string& log) {
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("error") != std::string::npos) return line.substr(0, 300);
  }
  return log.substr(0, 300);
}

int number_after(const std::string& log, const char* pattern) {
  std::smatch found;
  return std::regex_search(log, found, std::regex(pattern)) ? std::stoi(found[1]) : 0;
}

// Why a kernel that compiles is none that we want.
std::string defect(const std::string& log) {
  for (const char* code : {"C7509", "C7510"}) {
    if (log.find(code) != std::string::npos)
      return fmt::format("instructions of warp groups are serialized ({})", code);
  }
  const int spill = number_after(log, "([0-9]+) bytes spill stores");
  return spill > kMaxSpillBytes ? fmt::format("{} bytes of registers are spilled", spill) : "";
}

// Its name in the library: of the text and how it is compiled, not of the compiler, which other machines need not have.
std::string key_of(const Instance& instance) {
  return content_hash(fmt::format("tilewright template 1\n{}\n{}", fmt::join(compiler_options(instance), " "),
                                  source_of(instance)))
      .substr(0, 32);
}

Reason damaged() { return declined("damaged: 'tilewright templates build' makes it anew"); }

Result<BuiltTemplate> read_built(const fs::path& folder) try {
  const Json about = Json::parse(read_text(folder / kAbout), nullptr, false);
  const std::string cubin = read_text(folder / kCubin);
  if (!about.is_object()) return declined("not built: 'tilewright templates build' does it");
  if (about.value("cubin", "") != content_hash(cubin) ||
      about.value("host", "") != content_hash(read_text(folder / kHost)))
    return damaged();
  return BuiltTemplate{folder / kCubin,
                       folder / kHost,
                       std::ssize(cubin),
                       about.value("registers", 0),
                       about.value("seconds", 0.0),
                       about.value("toolchain", "")};
} catch (const Json::exception&) {  // no text of ours
  return damaged();
}

}  // namespace

std::string template_folder() {
  const std::string cache = cache_folder();
  return cache.empty() ? "" : cache + "/templates";
}

std::string library_revision(const std::string& folder) {
  std::vector<std::string> built;
  std::error_code none;
  for (const fs::directory_entry& instance : fs::directory_iterator(folder, none))
    built.push_back(instance.path().filename().string() + read_text(instance.path() / kAbout));
  std::ranges::sort(built);
  return content_hash(fmt::format("{}", fmt::join(built, "\n")));
}

Result<BuiltTemplate> TemplateLibrary::find(const Instance& instance) const {
  if (options_.folder.empty()) return declined("there is no place for templates: set TILEWRIGHT_CACHE_DIR");
  return read_built(fs::path(options_.folder) / key_of(instance));
}

const TemplateLibrary::Toolchain& TemplateLibrary::toolchain() {
  if (!toolchain_.name.empty()) return toolchain_;
  toolchain_.headers = find_headers(options_.headers);
  toolchain_.nvcc = find_nvcc(options_.nvcc);
  const WorkFolder work(fs::temp_directory_path());
  const std::string failed = run({toolchain_.nvcc, "--version"}, work.path / "log", work.path, options_);
  const std::string text = read_text(work.path / "log");
  if (!failed.empty()) throw UsageError("'{} --version' failed: {}", toolchain_.nvcc, failed);
  std::smatch version;
  const bool known = std::regex_search(text, version, std::regex("V[0-9.]+"));
  toolchain_.name = fmt::format("nvcc {}, CUTLASS {}", known ? version[0].str() : "?", fingerprint(toolchain_.headers));
  return toolchain_;
}

int64_t TemplateLibrary::compilations() { return compilation_count; }

bool TemplateLibrary::can_build() const try {
  return access(find_nvcc(options_.nvcc).c_str(), X_OK) == 0 && !find_headers(options_.headers).empty();
} catch (const UsageError&) {
  return false;
}

Result<BuiltTemplate> TemplateLibrary::compile(const std::string& key, const Instance& instance) {
  const fs::path place = fs::path(options_.folder) / key;
  const WorkFolder folder(options_.folder);
  const fs::path& work = folder.path;
  const fs::path made = work / "made", text = work / "kernel.cu", log = work / "log";
  fs::create_directories(made);
  write_text(text, source_of(instance));
  // One run makes both: what nvcc embeds in the host program is the cubin.
  std::vector<std::string> command = {toolchain_.nvcc};
  std::ranges::copy(compiler_options(instance), std::back_inserter(command));
  for (const std::string& word :
       {std::string("-I"), toolchain_.headers, std::string("--keep"), std::string("--keep-dir"), work.string(),
        text.string(), std::string("-o"), (made / kHost).string()})
    command.push_back(word);
  const auto started = std::chrono::steady_clock::now();
  ++compilation_count;
  const std::string failed = run(command, log, work, options_);
  const std::string said = read_text(log);
  const std::string why = fmt::format("nvcc: {}: {}", failed, first_error(said));
  if (!failed.empty() && !is_refusal(failed, said)) throw ResourceError(why);
  if (!failed.empty()) return Reason{why};
  if (const std::string wrong = defect(said); !wrong.empty()) return declined("{}", wrong);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  // With PTX for GPUs that come later there is a fatbin around both, which drivers take in a cubin's place.
  const char* left = codegen::is_portable(instance.architecture) ? "kernel.fatbin" : kCubin;
  const std::string cubin = read_text(work / left);
  if (cubin.empty()) return declined("nvcc left no {}", left);
  write_text(made / kCubin, cubin);
  const Json about = {{"row", name_of(instance.row)},
                      {"cubin", content_hash(cubin)},
                      {"host", content_hash(read_text(made / kHost))},
                      {"registers", number_after(said, "Used ([0-9]+) registers")},
                      {"seconds", seconds.count()},
                      {"toolchain", toolchain_.name}};
  write_text(made / kAbout, about.dump());
  // A folder takes its name when it is whole; whoever was first, or what another toolchain made, makes room.
  std::error_code taken;
  fs::rename(made, place, taken);
  if (taken) {
    fs::rename(place, work / "old", taken);
    fs::rename(made, place, taken);
  }
  return read_built(place);
}

void TemplateLibrary::build_all(const std::vector<Instance>& instances, const Done& done) {
  const std::string wanted = toolchain().name;
  std::map<std::string, std::vector<size_t>> users;  // by key: several groups may want the same
  std::vector<std::string> keys;
  for (size_t i = 0; i < instances.size(); ++i) {
    keys.push_back(key_of(instances[i]));
    users[keys[i]].push_back(i);
  }
  std::mutex mutex;
  std::string unfinished;
  const int processes = options_.processes > 0 ? options_.processes : processes_that_fit(kBytesOfNvcc);
  parallel_for(instances.size(), processes, [&](size_t i) {
    if (users.at(keys[i]).front() != i) return;
    Result<BuiltTemplate> built = find(instances[i]);
    try {
      if (!built.ok() || built->toolchain != wanted) built = compile(keys[i], instances[i]);
    } catch (const ResourceError& error) {
      built = Reason{error.what()};
      const std::lock_guard lock(mutex);
      unfinished = error.what();
    }
    const std::lock_guard lock(mutex);
    for (const size_t user : users.at(keys[i])) done(user, built);
  });
  if (!unfinished.empty()) throw ResourceError(unfinished);
}

}  // namespace tw::templates
