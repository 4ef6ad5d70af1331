// tilewright templates build|list|path: kernels of CUTLASS, built once for all models.
#include "support/error.h"
#include "support/text.h"
#include "templates/fit.h"
#include "templates/library.h"
#include "tilewright/command.h"
#include "tilewright/progress.h"
#include "tilewright/verb.h"

namespace tw::cli {

#ifdef TW_HAVE_CUDA
namespace {

using templates::Instance;

struct Options {
  std::string target, dtype;
  std::vector<std::string> only, epilogues;
  templates::TemplateOptions library;
};

Options options_of(const VerbOptions& given) {
  Options options{given.template_target,
                  given.template_dtype,
                  given.only,
                  given.epilogues,
                  {.folder = given.folder.empty() ? templates::template_folder() : given.folder}};
  options.library.nvcc = given.nvcc;
  options.library.headers = given.headers;
  options.library.processes = given.jobs;
  return options;
}

templates::TemplateLibrary library_of(const Options& options) {
  if (options.library.folder.empty())
    throw UsageError("there is no folder for templates: set TILEWRIGHT_CACHE_DIR or give --folder");
  return templates::TemplateLibrary(options.library);
}

// The instances that are meant: the usual ones, or those named.
std::vector<std::pair<std::string, Instance>> instances_of(const Options& options) {
  const DataType dtype = options.dtype == "tf32"  ? DataType::f32()
                         : options.dtype == "f16" ? DataType::f16()
                                                  : DataType::bf16();
  std::vector<std::pair<std::string, Instance>> out;
  const auto is_one_of = [](const std::vector<std::string>& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  for (templates::Buildable& made : templates::buildable(options.target, dtype)) {
    const std::string row = templates::name_of(made.instance.row);
    if (options.only.empty() ? options.epilogues.empty() && !made.usual : !is_one_of(options.only, row)) continue;
    if (options.epilogues.empty() ? made.kind == templates::kWideClass : !is_one_of(options.epilogues, made.kind))
      continue;
    out.emplace_back(fmt::format("{} {}", row, made.kind), std::move(made.instance));
  }
  if (out.empty()) throw UsageError("no such template: 'tilewright templates list' names them");
  return out;
}

int build(const GlobalOptions& global, const VerbOptions& given) {
  const Options options = options_of(given);
  const auto wanted = instances_of(options);
  std::vector<Instance> instances;
  for (const auto& [name, instance] : wanted) instances.push_back(instance);
  Progress progress(global);
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
  int64_t built = 0, bytes = 0;
  double seconds = 0;
  const double started = now_seconds();
  const auto total = std::ssize(wanted);
  progress("templates", 0, total);
  library_of(options).build_all(instances, [&](size_t i, const Result<templates::BuiltTemplate>& made) {
    if (made.ok()) bytes += made->bytes, seconds += made->seconds, ++built;
    if (!made.ok()) {
      progress.clear();
      print_error("tilewright: {}: {}\n", wanted[i].first, made.reason());
      failures.push_back({{"template", wanted[i].first}, {"reason", made.reason()}});
    }
    progress("templates", built + std::ssize(failures), total);
  });
  progress.clear();
  if (global.json) {
    print_json("tilewright.templates.v1", {{"folder", options.library.folder},
                                           {"built", built},
                                           {"failed", failures},
                                           {"cubin_bytes", bytes},
                                           {"compiler_seconds", seconds},
                                           {"seconds", now_seconds() - started}});
  } else {
    say(global,
        fmt::format("{} of {} built in {}: {} of cubins, {}", built, count_text(total, "template"),
                    options.library.folder, size_text(static_cast<double>(bytes)), time_text(now_seconds() - started)));
  }
  return built == total ? kOk : kFailure;
}

int list(const GlobalOptions& global, const VerbOptions& given) {
  const Options options = options_of(given);
  const templates::TemplateLibrary library = library_of(options);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& [name, instance] : instances_of(options)) {
    const Result<templates::BuiltTemplate> built = library.find(instance);
    const std::string state = built.ok() ? fmt::format("{}, {}", size_text(static_cast<double>(built->bytes)),
                                                       count_text(built->registers, "register"))
                                         : built.reason();
    nlohmann::ordered_json conditions = nlohmann::ordered_json::array();
    for (const templates::Constraint& c : templates::constraints(instance.row.family)) conditions.push_back(c.text);
    rows.push_back({{"template", name},
                    {"architecture", templates::architecture_of(instance.row.family)},
                    {"built", built.ok()},
                    {"bytes", built.ok() ? built->bytes : 0},
                    {"cubin", built.ok() ? built->cubin : ""},
                    {"host", built.ok() ? built->host : ""},
                    {"conditions", std::move(conditions)}});
    if (!global.json) say(global, fmt::format("{:60} {}", name, state));
    if (!global.json && global.verbose > 0) {
      for (const templates::Constraint& c : templates::constraints(instance.row.family))
        say(global, fmt::format("    {}", c.text));
    }
  }
  if (global.json) print_json("tilewright.templates.v1", {{"templates", std::move(rows)}});
  return kOk;
}

}  // namespace

void add_templates(Application& application) {
  add_group(
      application, "templates",
      "Example: tilewright templates list\n\nBuilds or lists CUTLASS kernels that are tried on every model. They are "
      "in templates of the cache folder, which may be copied to other machines.");
  add_verb(application,
           {"templates/build",
            "Example: tilewright templates build --only gemm_sm90_128x256x64_cooperative_2x1\n\nCompiles the templates "
            "that are missing. This needs nvcc and CUTLASS's headers (scripts/fetch_cutlass.sh). It may be stopped, "
            "and goes on where it was.",
            "", "", build});
  add_verb(
      application,
      {"templates/list",
       "Example: tilewright templates list\n\nLists the templates and whether they are built. With -v also what each "
       "requires.",
       "", "", list});
}

#else

void add_templates(Application&) {}  // this build has no CUDA (TW_CUDA=OFF)

#endif

}  // namespace tw::cli
