#include "compile.h"

#include <nanobind/stl/string.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "array.h"
#include "status.h"

namespace nb = nanobind;

namespace tw::python {
namespace {

constexpr auto kSignalInterval = std::chrono::milliseconds(50);  // how late Ctrl-C may be noticed

struct Step {
  std::string phase, detail;
  int64_t done = 0, total = 0;
};

/// One call of the library in a thread of its own, while the calling thread serves Python: only that one may handle
/// signals, and call back without taking turns.
class Job {
 public:
  using Call = std::function<TwCompilerStatus*(const TwCompileCallbacks&)>;

  Job(Call call, nb::callable progress) : call_(std::move(call)), progress_(std::move(progress)) {}

  void run() {
    std::thread worker([this] {
      const TwCompileCallbacks callbacks{sizeof(TwCompileCallbacks), this, &Job::on_progress, &Job::asks_stop,
                                         &Job::asks_cancel};
      TwCompilerStatus* const status = call_(callbacks);
      const std::lock_guard<std::mutex> lock(mutex_);
      status_ = status;
      done_ = true;
      changed_.notify_one();
    });
    while (!serve()) {
    }
    {
      const nb::gil_scoped_release unlocked;
      worker.join();
    }
    if (failure_.has_value()) {
      compiler_api().status_free(status_);
      throw std::move(*failure_);
    }
    check(status_);
  }

  /// What a call of the command writes, and where it is kept.
  static void on_text(void* user, int32_t stream, const char* text, size_t size) {
    Job& job = *static_cast<Job*>(user);
    (stream == 1 ? job.output_ : job.error_).append(text, size);
  }
  const std::string& output() const { return output_; }
  const std::string& error() const { return error_; }

 private:
  /// Waits a moment, then tells Python what happened. True when the call has ended.
  bool serve() {
    std::vector<Step> steps;
    bool done = false;
    {
      const nb::gil_scoped_release unlocked;
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait_for(lock, kSignalInterval, [this] { return done_ || !pending_.empty(); });
      steps.swap(pending_);
      done = done_;
    }
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      for (const Step& step : steps) {
        if (failure_.has_value()) break;
        is_measuring_ = step.phase == "measure";
        progress_(step.phase, step.done, step.total, step.detail);
      }
    } catch (nb::python_error& error) {
      interrupted(std::move(error));
    }
    return done;
  }

  void interrupted(nb::python_error error) {
    if (error.matches(PyExc_KeyboardInterrupt) && is_measuring_ && !stop_.exchange(true)) return;
    if (!failure_.has_value()) failure_.emplace(std::move(error));
    cancel_ = true;
  }

  static void on_progress(void* user, const char* phase, int64_t done, int64_t total, const char* detail) {
    Job& job = *static_cast<Job*>(user);
    const std::lock_guard<std::mutex> lock(job.mutex_);
    Step step{phase, detail == nullptr ? "" : detail, done, total};
    if (!job.pending_.empty() && job.pending_.back().phase == step.phase) job.pending_.pop_back();
    job.pending_.push_back(std::move(step));
    job.changed_.notify_one();
  }
  static int32_t asks_stop(void* user) { return static_cast<Job*>(user)->stop_ ? 1 : 0; }
  static int32_t asks_cancel(void* user) { return static_cast<Job*>(user)->cancel_ ? 1 : 0; }

  Call call_;
  nb::callable progress_;
  std::string output_, error_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Step> pending_;  // not yet told: the last one of each phase
  bool done_ = false;
  TwCompilerStatus* status_ = nullptr;
  std::atomic<bool> stop_ = false, cancel_ = false;
  bool is_measuring_ = false;
  std::optional<nb::python_error> failure_;
};

std::unique_ptr<Compilation> compile_by(
    const std::function<TwCompilerStatus*(const TwCompileCallbacks&, TwCompilation**)>& call,
    const nb::callable& progress) {
  std::unique_ptr<Compilation> made;  // also by a call that ended well though Python ends it
  Job(
      [&](const TwCompileCallbacks& callbacks) {
        TwCompilation* compilation = nullptr;
        TwCompilerStatus* const status = call(callbacks, &compilation);
        made = std::make_unique<Compilation>(compilation);
        return status;
      },
      progress)
      .run();
  return made;
}

size_t bytes_of(const DLTensor& tensor) {
  size_t bytes = tensor.dtype.bits / 8u;
  for (int i = 0; i < tensor.ndim; ++i) bytes *= static_cast<size_t>(tensor.shape[i]);
  return bytes;
}

}  // namespace

