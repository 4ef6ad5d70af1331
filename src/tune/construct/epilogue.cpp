#include "tune/construct/epilogue.h"

#include "te/reads.h"

namespace tw::tune {
Result<std::string> epilogue_output(const te::Program& program, const te::Compute& source) {
  std::vector<std::string> outputs;
  for (const te::Compute& c : program.computes) {
    const bool follows = te::depends_on(program, c, source.name());
    if (follows && c.is_reduction()) return declined("reduction {} follows {}", c.name(), source.name());
    for (const te::Compute& before : program.computes) {
      const bool in_tile = &before == &source || te::depends_on(program, before, source.name());
      if (follows && in_tile &&
          (c.outputs[0].shape != source.outputs[0].shape || !te::reads_own_point(c, before.name())))
        return declined("{} does not follow {} point by point", c.name(), before.name());
    }
    if ((follows || &c == &source) && program.is_output(c.name())) outputs.push_back(c.name());
  }
  if (outputs.size() != 1) return declined("{} outputs leave the epilogue", outputs.size());
  return outputs[0];
}

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

}  // namespace tw::tune
