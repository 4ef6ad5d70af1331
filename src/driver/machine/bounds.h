// What measured parameters must satisfy before anything is built from them.
#pragma once
#include "core/target_info.h"

namespace tw::driver::machine {

/// `measured`, made plausible: a parameter that is not finite, not positive or beyond what any machine does is that of
/// `defaults`; a level is never faster than a nearer one (the default where that is in order, else the nearer level's
/// parameter); longer chunks are at least as fast as shorter ones and at most as fast as contiguous reads; all compute
/// units together are at least as fast as one. Machine parameters are rounded to two significant digits: the same
/// machine measured twice mostly gives the same ones, and more would be noise.
TargetInfo plausible(const TargetInfo& measured, const TargetInfo& defaults);

/// The rates of a device without those that are not finite, not positive or beyond what any machine does: these are 0.
/// Machine parameters are rounded to three significant digits.
DeviceRates plausible(const DeviceRates& measured);

/// `value` rounded to two significant digits.
double two_digits(double value);

}  // namespace tw::driver::machine
