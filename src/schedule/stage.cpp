#include "schedule/stage.h"

#include "support/error.h"
#include "te/reads.h"

namespace tw::schedule {

size_t Stage::loop_index(const std::string& loop_name) const {
  for (size_t i = 0; i < loops.size(); ++i) {
    if (loops[i].name == loop_name) return i;
  }
  std::string known;
  for (const Loop& l : loops) known += " " + l.name;
  throw UserError(fmt::format("stage {} has no loop {}; its loops are{}", name(), loop_name, known));
}

Loop& Stage::loop(const std::string& loop_name) { return loops[loop_index(loop_name)]; }

Stage& State::stage(const std::string& name) {
  for (Stage& s : stages) {
    if (s.name() == name) return s;
  }
  throw UserError(fmt::format("no stage {}", name));
}

const Stage* State::producer(const std::string& tensor) const {
  for (const Stage& s : stages) {
    for (const te::Tensor& t : s.compute.outputs) {
      if (t.name == tensor) return &s;
    }
  }
  return nullptr;
}

std::vector<const Stage*> State::readers(const Stage& stage) const {
  std::vector<const Stage*> out;
  for (const Stage& s : stages) {
    if (!te::reads_of(s.compute, stage.compute.outputs).empty()) out.push_back(&s);
  }
  return out;
}

Stage make_stage(const te::Compute& compute) {
  Stage stage;
  stage.compute = compute;
  const auto add = [&](const te::Axis& axis, bool reduction) {
    Loop l{axis.name, compute.name() + "." + axis.name, axis.extent, loop::ForKind::kSerial, false, reduction};
    stage.values[axis.name] = var(l.var);
    stage.loops.push_back(std::move(l));
  };
  for (const te::Axis& axis : compute.axes) add(axis, false);
  for (const te::Axis& axis : compute.reduce_axes) add(axis, true);
  return stage;
}

State make_state(const te::Program& program) {
  State state;
  state.program = program;
  for (const te::Compute& compute : program.computes) state.stages.push_back(make_stage(compute));
  return state;
}

Analyzer loop_ranges(const State& state) {
  Analyzer analyzer;
  for (const Stage& stage : state.stages) {
    for (const Loop& l : stage.loops) analyzer.bind(l.var, 0, l.extent);
  }
  return analyzer;
}

}  // namespace tw::schedule
