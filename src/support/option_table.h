// Tables of options: what an option is called, what it takes, what holds without it and what it does, each defined
// once. A table feeds the command line, files of options, the interfaces of the library, the key of the cache and
// docs/reference/options.md.
#pragma once
#include <concepts>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/option_value.h"
#include "support/text.h"

namespace tw {

/// A row and what it changes: a field, or whatever two functions of its own do. `set` throws UsageError for a malformed
/// text; what is repeatable is set once for each value. `print` gives equal texts for equal values only.
template <typename Options>
struct Option : OptionRow {
  void (*set)(const OptionRow& row, const OptionText& text, Options& options) = nullptr;
  std::string (*print)(const OptionRow& row, const Options& options) = nullptr;

  void set_in(Options& options, const OptionText& text) const { set(*this, text, options); }
  std::string print_of(const Options& options) const { return print(*this, options); }
};

template <typename>
struct MemberPointer;
template <typename Owner, typename Member>
struct MemberPointer<Member Owner::*> {
  using Class = Owner;
};

/// object.*First.*Rest..
template <auto First, auto... Rest>
constexpr auto& field_of(auto& object) {
  if constexpr (sizeof...(Rest) == 0) {
    return object.*First;
  } else {
    return field_of<Rest...>(object.*First);
  }
}

/// A row bound to a field, in a table of the struct that has the field, or inherits it.
template <auto First, auto... Rest>
struct BoundOption {
  using Owner = typename MemberPointer<decltype(First)>::Class;
  using Field = std::remove_cvref_t<decltype(field_of<First, Rest...>(std::declval<Owner&>()))>;
  OptionRow row;

  template <std::derived_from<Owner> Options>
  constexpr operator Option<Options>() const {
    Option<Options> bound{row};
    if (row.kind == OptionKind::kOfField) bound.kind = kind_of<Field>();
    bound.is_repeatable = row.is_repeatable || std::is_same_v<Field, std::vector<std::string>>;
    bound.set = [](const OptionRow& r, const OptionText& text, Options& options) {
      set_value(r, text, field_of<First, Rest...>(options));
    };
    bound.print = [](const OptionRow& r, const Options& options) {
      return print_value(r, field_of<First, Rest...>(options));
    };
    return bound;
  }
};

/// option<&CompileOptions::tuning, &TunerOptions::threads>({.name = "measure-threads", ..}) is one.
template <auto First, auto... Rest>
constexpr BoundOption<First, Rest...> option(const OptionRow& row) {
  return {row};
}

/// The row of this name; null: there is none.
template <typename Options>
const Option<Options>* find_option(std::span<const Option<Options>> table, std::string_view name) {
  for (const Option<Options>& row : table) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

/// Whether the verb takes it; "cache/prune" is an action of a verb, which has the verb's options too.
bool is_for(const OptionRow& row, std::string_view verb);
/// "flag", "integer", "choice", ..: what an option takes, in a word.
std::string_view kind_name(const OptionRow& row);
/// What a value looks like: "N", "TIME", "strict|default|fast"; empty for flags.
std::string value_name(const OptionRow& row);
/// What holds when the option is not given; `initial` is what its row prints of fresh options. Empty: nothing to say.
std::string default_text(const OptionRow& row, const std::string& initial);

}  // namespace tw
