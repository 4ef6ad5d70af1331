#include "tune/construct/construct.h"

namespace tw::tune {

Construction construct(std::span<const Constructor> families, const GroupTask& task, const TargetInfo& target,
                       std::vector<Rejection>* rejections) {
  for (const Constructor& family : families) {
    Result<Construction> built = family.construct(task, target);
    if (built.ok()) {
      Construction construction = std::move(built).value();
      construction.family = family.family;
      return construction;
    }
    if (rejections != nullptr) rejections->push_back({std::string(family.family), built.reason()});
  }
  throw InternalError(fmt::format("no family constructs a schedule for {}", task.program.name));
}

}  // namespace tw::tune
