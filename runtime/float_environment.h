// The floating-point environment that kernels rely on (runtime/device/cpu/kernel.h).
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tw::runtime {

/// Default floating-point environment for a scope: a caller that flushes denormals to zero, or that started the
/// workers, must get the same bits as anybody else.
class DefaultFloatEnvironment {
 public:
#if defined(__x86_64__)
  DefaultFloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(kDefault); }
  ~DefaultFloatEnvironment() { _mm_setcsr(saved_); }

 private:
  static constexpr unsigned kDefault = 0x1f80;  // all exceptions masked, round to nearest, no FTZ, no DAZ
  unsigned saved_;
#elif defined(__aarch64__)
  DefaultFloatEnvironment() : saved_(__builtin_aarch64_get_fpcr()) { __builtin_aarch64_set_fpcr(0); }
  ~DefaultFloatEnvironment() { __builtin_aarch64_set_fpcr(saved_); }

 private:
  unsigned saved_;
#endif
 public:
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;
};

}  // namespace tw::runtime
