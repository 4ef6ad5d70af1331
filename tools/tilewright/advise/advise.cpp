// tilewright advise MODEL.onnx: what could be changed in a model to suit a target better, and what that costs.
#include <algorithm>
#include <charconv>
#include <numeric>

#include "runtime/format/atomic_file.h"
#include "support/error.h"
#include "support/option_value.h"
#include "tilewright/advise/advice_text.h"
#include "tilewright/model_options.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

void check_words(const VerbOptions& options) {
  if (options.model.ends_with(".tw"))
    throw UsageError("'{}' is compiled already: advice changes ONNX models", options.model);
  if (!options.apply.empty() && options.changed.empty()) throw UsageError("--apply needs -o NEW.onnx");
  if (options.apply.empty() && !options.changed.empty())
    throw UsageError("-o '{}' needs --apply N,..: numbers of the table", options.changed);
  if (!options.changed.empty() && !options.changed.ends_with(".onnx"))
    throw UsageError("-o '{}': the name of a model ends in .onnx", options.changed);
  keep_input(options.model, options.changed);
  const bool is_named = options.measure != "all" && options.measure != "best";
  if (options.compile.no_measure && (is_named || options.measure == "all"))
    throw UsageError("--measure {} does not go with --no-measure", options.measure);
}

// "2,5" as places in a table of so many rows, each once, in order.
std::vector<size_t> rows_named(const std::string& option, const std::string& text, size_t rows) {
  std::vector<size_t> named;
  for (const std::string& word : split_list(text)) {
    size_t number = 0;
    const char* const end = word.data() + word.size();
    const auto [rest, code] = std::from_chars(word.data(), end, number);
    if (code != std::errc() || rest != end)
      throw UsageError("{} '{}': expected {}numbers of advice, such as 2,5", option, text,
                       option == "--measure" ? "all, best or " : "");
    if (number == 0 || number > rows)
      throw UsageError("{} {}: there is no advice {}; {}", option, text, number,
                       rows == 0 ? "there is none for this model and target"
                                 : fmt::format("the numbers are 1 to {} (tilewright advise lists them)", rows));
    named.push_back(number - 1);
  }
  std::ranges::sort(named);
  named.erase(std::ranges::unique(named).begin(), named.end());
  return named;
}

std::vector<size_t> rows_to_measure(const VerbOptions& options, const AdviceTable& table) {
  const size_t count = table.rows().size();
  std::vector<size_t> all(count);
  std::iota(all.begin(), all.end(), size_t{0});
  if (options.measure == "all") return all;
  if (options.measure != "best") return rows_named("--measure", options.measure, count);
  return options.apply.empty() ? table.best_of_each_kind() : std::vector<size_t>{};
}

int advise(const GlobalOptions& global, const VerbOptions& options) {
  check_words(options);
  Progress progress(global);
  const driver::CompileOptions compile = with_surroundings(options.compile, progress);
  AdviceTable table(options.model, compile, {options.first_layers}, options.seed, progress);
  const std::vector<size_t> measured = rows_to_measure(options, table);
  std::optional<AdviceTable::Combined> combined;
  if (!options.apply.empty()) combined = table.combine(rows_named("--apply", options.apply, table.rows().size()));
  if (table.not_measured().empty()) table.measure(measured);
  progress.clear();
  if (combined) format::write_file_atomically(options.changed, format::bytes_of(combined->model.bytes()));
  if (global.json) {
    nlohmann::ordered_json document = {{"model", options.model}, {"seed", options.seed}};
    document.update(advice_json(table));
    nlohmann::ordered_json applied;
    if (combined) applied = {{"output", options.changed}};
    if (combined) applied.update(row_json(table, combined->row));
    document["applied"] = applied;
    print_json("tilewright.advise.v1", document);
    return kOk;
  }
  print_advice(global, options.model, table);
  if (!combined) return kOk;
  say(global, fmt::format("{}: the model with advice {} (seed {})", options.changed, options.apply, options.seed));
  say(global, line_of(table, "", combined->row));
  print_if_far(global, table, combined->row.advice.what, combined->row);
  return kOk;
}

}  // namespace

void add_advise(Application& application) {
  add_verb(
      application,
      {"advise",
       "Example: tilewright advise repvgg_a0.onnx --target cuda:sm_90a --dtype f16\n\nSuggests changes to a model "
       "that suit the target better. Examples are other activations, 1x1 convolutions behind 3x3 ones, and channel "
       "counts that fill vectors. Each has its predicted and measured time, and the weights and operations that it "
       "adds. --apply writes the changed model, whose new weights have to be trained.",
       "MODEL", "ONNX model", advise});
}

}  // namespace tw::cli
