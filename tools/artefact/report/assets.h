// The page's style and script, made by the build from style.css and report.js. Private to the report.
#pragma once
#include <string_view>

namespace tw::artefact::report {

extern const std::string_view kStyle, kScript;

}  // namespace tw::artefact::report
