// Callbacks of the C interface as the driver's.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "driver/options.h"
#include "driver/refit.h"
#include "tilewright/compiler.h"

namespace tw::driver::api {

/// One call's; must outlive what it is attached to.
class Caller {
 public:
  /// `callbacks` may be null.
  explicit Caller(const TwCompileCallbacks* callbacks);
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  /// Progress, and when to stop or give up.
  void attach_to(CompileOptions& options);
  RefitProgress refit_progress();
  /// Throws Cancelled when the caller says so.
  void progress(std::string_view phase, int64_t done, int64_t total);
  /// What is worth saying and no error: it becomes a warning of the report. By any thread.
  void notice(const std::string& text);
  std::vector<std::string> take_notices();

 private:
  bool is_cancelled() const { return callbacks_.cancel != nullptr && callbacks_.cancel(callbacks_.user) != 0; }
  bool is_stopped() const { return callbacks_.stop != nullptr && callbacks_.stop(callbacks_.user) != 0; }
  void measured(const TuneEvent& event) const;

  TwCompileCallbacks callbacks_ = {};
  int64_t measured_ = 0, to_measure_ = 0;  // of phase "measure", as it was told last
  std::mutex mutex_;
  std::vector<std::string> notices_;
};

}  // namespace tw::driver::api
