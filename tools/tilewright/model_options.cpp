#include "tilewright/model_options.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "support/error.h"
#include "support/folders.h"
#include "tilewright/arrays.h"
#include "tilewright/command.h"
#include "tilewright/interrupt.h"

namespace tw::cli {
namespace {

int64_t parse_extent(std::string_view text, const std::string& whole, const std::string& option) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0) {
    throw UsageError(fmt::format("{} '{}': '{}' is no extent", option, whole, text));
  }
  return value;
}

// An option whose values have names, which help and errors list.
template <typename T>
void add_named(CLI::App& app, const std::string& option, T& value, const std::map<std::string, T>& names,
               const std::string& help) {
  app.add_option_function<std::string>(
         option, [&value, names](const std::string& name) { value = names.at(name); }, help)
      ->check(CLI::IsMember(names));
}

}  // namespace

Shape parse_shape(const std::string& text, const std::string& option) {
  Shape shape;
  size_t from = 0;
  while (!text.empty() && from <= text.size()) {
    const size_t cross = std::min(text.find('x', from), text.size());
    shape.push_back(parse_extent(std::string_view(text).substr(from, cross - from), text, option));
    from = cross + 1;
  }
  return shape;
}

double parse_duration(const std::string& text, const std::string& option) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"", 1}};
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  for (const auto& [unit, seconds] : kUnits) {
    if (code == std::errc() && std::string_view(end) == unit && std::isfinite(value) && value > 0)
      return value * seconds;
  }
  throw UsageError(fmt::format("{} '{}': expected a time such as 60s, 2m or 500ms", option, text));
}

std::pair<std::string, std::string> parse_binding(const std::string& text, const std::string& option) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError(fmt::format("{} '{}': expected NAME=VALUE", option, text));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void add_model_options(CLI::App& app, ModelOptions& o) {
  const size_t others = app.get_options().size();
  app.add_option(
         "--target", o.target,
         "cpu (this host), cpu:x86-64, -v2, -v3, -v4, with extensions as cpu:x86-64-v3+avxvnni and "
         "cpu:x86-64-v4+avx512vnni+avx512bf16; cuda:sm_80, cuda:sm_90a; several CPU levels for one artefact, of which "
         "the best is taken where it is loaded: cpu:x86-64-v4,cpu:x86-64-v3,cpu:x86-64")
      ->capture_default_str();
  app.add_option(
      "--shape", o.shapes,
      "Shape of an input: NAME:1x3x224x224, or several for one artefact: NAME:1x3x224x224,8x3x224x224 (repeatable)");
  app.add_option("--dim", o.dims, "Value of a symbolic dimension: NAME=8, or several: NAME=1,8,32 (repeatable)");
  app.add_option("--const", o.constants, "Bind an input at compile time: NAME=@FILE.npy (repeatable)");
  add_named(app, "--precision", o.precision,
            {{"strict", Precision::kStrict}, {"default", Precision::kDefault}, {"fast", Precision::kFast}},
            "strict (no algorithm with a larger error bound than the operator's own, as Winograd convolution or "
            "approximate functions; subnormal results kept), default, fast (as default, and on targets with avx512bf16 "
            "matrix products of f32 with constant weights may round both operands to bf16, on GPUs matrix products and "
            "convolutions of f32 to tf32; the summary says how many do)");
  add_named(app, "--dtype", o.dtype,
            {{"f32", ScalarType::kF32}, {"f16", ScalarType::kF16}, {"bf16", ScalarType::kBF16}},
            "f32, f16 or bf16: what the model has in f32 is stored and multiplied in this type; sums and statistics "
            "are f32, as is what needs its range (exponentials, sums, constants that the type does not hold) or whole "
            "numbers; inputs and outputs keep their types");
  add_named(app, "--libraries", o.libraries, {{"auto", driver::Libraries::kAuto}, {"none", driver::Libraries::kNone}},
            "auto: where candidates for a GPU are measured, kernels of cuBLASLt and cuDNN race with ours if those are "
            "installed ($TILEWRIGHT_LIBRARY_PATH lists folders to look in first), and an artefact for which one won "
            "needs it; "
            "none: neither (templates of CUTLASS, which an artefact holds itself, race all the same)");
  app.add_option("--plan", o.plan, "Replay the decisions of this plan file");
  app.add_option("--dump-ir", o.dump, "Write the IR after every pass into this folder");
  app.add_option("--disable-pass", o.disabled, "Leave out an optional pass (repeatable)");
  app.add_option("--disable-family", o.disabled_families,
                 "Leave out a family of kernels, as the summary and explain name them, and the pass that forms its "
                 "groups (repeatable)");
  app.add_flag("--no-optional-passes", o.no_optional_passes, "Leave out every optional pass");
  app.add_flag("--no-measure", o.no_measure,
               "Take what the constructors predict to be best; measure nothing ($TILEWRIGHT_NO_MEASURE)")
      ->envname("TILEWRIGHT_NO_MEASURE");
  app.add_option("--budget", o.budget,
                 "Longest time for measuring candidates, for example 60s or 2m (default: no limit)");
  app.add_option(
         "--measure-threads", o.measure_threads,
         "Threads that candidates are measured with: as many as the artefact will mostly run with (default: all)")
      ->check(CLI::NonNegativeNumber);
  app.add_flag(
      "--measure-all", o.measure_all,
      "Measure every candidate of every group to the end, to compare predictions with: -vv, --events, explain");
  app.add_option("--explore", o.explore,
                 "Measure so many schedules drawn at random, too, for each group that has a model (default: 0)")
      ->check(CLI::Range(0, 10000));
  app.add_option("--explore-seed", o.explore_seed, "Where drawing starts: another seed, other schedules");
  app.add_option("--db", o.database, "Tuning database (default: $TILEWRIGHT_DB or a file of the user's state folder)");
  app.add_flag("--no-cache", o.no_cache,
               "Compile, even if the cache has the artefact or its GPU kernels, and keep nothing there");
  const std::vector<CLI::Option*> all = app.get_options();
  o.registered.assign(all.begin() + static_cast<std::ptrdiff_t>(others), all.end());
}

