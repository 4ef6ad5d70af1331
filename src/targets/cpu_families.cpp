// Schedule families of CPUs in order of preference; each gives its reason when it declines.
#include "targets/registry.h"

namespace tw::targets {
namespace {

const construct::Constructor kFamilies[] = {
    {"winograd", construct::construct_winograd},
    {"chain", construct::construct_chain},
    {"reduced", construct::construct_reduced},
    {"contraction", construct::construct_contraction, construct::sample_contraction},
    {"sums", construct::construct_sums},
    {"row-sums", construct::construct_row_sums},
    {"scatter", construct::construct_scatter},
    {"columns", construct::construct_columns},
    {"rows", construct::construct_rows},
    {"generic", construct::construct_generic},
};

}  // namespace

std::span<const construct::Constructor> cpu_families() { return kFamilies; }

}  // namespace tw::targets
