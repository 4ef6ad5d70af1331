// The floating-point environment that kernels rely on (runtime/device/cpu/code_map.h).
#pragma once
#include <cstdint>

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

enum class Subnormals : uint8_t { kKept, kFlushed };

/// Whether this thread's results below the smallest normal number become zero, until its environment changes: kernels
/// of a model that asks for it call this inside a DefaultFloatEnvironment. AArch64 flushes operands, too.
inline void set_subnormals(Subnormals subnormals) {
#if defined(__x86_64__)
  constexpr unsigned kFlushToZero = 0x8000;
  const unsigned now = _mm_getcsr();
  const unsigned wanted = subnormals == Subnormals::kFlushed ? now | kFlushToZero : now & ~kFlushToZero;
  if (now != wanted) _mm_setcsr(wanted);  // setting costs ten times what reading does
#elif defined(__aarch64__)
  constexpr unsigned kFlushToZero = 1u << 24;
  const unsigned now = __builtin_aarch64_get_fpcr();
  const unsigned wanted = subnormals == Subnormals::kFlushed ? now | kFlushToZero : now & ~kFlushToZero;
  if (now != wanted) __builtin_aarch64_set_fpcr(wanted);
#endif
}

}  // namespace tw::runtime