const TwCompilerApi& compiler_api() {
  static const TwCompilerApi* const table = tw_get_compiler_api(TW_COMPILER_API_VERSION);
  if (table == nullptr) throw nb::import_error("libtilewright is older than this module: reinstall tilewright");
  return *table;
}

void check(TwCompilerStatus* status) {
  if (status == nullptr) return;
  const TwCompilerApi& api = compiler_api();
  StatusError error{"from_compiler", api.status_kind(status), api.status_message(status), api.status_details(status)};
  api.status_free(status);
  throw error;
}

CompileOptions::CompileOptions() {
  TwCompileOptions* options = nullptr;
  check(compiler_api().options_create(&options));
  handle_.reset(options);
}

void CompileOptions::set(const std::string& name, const std::string& text) {
  check(compiler_api().options_set(handle_.get(), name.c_str(), text.c_str()));
}

void CompileOptions::set_constant(const std::string& name, nb::handle array) {
  const Array constant(array, name, Access::kRead);
  check(compiler_api().options_set_constant(handle_.get(), name.c_str(), &constant.tensor()));
}

void CompileOptions::set_state(const std::string& input, const std::string& output, nb::handle initial) {
  const Array value(initial, input, Access::kRead);
  check(compiler_api().options_set_state(handle_.get(), input.c_str(), output.c_str(), &value.tensor()));
}

void CompileOptions::set_plan(const std::string& text) {
  check(compiler_api().options_set_plan(handle_.get(), text.c_str()));
}

nb::bytes Compilation::artefact() const {
  const void* bytes = nullptr;
  size_t size = 0;
  compiler_api().compilation_artefact(handle_.get(), &bytes, &size);
  return nb::bytes(bytes, size);
}

std::vector<OptionRow> option_rows() {
  std::vector<OptionRow> rows;
  for (size_t i = 0; i < compiler_api().option_count(); ++i) {
    TwOptionInfo info{};
    info.struct_size = sizeof(info);
    check(compiler_api().option_info(i, &info));
    rows.push_back({info.name, info.kind, info.choices, info.initial, info.help, info.is_repeatable != 0});
  }
  return rows;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (size_t i = 0; i < compiler_api().target_count(); ++i) names.emplace_back(compiler_api().target_name(i));
  return names;
}

std::unique_ptr<Compilation> compile_file(const std::string& path, const CompileOptions& options,
                                          const nb::callable& progress) {
  return compile_by(
      [&](const TwCompileCallbacks& callbacks, TwCompilation** compilation) {
        return compiler_api().compile_file(path.c_str(), options.handle(), &callbacks, compilation);
      },
      progress);
}

std::unique_ptr<Compilation> compile_bytes(nb::handle model, const std::string& data_directory,
                                           const CompileOptions& options, const nb::callable& progress) {
  const Array bytes(model, "the model's bytes", Access::kRead);
  return compile_by(
      [&](const TwCompileCallbacks& callbacks, TwCompilation** compilation) {
        return compiler_api().compile_bytes(bytes.tensor().data, bytes_of(bytes.tensor()), data_directory.c_str(),
                                            options.handle(), &callbacks, compilation);
      },
      progress);
}

std::unique_ptr<Compilation> refit(nb::handle artefact, const nb::dict& weights, const nb::callable& progress) {
  const Array bytes(artefact, "the artefact's bytes", Access::kRead);
  std::vector<std::string> names;
  std::vector<Array> arrays;
  for (const auto& [name, array] : weights) {
    names.push_back(nb::cast<std::string>(name));
    arrays.emplace_back(array, names.back(), Access::kRead);
  }
  std::vector<TwNamedTensor> tensors;
  for (size_t i = 0; i < names.size(); ++i) tensors.push_back({names[i].c_str(), arrays[i].tensor()});
  return compile_by(
      [&](const TwCompileCallbacks& callbacks, TwCompilation** compilation) {
        return compiler_api().refit(bytes.tensor().data, bytes_of(bytes.tensor()), tensors.data(), tensors.size(),
                                    &callbacks, compilation);
      },
      progress);
}

CommandResult call_command(const std::vector<std::string>& words, const nb::callable& progress) {
  std::vector<const char*> given;
  for (const std::string& word : words) given.push_back(word.c_str());
  CommandResult result;
  Job job(
      [&](const TwCompileCallbacks& callbacks) {
        return tw_call_command(given.data(), given.size(), &callbacks, &Job::on_text, &result.exit_code);
      },
      progress);
  job.run();
  result.output = job.output();
  result.error = job.error();
  return result;
}

}  // namespace tw::python
