// What a measurer of the tests' own says of one run: outputs of zeros.
#pragma once
#include "tune/measure/fill.h"
#include "tune/measure/measurer.h"

namespace tw::driver::test {

inline tune::RunOnce zero_run(const tune::Workload& work) {
  tune::RunOnce once{tune::Outcome::kMeasured, "", {}};
  for (const tune::Wanted& want : work.wanted)
    once.samples.emplace_back(static_cast<size_t>(storage_size(work.buffers[static_cast<size_t>(want.buffer)])));
  return once;
}

}  // namespace tw::driver::test