namespace {

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t from = 0; from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    parts.push_back(text.substr(from, comma - from));
    from = comma + 1;
  }
  return parts;
}

// One ImportOptions for each combination of shapes. Lists are taken together, the first values, the second ones and so
// on; a single value holds in every combination.
class Combinations {
 public:
  explicit Combinations(const ModelOptions& options) {
    for (const std::string& text : options.shapes) add_shape(text);
    for (const std::string& text : options.dims) add_dim(text);
    for (const std::string& text : options.constants) add_constant(text);
  }
  std::vector<frontend::ImportOptions> take() { return std::move(all_); }

 private:
  void add_shape(const std::string& text) {
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0)
      throw UsageError(fmt::format("--shape '{}': expected NAME:1x3x224x224", text));
    const std::vector<std::string> values = split_list(text.substr(colon + 1));
    for (size_t k = 0; k < widen(values.size(), "--shape", text); ++k)
      all_[k].shapes[text.substr(0, colon)] = parse_shape(value(values, k), "--shape");
  }

  void add_dim(const std::string& text) {
    const auto [name, list] = parse_binding(text, "--dim");
    const std::vector<std::string> values = split_list(list);
    for (size_t k = 0; k < widen(values.size(), "--dim", text); ++k)
      all_[k].dims[name] = parse_extent(value(values, k), text, "--dim");
  }

  void add_constant(const std::string& text) {
    const auto [name, file] = parse_binding(text, "--const");
    if (file.empty() || file[0] != '@') throw UsageError(fmt::format("--const '{}': expected NAME=@FILE.npy", text));
    const graph::RefTensor constant = artefact::to_reference(read_npy(file.substr(1)));
    for (frontend::ImportOptions& import : all_) import.constants[name] = constant;
  }

  static const std::string& value(const std::vector<std::string>& list, size_t k) {
    return list.size() == 1 ? list[0] : list[k];
  }

  // The number of combinations after a list of `count` values.
  size_t widen(size_t count, const std::string& option, const std::string& text) {
    if (count > 1 && all_.size() > 1 && count != all_.size()) {
      throw UsageError(
          fmt::format("{} '{}' has {} values, an earlier list {}: lists are taken together, value by value", option,
                      text, count, all_.size()));
    }
    if (count > all_.size()) all_.resize(count, frontend::ImportOptions(all_[0]));
    return all_.size();
  }

  std::vector<frontend::ImportOptions> all_ = {{}};
};

}  // namespace

