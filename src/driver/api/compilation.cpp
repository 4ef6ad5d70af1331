#include "driver/api/compilation.h"

#include "driver/api/caller.h"
#include "driver/api/status.h"
#include "driver/outcome.h"
#include "driver/refit.h"
#include "driver/surroundings.h"
#include "runtime/format/atomic_file.h"
#include "support/mapped_file.h"

namespace tw::driver::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kNoWorker =
    "nothing is measured: there is no program tilewright-worker or tilewright beside the library, in ../bin or in "
    "../libexec/tilewright; install the whole package, or set the option 'no-measure' to do without";

// The caller's options, as the command would have them.
CompileOptions to_driver(TwCompileOptions options, Caller& caller) {
  read_environment(options);
  caller.attach_to(options.values);
  Surroundings surroundings;
  surroundings.notice = [&caller](const std::string& text) { caller.notice(text); };
  surroundings.worker = find_worker();
  const bool wants_worker = !options.values.no_measure && options.values.plan_text.empty();
  if (surroundings.worker.empty() && wants_worker) caller.notice(std::string(kNoWorker));
  return with_surroundings(std::move(options.values), surroundings);
}

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string plan_in(std::span<const uint8_t> artefact) {
  const format::Bytes plan = format::Artefact::parse(artefact, "weights").section("plan");
  return {plan.begin(), plan.end()};
}

void summarize_for(TwCompilation& out, const CompileOutcome& outcome) {
  const CompileSummary& s = outcome.summary;
  out.target = s.target;
  out.names.reserve(s.families.size() + 2 * outcome.times.size() + s.warnings.size());  // none may move
  const auto keep = [&](const std::string& text) { return out.names.emplace_back(text).c_str(); };
  for (const auto& [family, count] : s.families) out.families.push_back({keep(family), count});
  for (const PassTime& time : outcome.times) out.times.push_back({keep(time.phase), keep(time.pass), time.nanoseconds});
  for (const std::string& warning : s.warnings) out.warnings.push_back(keep(warning));
  out.summary = {
      sizeof(TwCompileSummary), out.target.c_str(),    s.opset,          s.groups,         s.kernels,
      out.families.data(),      out.families.size(),   out.times.data(), out.times.size(), out.warnings.data(),
      out.warnings.size(),      outcome.cached ? 1 : 0};
}

std::unique_ptr<TwCompilation> finished(CompileOutcome outcome, std::vector<uint8_t> artefact, Caller& caller) {
  auto out = std::make_unique<TwCompilation>();
  std::vector<std::string>& warnings = outcome.summary.warnings;
  for (std::string& notice : caller.take_notices()) warnings.push_back(std::move(notice));
  std::ranges::transform(warnings, warnings.begin(), in_words_of_programs);
  out->report = text_of(to_json(outcome));
  summarize_for(*out, outcome);
  out->artefact = std::move(artefact);
  if (!out->artefact.empty()) out->plan = plan_in(out->artefact);
  return out;
}

std::vector<uint8_t> bytes_of(const Compiled& compiled) {
  if (compiled.plan.entries.empty()) return {};  // stopped before there was an artefact
  return artefact_bytes(compiled);
}

}  // namespace

TwCompilation* compile_file(const std::string& path, const TwCompileOptions& given,
                            const TwCompileCallbacks* callbacks) {
  Caller caller(callbacks);
  CompileOptions options = to_driver(given, caller);
  const auto [cache, key] = find_in_cache(path, options, [&caller](const std::string& text) { caller.notice(text); });
  if (key) {
    if (const auto hit = cache.find(*key)) {
      const std::span<const uint8_t> bytes = hit->artefact.bytes();
      return finished({hit->summary, {}, true}, {bytes.begin(), bytes.end()}, caller).release();
    }
  }
  const Compiled compiled = driver::compile_file(path, options);
  std::vector<uint8_t> bytes = bytes_of(compiled);
  if (key && !bytes.empty()) cache.store(*key, bytes, compiled);
  return finished(outcome_of(compiled), std::move(bytes), caller).release();
}

TwCompilation* compile_bytes(std::span<const std::byte> bytes, const std::string& data_directory,
                             const TwCompileOptions& given, const TwCompileCallbacks* callbacks) {
  Caller caller(callbacks);
  const CompileOptions options = to_driver(given, caller);
  const Compiled compiled = compile_imported(import_bytes(bytes, data_directory, options), options);
  return finished(outcome_of(compiled), bytes_of(compiled), caller).release();
}

TwCompilation* refit(std::span<const uint8_t> artefact, std::shared_ptr<const frontend::Weights> weights,
                     const TwCompileCallbacks* callbacks) {
  Caller caller(callbacks);
  const Refitted made = driver::refit(artefact, std::move(weights), caller.refit_progress());
  std::vector<uint8_t> bytes = format::serialize_artefact(made.manifest, made.sections());
  CompileOutcome outcome;
  outcome.summary = summarize(plan::parse_plan(plan_in(bytes)));
  outcome.summary.warnings = made.sources.front().warnings;
  return finished(std::move(outcome), std::move(bytes), caller).release();
}

void refit_file(const std::string& artefact, const std::string& weights, const std::string& output,
                const TwCompileCallbacks* callbacks) {
  Caller caller(callbacks);
  const Result<MappedFile> file = MappedFile::open(artefact);
  if (!file) throw UsageError("'{}': {}", artefact, file.reason());
  const Refitted made = driver::refit(file->bytes(), read_weights(weights), caller.refit_progress());
  format::write_artefact(output, made.manifest, made.sections());
}

void write(const TwCompilation& compilation, const std::string& path) {
  require(!compilation.artefact.empty(), "there is no artefact to write");
  format::write_file_atomically(path, compilation.artefact);
}

}  // namespace tw::driver::api
