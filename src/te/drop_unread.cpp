#include <algorithm>
#include <ranges>

#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::te {

std::set<std::string> drop_unread(Program& program) {
  std::set<std::string> read(program.outputs.begin(), program.outputs.end());
  const auto is_read = [&](const Tensor& t) { return read.contains(t.name); };
  std::vector<Compute> kept;
  for (Compute& c : std::views::reverse(program.computes)) {
    if (std::ranges::none_of(c.outputs, is_read)) continue;
    for (size_t k = c.outputs.size(); !c.is_reduction() && k-- > 0;) {
      if (is_read(c.outputs[k])) continue;
      c.outputs.erase(c.outputs.begin() + static_cast<std::ptrdiff_t>(k));
      c.body.erase(c.body.begin() + static_cast<std::ptrdiff_t>(k));
    }
    visit_reads(c, [&](const Expr& load) { read.insert(load->name); });
    kept.push_back(std::move(c));
  }
  program.computes.assign(std::move_iterator(kept.rbegin()), std::move_iterator(kept.rend()));
  return read;
}

}  // namespace tw::te
