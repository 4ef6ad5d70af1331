#include "driver/option_table.h"

#include "driver/import_bindings.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/mapped_file.h"

namespace tw::driver {
namespace {

constexpr std::string_view kCompiling = "compile run bench verify explain report advise";
constexpr std::string_view kCompilingOnce =
    "compile run bench verify explain report";  // one model, all of its decisions

void set_dtype(const OptionRow& row, const OptionText& text, CompileOptions& options) {
  parse_choice(row, text);
  options.dtype = parse_data_type(text.text).value();
}
std::string print_dtype(const OptionRow&, const CompileOptions& options) { return to_string(options.dtype); }

void read_plan(const OptionRow&, const OptionText& text, CompileOptions& options) {
  const Result<MappedFile> file = MappedFile::open(std::string(text.text));
  if (!file.ok()) throw UsageError("{}: {}", text.spelled, file.reason());
  if (file->bytes().empty()) throw UsageError("{} '{}' is empty", text.spelled, text.text);
  options.plan_text.assign(file->bytes().begin(), file->bytes().end());
}
std::string print_plan(const OptionRow&, const CompileOptions& options) {
  return options.plan_text.empty() ? "" : content_hash(options.plan_text);
}

constexpr Option<CompileOptions> kOptions[] = {
    option<&CompileOptions::target>(
        {.name = "target",
         .example = "cpu:x86-64-v3",
         .verbs = kCompiling,
         .key = OptionKey::kPart,
         .help = "cpu (this host), cpu:x86-64, -v2, -v3, -v4, with extensions as cpu:x86-64-v3+avxvnni and "
                 "cpu:x86-64-v4+avx512vnni+avx512bf16; cuda:sm_80, cuda:sm_90a; several CPU levels for one artefact, "
                 "of which the best is taken where it is loaded: cpu:x86-64-v4,cpu:x86-64-v3,cpu:x86-64"}),
    {{.name = "shape",
      .is_repeatable = true,
      .unset = "as the model says",
      .example = "x:1x3x224x224",
      .verbs = kCompiling,
      .key = OptionKey::kPart,
      .help = "Shape of an input, or several for one artefact: NAME:1x3x224x224,8x3x224x224"},
     set_shape,
     print_shapes},
    {{.name = "dim",
      .is_repeatable = true,
      .unset = "as the model says",
      .example = "batch=8",
      .verbs = kCompiling,
      .key = OptionKey::kPart,
      .help = "Value of a symbolic dimension, or several for one artefact: NAME=1,8,32"},
     set_dim,
     print_dims},
    {{.name = "const",
      .is_repeatable = true,
      .unset = "none",
      .example = "w=@w.npy",
      .verbs = kCompiling,
      .key = OptionKey::kPart,
      .help = "Bind an input at compile time: NAME=@FILE.npy"},
     set_constant,
     print_constants},
    {{.name = "allow-links",
      .kind = OptionKind::kFolder,
      .is_repeatable = true,
      .unset = "links stay in the model's folder, hard links are refused",
      .example = "hub",
      .verbs = kCompiling,
      .key = OptionKey::kPart,
      .help = "Folder that links to external data may lead into, as in caches of models, and in which files may have "
              "several hard links"},
     set_links,
     print_links},
    {{.name = "state",
      .is_repeatable = true,
      .unset = "none",
      .example = "past=present",
      .verbs = kCompiling,
      .key = OptionKey::kPart,
      .help = "Keep a value on the device from one run to the next: INPUT=OUTPUT, what a run leaves as the output is "
              "the next one's input, and neither is one of the artefact's. It begins with zeros, or with "
              "INPUT=OUTPUT=@FILE.npy"},
     set_state,
     print_states},
    option<&CompileOptions::precision>(
        {.name = "precision",
         .choices = "strict|default|fast",
         .example = "strict",
         .verbs = kCompiling,
         .key = OptionKey::kPart,
         .help = "strict (no algorithm with a larger error bound than the operator's own, as Winograd convolution or "
                 "approximate functions; subnormal results kept), default, fast (as default, and on targets with "
                 "avx512bf16 matrix products of f32 with constant weights may round both operands to bf16, on GPUs "
                 "matrix products and convolutions of f32 to tf32; the summary says how many do)"}),
    {{.name = "dtype",
      .kind = OptionKind::kChoice,
      .choices = "f32|f16|bf16",
      .example = "f16",
      .verbs = kCompiling,
      .key = OptionKey::kPart,
      .help = "What the model has in f32 is stored and multiplied in this type; sums and statistics are f32, as is "
              "what needs its range (exponentials, sums, constants that the type does not hold) or whole numbers; "
              "inputs and outputs keep their types, states that only take rows (caches) have this one"},
     set_dtype,
     print_dtype},
    option<&CompileOptions::libraries>(
        {.name = "libraries",
         .choices = "none|auto",
         .example = "none",
         .verbs = kCompiling,
         .key = OptionKey::kPart,
         .help = "auto: where candidates for a GPU are measured, kernels of cuBLASLt and cuDNN join ours if those "
                 "are installed ($TILEWRIGHT_LIBRARY_PATH lists folders to look in first), and an artefact for which "
                 "one won needs it; none: neither (templates of CUTLASS, which an artefact holds itself, join all the "
                 "same)"}),
    {{.name = "plan",
      .kind = OptionKind::kFile,
      .unset = "decisions are made",
      .example = "model.twp",
      .verbs = kCompilingOnce,
      .key = OptionKey::kNoEntry,
      .why = "its decisions stand in the place of those that the other options lead to",
      .help = "Replay the decisions of this plan file"},
     read_plan,
     print_plan},
    option<&CompileOptions::dump_directory>({.name = "dump-ir",
                                             .kind = OptionKind::kFolder,
                                             .unset = "nowhere",
                                             .example = "ir",
                                             .verbs = kCompilingOnce,
                                             .key = OptionKey::kNoEntry,
                                             .why = "what is dumped has to be made",
                                             .help = "Write the IR after every pass into this folder"}),
    option<&CompileOptions::stop_after>({.name = "stop-after",
                                         .unset = "not before the end",
                                         .example = "fuse",
                                         .verbs = "compile",
                                         .key = OptionKey::kNoEntry,
                                         .why = "there is no artefact",
                                         .help = "Stop after this graph pass; no artefact is written"}),
    option<&CompileOptions::disabled_passes>({.name = "disable-pass",
                                              .unset = "none",
                                              .example = "fuse",
                                              .verbs = kCompiling,
                                              .key = OptionKey::kPart,
                                              .help = "Leave out an optional pass"}),
    option<&CompileOptions::disabled_families>(
        {.name = "disable-family",
         .unset = "none",
         .example = "chain",
         .verbs = kCompiling,
         .key = OptionKey::kPart,
         .help = "Leave out a family of kernels, as the summary and explain name them, and the pass that forms its "
                 "groups; then the last family, which takes every group, is measured only where no library or "
                 "template computes it"}),
    option<&CompileOptions::all_optional_off>({.name = "no-optional-passes",
                                               .verbs = kCompiling,
                                               .key = OptionKey::kPart,
                                               .help = "Leave out every optional pass"}),
    option<&CompileOptions::no_measure>({.name = "no-measure",
                                         .variable = "TILEWRIGHT_NO_MEASURE",
                                         .verbs = kCompiling,
                                         .key = OptionKey::kPart,
                                         .help = "Take what the constructors predict to be best; measure nothing"}),
    option<&CompileOptions::tuning, &TunerOptions::budget_seconds>({.name = "budget",
                                                                    .kind = OptionKind::kDuration,
                                                                    .unset = "no limit",
                                                                    .example = "60s",
                                                                    .verbs = kCompiling,
                                                                    .key = OptionKey::kIndifferent,
                                                                    .why = "a search that it ends is not kept",
                                                                    .help = "Longest time for measuring candidates"}),
    option<&CompileOptions::tuning, &TunerOptions::threads>(
        {.name = "measure-threads",
         .min = 0,
         .unset = "all CPUs",
         .example = "1",
         .verbs = kCompiling,
         .key = OptionKey::kPart,
         .help = "Threads that candidates are measured with: as many as the artefact will mostly run with"}),
    option<&CompileOptions::tuning, &TunerOptions::measure_all>(
        {.name = "measure-all",
         .verbs = kCompiling,
         .key = OptionKey::kPart,
         .help = "Measure every candidate of every group to the end, to compare predictions with: -vv, --events, "
                 "explain"}),
    option<&CompileOptions::tuning, &TunerOptions::explore, &construct::Sampling::count>(
        {.name = "explore",
         .min = 0,
         .max = 10000,
         .example = "8",
         .verbs = kCompiling,
         .key = OptionKey::kPart,
         .help = "Measure so many schedules drawn at random, too, for each group that has a model"}),
    option<&CompileOptions::tuning, &TunerOptions::explore, &construct::Sampling::seed>(
        {.name = "explore-seed",
         .example = "1",
         .verbs = kCompiling,
         .key = OptionKey::kPart,
         .help = "Where drawing starts: another seed, other schedules"}),
    option<&CompileOptions::tuning, &TunerOptions::database>(
        {.name = "db",
         .kind = OptionKind::kFile,
         .unset = "a file of the user's state folder",
         .example = "tuning.db",
         .variable = "TILEWRIGHT_DB",
         .verbs = "compile run bench verify explain report advise db",
         .key = OptionKey::kPart,
         .help = "Tuning database"}),
    option<&CompileOptions::threads>({.name = "compile-threads",
                                      .min = 0,
                                      .unset = "all CPUs",
                                      .example = "1",
                                      .verbs = kCompiling,
                                      .key = OptionKey::kIndifferent,
                                      .why = "code does not depend on it",
                                      .help = "Threads that generate code"}),
    option<&CompileOptions::limits, &WorkLimits::seconds>(
        {.name = "max-time",
         .kind = OptionKind::kDuration,
         .unset = "no limit",
         .example = "10m",
         .verbs = kCompiling,
         .key = OptionKey::kIndifferent,
         .why = "a compilation that it ends makes no artefact",
         .help = "Longest time for the import, the passes and lowering, without measuring; then exit code 6"}),
    option<&CompileOptions::limits, &WorkLimits::memory_bytes>(
        {.name = "max-memory",
         .kind = OptionKind::kBytes,
         .unset = "as much as the machine and its control groups have",
         .example = "8G",
         .verbs = kCompiling,
         .key = OptionKey::kIndifferent,
         .why = "a compilation that it ends makes no artefact",
         .help = "Memory that the compiler may use; then exit code 6"}),
    option<&CompileOptions::no_cache>(
        {.name = "no-cache",
         .verbs = kCompiling,
         .key = OptionKey::kNoEntry,
         .why = "it says so",
         .help = "Compile, even if the cache has the artefact or its GPU kernels, and keep nothing there"}),
};

}  // namespace

std::span<const Option<CompileOptions>> compile_options() { return kOptions; }

void set_option(CompileOptions& options, std::string_view name, const OptionText& text) {
  if (const Option<CompileOptions>* row = find_option(compile_options(), name)) return row->set_in(options, text);
  std::vector<std::string_view> names;
  for (const OptionRow& row : kOptions) names.push_back(row.name);
  throw UsageError("there is no option '{}'{}", name, suggestion(name, names));
}

std::string key_text(const CompileOptions& options) {
  std::string text;
  for (const Option<CompileOptions>& row : kOptions) {
    if (row.key == OptionKey::kPart) text += fmt::format("{} {}\n", row.name, quoted(row.print_of(options)));
  }
  return text;
}

const OptionRow* kept_from_cache(const CompileOptions& options) {
  const CompileOptions usual;
  for (const Option<CompileOptions>& row : kOptions) {
    if (row.key == OptionKey::kNoEntry && row.print_of(options) != row.print_of(usual)) return &row;
  }
  return nullptr;
}

}  // namespace tw::driver
