// The texts in cutlass/, which the build embeds (texts.cpp.in).
#pragma once
#include <string_view>

namespace tw::templates {

extern const std::string_view kHostText;      // head: the host program
extern const std::string_view kVisitorText;   // what CUTLASS 3.x calls with sums
extern const std::string_view kOutputOpText;  // what CUTLASS 2.x calls with sums
extern const std::string_view kStreamKText;   // how blocks share sums, before the next one
extern const std::string_view kGemmSm90Text, kConvSm90Text, kGemmSm80Text, kConvSm80Text;

}  // namespace tw::templates
