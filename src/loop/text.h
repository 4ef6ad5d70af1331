// The words of the text form: shared by printer and parser (tools/tw-opt), and by the messages of the verifier.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "loop/loop.h"

namespace tw::loop {

inline constexpr std::array<std::string_view, 4> kScopeNames = {"param", "scratch", "stack", "register"};
inline constexpr std::array<std::string_view, 7> kForKindNames = {"serial", "unrolled", "vectorized", "threads",
                                                                  "matrix", "bulk",     "pipelined"};

inline std::string_view scope_name(Scope scope) { return kScopeNames[static_cast<size_t>(scope)]; }
inline std::string_view for_kind_name(ForKind kind) { return kForKindNames[static_cast<size_t>(kind)]; }

/// The scope called `word`, or nothing.
inline std::optional<Scope> find_scope(std::string_view word) {
  for (size_t i = 0; i < kScopeNames.size(); ++i) {
    if (kScopeNames[i] == word) return static_cast<Scope>(i);
  }
  return std::nullopt;
}

/// One statement without what it holds: "for m in 14 unrolled", "acc[m] = 0:f32", "if (t < 3)".
std::string head_text(const StmtNode& stmt);
/// head_text for messages: at most 200 characters.
std::string short_text(const StmtNode& stmt);

}  // namespace tw::loop
