#include "driver/api/caller.h"

#include <cstring>

#include "driver/api/status.h"

namespace tw::driver::api {

Caller::Caller(const TwCompileCallbacks* callbacks) {
  if (callbacks == nullptr) return;
  require(callbacks->struct_size >= sizeof(size_t), "callbacks.struct_size is not set");
  std::memcpy(&callbacks_, callbacks, std::min(callbacks->struct_size, sizeof(callbacks_)));
}

void Caller::attach_to(CompileOptions& options) {
  options.progress = refit_progress();
  if (callbacks_.cancel != nullptr || callbacks_.stop != nullptr)
    options.tuning.interrupted = [this] { return is_stopped() || is_cancelled(); };
  options.tuning.event = [this](const TuneEvent& event) { measured(event); };
}

RefitProgress Caller::refit_progress() {
  return [this](std::string_view phase, int64_t done, int64_t total) { progress(phase, done, total); };
}

void Caller::progress(std::string_view phase, int64_t done, int64_t total) {
  if (phase == "measure") measured_ = done, to_measure_ = total;
  if (callbacks_.progress != nullptr)
    callbacks_.progress(callbacks_.user, std::string(phase).c_str(), done, total, nullptr);
  if (is_cancelled()) throw Cancelled("{}, {} of {}: cancelled by the caller", phase, done, total);
}

void Caller::measured(const TuneEvent& event) const {
  if (callbacks_.progress == nullptr || event.best_us == 0) return;
  const std::string detail = fmt::format("{}: candidate {} of {}, best {:.1f} us", event.group, event.candidate + 1,
                                         event.candidates, event.best_us);
  callbacks_.progress(callbacks_.user, "measure", measured_, to_measure_, detail.c_str());
}

void Caller::notice(const std::string& text) {
  const std::lock_guard lock(mutex_);
  notices_.push_back(text);
}

std::vector<std::string> Caller::take_notices() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notices_, {});
}

}  // namespace tw::driver::api
