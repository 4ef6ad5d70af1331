// Values that are rounded to 16 bits on their way, to be stored, where they need not be stored.
#pragma once
#include <string>
#include <vector>

#include "te/te.h"

namespace tw::te {

/// `e` without conversions of f32 to 16 bits and back.
Expr unrounded(const Expr& e);

/// Elements of the row whose maximum is `maximum` stay in registers from where they are computed to where they are
/// used: what would round them to 16 bits on the way does not. Returns the computes, other than the maximum, that have
/// another body in `program` then.
std::vector<std::string> keep_elements_whole(Program& program, const std::string& maximum);

}  // namespace tw::te
