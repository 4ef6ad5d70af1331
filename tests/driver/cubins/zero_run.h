// What a measurer of the tests' own says of one run: outputs of zeros.
#pragma once
#include "measure/fill.h"
#include "measure/measurer.h"

namespace tw::driver::test {

inline measure::RunOnce zero_run(const measure::Workload& work) {
  measure::RunOnce once{measure::Outcome::kMeasured, "", {}};
  for (const measure::Wanted& want : work.wanted)
    once.samples.emplace_back(static_cast<size_t>(storage_size(work.buffers[static_cast<size_t>(want.buffer)])));
  return once;
}

}  // namespace tw::driver::test
