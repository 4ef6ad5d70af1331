// Version of the kernels that templates give.
#pragma once

namespace tw::templates {

/// Counts up when an instance may have another text or other compiler options than before. Used as lower/version.h.
inline constexpr int kTemplateVersion = 7;

}  // namespace tw::templates
