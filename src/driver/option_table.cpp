#include "driver/option_table.h"

#include "driver/import_bindings.h"
#include "driver/like.h"
#include "support/hash.h"
#include "support/mapped_file.h"

namespace tw::driver {
namespace {

constexpr std::string_view kCompiling = "compile run bench verify explain analyze report advise train";
constexpr std::string_view kReadingModels =
    "compile run bench verify explain analyze report advise train export-weights";
constexpr std::string_view kCompilingOnce =
    "compile run bench verify explain analyze report train";  // one model, all of its decisions

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

void set_like(const OptionRow&, const OptionText& text, CompileOptions& options) {
  options.like = read_like(std::string(text.spelled), std::string(text.text));
}
std::string print_like(const OptionRow&, const CompileOptions& options) {
  return options.like == nullptr ? "" : options.like->hash;
}

constexpr Option<CompileOptions> kOptions[] = {
    option<&CompileOptions::target>(
        {.name = "target",
         .example = "cpu:x86-64-v3",
         .verbs = kCompiling,
         .group = "Target",
         .key = OptionKey::kPart,
         .help = "cpu (this machine), cpu:x86-64, cpu:x86-64-v2, -v3, -v4, with extensions: cpu:x86-64-v3+avxvnni, "
                 "cpu:x86-64-v4+avx512vnni+avx512bf16; cpu:aarch64; cuda (the GPU of this machine), cuda:sm_80, "
                 "cuda:sm_90a. Several "
                 "CPU levels in one artefact, of which the best one is used: cpu:x86-64-v4,cpu:x86-64-v3,cpu:x86-64"}),
    {{.name = "shape",
      .is_repeatable = true,
      .unset = "as the model says",
      .example = "x:1x3x224x224",
      .verbs = kCompiling,
      .group = "Model",
      .key = OptionKey::kPart,
      .help = "Shape of an input, or several for one artefact: NAME:1x3x224x224,8x3x224x224"},
     set_shape,
     print_shapes},
    {{.name = "dim",
      .is_repeatable = true,
      .unset = "as the model says",
      .example = "batch=8",
      .verbs = kCompiling,
      .group = "Model",
      .key = OptionKey::kPart,
      .help = "Size of a symbolic dimension, several for one artefact: NAME=1,8,32, or a range of which every size "
              "will do: "
              "NAME=1..128"},
     set_dim,
     print_dims},
    {{.name = "bound",
      .is_repeatable = true,
      .unset = "as many as the shapes allow",
      .example = "selected=300",
      .verbs = kCompiling,
      .group = "Model",
      .key = OptionKey::kPart,
      .help = "Room for so many rows of a value whose number of rows comes out of a run (NonZero, NonMaxSuppression): "
              "NAME=300, by the operator's first output. More are an error of the run"},
     set_bound,
     print_bounds},
    {{.name = "const",
      .is_repeatable = true,
      .unset = "none",
      .example = "w=@w.npy",
      .verbs = kCompiling,
      .group = "Model",
      .key = OptionKey::kPart,
      .help = "Fix an input at compile time: NAME=@FILE.npy"},
     set_constant,
     print_constants},
    {{.name = "allow-links",
      .kind = OptionKind::kFolder,
      .is_repeatable = true,
      .unset = "links may not leave the model's folder",
      .example = "hub",
      .verbs = kReadingModels,
      .group = "Model",
      .key = OptionKey::kPart,
      .help = "Folder that links to external data may point into, as in model caches; files in it may have several "
              "hard links"},
     set_links,
     print_links},
    {{.name = "state",
      .is_repeatable = true,
      .unset = "none",
      .example = "past=present",
      .verbs = kCompiling,
      .group = "Model",
      .key = OptionKey::kPart,
      .help = "Keep a value on the device between runs: INPUT=OUTPUT. The output of one run is the input of the next, "
              "and neither is an input or output of the artefact. It starts as zeros, or as INPUT=OUTPUT=@FILE.npy"},
     set_state,
     print_states},
    option<&CompileOptions::precision>(
        {.name = "precision",
         .choices = "strict|default|fast",
         .example = "strict",
         .verbs = kCompiling,
         .group = "Target",
         .key = OptionKey::kPart,
         .help = "strict uses no algorithm with a larger error bound than the operator itself (no Winograd "
                 "convolution, no approximate functions) and keeps subnormal results. fast may also round the operands "
                 "of f32 matrix products: to bf16 on CPUs with avx512bf16 where weights are constant, to tf32 on GPUs, "
                 "convolutions included. The summary says how many are"}),
    {{.name = "dtype",
      .kind = OptionKind::kChoice,
      .choices = "f32|f16|bf16",
      .example = "f16",
      .verbs = kCompiling,
      .group = "Target",
      .key = OptionKey::kPart,
      .help = "Type in which f32 values are stored and multiplied. Sums and statistics stay f32, and so does what "
              "needs its range or whole numbers. Inputs and outputs keep their types; states that only collect rows "
              "(caches) get this one"},
     set_dtype,
     print_dtype},
    option<&CompileOptions::libraries>(
        {.name = "libraries",
         .choices = "none|auto",
         .example = "none",
         .verbs = kCompiling,
         .group = "Measuring",
         .key = OptionKey::kPart,
         .help =
             "auto measures cuBLASLt and cuDNN kernels as candidates for a GPU if those libraries are installed "
             "($TILEWRIGHT_LIBRARY_PATH lists folders to search first); an artefact that uses one needs the library. "
             "none uses neither. CUTLASS templates are candidates in both cases: the artefact contains them"}),
    option<&CompileOptions::branches>(
        {.name = "branches",
         .choices = "none|auto",
         .example = "auto",
         .verbs = kCompiling,
         .group = "Target",
         .key = OptionKey::kPart,
         .help = "auto lets steps on a GPU that need nothing of each other run side by side, as branches of the CUDA "
                 "graph, and takes some more memory for that. none runs one after the other, as CPUs always do"}),
    option<&CompileOptions::layouts>(
        {.name = "layouts",
         .choices = "predicted|measured",
         .example = "measured",
         .verbs = kCompiling,
         .group = "Measuring",
         .key = OptionKey::kPart,
         .help = "measured times each group with all orders of the dimensions of the values that it reads and writes, "
                 "which takes minutes, and stores these values as is fastest for the whole model, with copies where "
                 "they pay. predicted measures no layouts"}),
    option<&CompileOptions::packing>(
        {.name = "packing",
         .choices = "shared|own",
         .example = "own",
         .verbs = kCompiling,
         .group = "Target",
         .key = OptionKey::kPart,
         .help = "shared stores a weight once for all combinations of shapes, as that of the largest inputs likes it "
                 "best. own lets each of them store it as it likes: some are faster, and the artefact is larger"}),
    {{.name = "plan",
      .kind = OptionKind::kFile,
      .unset = "none",
      .example = "model.twp",
      .verbs = kCompilingOnce,
      .group = "Model",
      .key = OptionKey::kNoEntry,
      .why = "its decisions replace those of the other options",
      .help = "Replay the decisions of this plan file"},
     read_plan,
     print_plan},
    {{.name = "like",
      .kind = OptionKind::kFile,
      .unset = "none",
      .example = "model.tw",
      .verbs = kCompilingOnce,
      .group = "Model",
      .key = OptionKey::kPart,
      .help =
          "An artefact of the same model, which this one is made like, for shapes that it lacks: what other options "
          "do not say of types, precision, passes, states and constants is as there, and groups are computed by the "
          "families of kernels that were the fastest there"},
     set_like,
     print_like},
    option<&CompileOptions::dump_directory>({.name = "dump-ir",
                                             .kind = OptionKind::kFolder,
                                             .unset = "none",
                                             .example = "ir",
                                             .verbs = kCompilingOnce,
                                             .group = "Debugging",
                                             .key = OptionKey::kNoEntry,
                                             .why = "dumping needs a compilation",
                                             .help = "Write the IR after every pass to this folder"}),
    option<&CompileOptions::stop_after>({.name = "stop-after",
                                         .unset = "none",
                                         .example = "fuse",
                                         .verbs = "compile train",
                                         .group = "Debugging",
                                         .key = OptionKey::kNoEntry,
                                         .why = "there is no artefact",
                                         .help = "Stop after this graph pass and write no artefact"}),
    option<&CompileOptions::disabled_passes>({.name = "disable-pass",
                                              .unset = "none",
                                              .example = "fuse",
                                              .verbs = kCompiling,
                                              .group = "Debugging",
                                              .key = OptionKey::kPart,
                                              .help = "Skip an optional pass"}),
    option<&CompileOptions::disabled_families>(
        {.name = "disable-family",
         .unset = "none",
         .example = "chain",
         .verbs = kCompiling,
         .group = "Debugging",
         .key = OptionKey::kPart,
         .help = "Leave out a family of kernels, as named by the summary and by explain, and the pass that forms its "
                 "groups. The last family takes every group; it is then measured only where no library or template "
                 "computes the group"}),
    option<&CompileOptions::all_optional_off>({.name = "no-optional-passes",
                                               .verbs = kCompiling,
                                               .group = "Debugging",
                                               .key = OptionKey::kPart,
                                               .help = "Skip every optional pass"}),
    option<&CompileOptions::no_measure>({.name = "no-measure",
                                         .variable = "TILEWRIGHT_NO_MEASURE",
                                         .verbs = kCompiling,
                                         .group = "Measuring",
                                         .key = OptionKey::kPart,
                                         .help = "Measure nothing: use what the cost model predicts to be best"}),
    option<&CompileOptions::tuning, &TunerOptions::budget_seconds>({.name = "budget",
                                                                    .kind = OptionKind::kDuration,
                                                                    .unset = "no limit",
                                                                    .example = "60s",
                                                                    .verbs = kCompiling,
                                                                    .group = "Measuring",
                                                                    .key = OptionKey::kIndifferent,
                                                                    .why = "a search that it ends is not kept",
                                                                    .help = "Longest time for measuring candidates"}),
    option<&CompileOptions::tuning, &TunerOptions::threads>(
        {.name = "measure-threads",
         .min = 0,
         .unset = "all CPUs",
         .example = "1",
         .verbs = kCompiling,
         .group = "Measuring",
         .key = OptionKey::kPart,
         .help = "Threads to measure candidates with: as many as the model will mostly run with"}),
    option<&CompileOptions::tuning, &TunerOptions::measure_all>(
        {.name = "measure-all",
         .verbs = kCompiling,
         .group = "Measuring",
         .key = OptionKey::kPart,
         .help =
             "Measure every candidate of every group completely, to compare with predictions: -vv, --events, explain"}),
    option<&CompileOptions::tuning, &TunerOptions::explore, &construct::Sampling::offer>(
        {.name = "construct",
         .choices = "topk|first|random",
         .example = "first",
         .verbs = kCompiling,
         .group = "Measuring",
         .key = OptionKey::kPart,
         .help = "Schedules constructed for a group: the best predicted ones, the first of them alone, or as many at "
                 "random of all that are aligned, where a group has a model: to see what construction is worth"}),
    option<&CompileOptions::tuning, &TunerOptions::explore, &construct::Sampling::count>(
        {.name = "explore",
         .min = 0,
         .max = 10000,
         .example = "8",
         .verbs = kCompiling,
         .group = "Measuring",
         .key = OptionKey::kPart,
         .help = "Also measure this many randomly drawn schedules for each group that has a model"}),
    option<&CompileOptions::tuning, &TunerOptions::explore, &construct::Sampling::seed>(
        {.name = "explore-seed",
         .example = "1",
         .verbs = kCompiling,
         .group = "Measuring",
         .key = OptionKey::kPart,
         .help = "Seed of the random schedules"}),
    option<&CompileOptions::tuning, &TunerOptions::database>(
        {.name = "db",
         .kind = OptionKind::kFile,
         .unset = "tilewright/tuning.db in the user's state folder",
         .example = "tuning.db",
         .variable = "TILEWRIGHT_DB",
         .verbs = "compile run bench verify explain analyze report advise train db",
         .group = "Measuring",
         .key = OptionKey::kPart,
         .help = "Tuning database"}),
    option<&CompileOptions::threads>({.name = "compile-threads",
                                      .min = 0,
                                      .unset = "all CPUs",
                                      .example = "1",
                                      .verbs = kCompiling,
                                      .group = "Limits",
                                      .key = OptionKey::kIndifferent,
                                      .why = "code does not depend on it",
                                      .help = "Threads that generate code"}),
    option<&CompileOptions::limits, &WorkLimits::seconds>(
        {.name = "max-time",
         .kind = OptionKind::kDuration,
         .unset = "no limit",
         .example = "10m",
         .verbs = kCompiling,
         .group = "Limits",
         .key = OptionKey::kIndifferent,
         .why = "a compilation that it ends makes no artefact",
         .help = "Longest time for import, passes and lowering, without measuring; exit code 6 when it is over"}),
    option<&CompileOptions::limits, &WorkLimits::memory_bytes>(
        {.name = "max-memory",
         .kind = OptionKind::kBytes,
         .unset = "what the machine and its control groups allow",
         .example = "8G",
         .verbs = kCompiling,
         .group = "Limits",
         .key = OptionKey::kIndifferent,
         .why = "a compilation that it ends makes no artefact",
         .help = "Memory that the compiler may use; exit code 6 when it needs more"}),
    option<&CompileOptions::no_cache>(
        {.name = "no-cache",
         .verbs = kCompiling,
         .group = "Limits",
         .key = OptionKey::kNoEntry,
         .why = "it turns the cache off",
         .help = "Compile even if the cache has the artefact or its GPU kernels, and store nothing there"}),
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
    if (row.key == OptionKey::kPart) text += fmt::format("{} {}\n", row.name, in_quotes(row.print_of(options)));
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
