// Schedule families of x86-64 in order of preference; each gives its reason when it declines.
#include "targets/registry.h"

namespace tw::targets {
namespace {

const tune::Constructor kFamilies[] = {
    {"winograd", tune::construct_winograd},
    {"chain", tune::construct_chain},
    {"contraction", tune::construct_contraction, tune::sample_contraction},
    {"columns", tune::construct_columns},
    {"rows", tune::construct_rows},
    {"generic", tune::construct_generic},
};

}  // namespace

std::span<const tune::Constructor> x86_64_families() { return kFamilies; }

}  // namespace tw::targets