namespace {

// This very program, as a worker.
std::vector<std::string> worker_command() {
  return {std::filesystem::read_symlink("/proc/self/exe").string(), "worker"};
}

}  // namespace

driver::CompileOptions to_compile_options(const ModelOptions& o) {
  driver::CompileOptions out;
  out.target = o.target;
  out.hal = measured_figures();
  out.imports = Combinations(o).take();
  out.disabled_passes = o.disabled;
  out.disabled_families = o.disabled_families;
  out.precision = o.precision;
  out.dtype = o.dtype;
  out.libraries = o.libraries;
  out.all_optional_off = o.no_optional_passes;
  if (!o.plan.empty()) {
    const std::vector<uint8_t> bytes = read_file(o.plan);
    if (bytes.empty()) throw UsageError(fmt::format("--plan '{}' is empty", o.plan));
    out.plan_text.assign(bytes.begin(), bytes.end());
  }
  out.dump_directory = o.dump;
  out.stop_after = o.stop_after;
  out.cubins.worker = worker_command();
  out.cubins.worker.emplace_back("cubins");
  out.cubins.folder = o.no_cache ? "" : artefact_cache_folder();
  out.cubins.notice = [](const std::string& notice) { fmt::print(stderr, "tilewright: note: {}\n", notice); };
  return out;
}

namespace {

std::function<void(const std::string&)> notices(Progress& progress) {
  return [&progress](const std::string& notice) {
    progress.clear();
    fmt::print(stderr, "tilewright: note: {}\n", notice);
  };
}

}  // namespace

CachePlace find_in_cache(const std::string& model, const ModelOptions& o, driver::CompileOptions& compile,
                         Progress& progress) {
  driver::CacheOptions options;
  options.folder = o.no_cache ? "" : artefact_cache_folder();
  options.notice = notices(progress);
  CachePlace place{driver::CompileCache(options), std::nullopt};
  if (options.folder.empty()) return place;
  place.key = place.cache.key(model, compile, driver::machine::resolve_targets(compile.target, compile.hal));
  compile.hal.notice = {};  // said now; the compilation will ask once more
  return place;
}

std::string artefact_cache_folder() {
  const std::string folder = cache_folder();
  return folder.empty() || folder == "/dev/null" ? "" : folder + "/artefacts";
}

driver::CompileOptions to_compile_options(const ModelOptions& o, Progress& progress) {
  driver::CompileOptions out = to_compile_options(o);
  out.progress = std::ref(progress);
  if (!o.budget.empty()) out.tuning.budget_seconds = parse_duration(o.budget, "--budget");
  if (o.no_measure && (o.explore > 0 || o.measure_all))
    throw UsageError("--explore and --measure-all measure: they do not go with --no-measure");
  if (o.no_measure) return out;
  watch_interrupts();
  out.tuning.worker = worker_command();
  out.tuning.database = tuning_database(o.database);
  out.tuning.threads = o.measure_threads;
  if (o.measure_all) {
    out.tuning.light_us = out.tuning.whole_share = 0;
    out.tuning.drop_ratio = std::numeric_limits<double>::infinity();
  }
  out.tuning.explore = {o.explore, o.explore_seed};
  out.tuning.interrupted = interrupted;
  out.tuning.event = [&progress](const driver::TuneEvent& event) { progress.measured(event); };
  out.tuning.notice = out.cubins.notice = notices(progress);
  return out;
}

}  // namespace tw::cli
