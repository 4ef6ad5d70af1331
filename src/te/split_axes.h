// The opposite of merging axes: an axis that a sum takes apart by division (the channels of a grouped convolution, the
// heads of grouped attention) becomes two, so that every index is linear again.
#pragma once
#include <map>
#include <string>

#include "te/te.h"

namespace tw::te {

/// Split primitives for tensors of `program`: where a reduction divides one of its axes by a constant that divides the
/// extent, that dim of its output becomes [extent / constant, constant], and so does every dim that is read or written
/// along that axis. Splitting never moves bytes. Empty when nothing is divided, or when one dim would be cut in two
/// ways.
std::map<std::string, Layout> divided_axes(const Program& program);

}  // namespace tw::te
