#include "construct/cpu/epilogue.h"

#include "te/reads.h"

namespace tw::construct {

void schedule_epilogue(const te::Program& program, const EpilogueTile& tile, schedule::Schedule& s) {
  for (auto c = program.computes.rbegin(); c != program.computes.rend(); ++c) {
    if (c->name() == tile.output || c->name() == tile.source || !te::depends_on(program, *c, tile.source)) continue;
    s.compute_at(c->name(), tile.output, tile.loop, loop::Scope::kRegister);
    s.split(c->name(), tile.column, {tile.lanes});
    for (const std::string& row : tile.rows) s.unroll(c->name(), row);
    s.unroll(c->name(), tile.column + ".0");
    s.vectorize(c->name(), tile.column + ".1");
  }
}

}  // namespace tw::construct
