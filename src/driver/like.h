// An artefact by which another one of the same model is made: for shapes that it lacks (--like).
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "driver/artefact/source.h"
#include "plan/plan.h"

namespace tw::driver {

struct Like {
  std::string hash;  // of the file
  Source source;
  plan::Plan plan;

  /// The entry for a target of which most is known for a function; null: there is none.
  const plan::EntryPlan* nearest(const std::string& target) const;
};

/// Throws UsageError for a file that is no artefact, trains, or does not hold what it was made from.
std::shared_ptr<const Like> read_like(const std::string& spelled, const std::string& path);

/// What `options` say nothing of becomes what `like` was made with: all that decides its graphs but for shapes.
void adopt(const Like& like, ModelOptions& options);

/// Throws UsageError where `model` is another one than that of `like`, or has other weights. `import` imports it for
/// other shapes.
void check_model(const Like& like, const frontend::ImportResult& model,
                 const std::function<frontend::ImportResult(const frontend::ImportOptions&)>& import);

}  // namespace tw::driver
