#include "driver/tune/candidate.h"

#include "support/join.h"
#include "support/parallel.h"
#include "te/reads.h"

namespace tw::driver {
namespace {

// Calls `step` for a candidate that fails with it, unless that is no fault of the candidate.
void try_step(CandidateCode& candidate, const std::function<void()>& step) {
  try {
    step();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const ResourceError&) {
    throw;
  } catch (const std::exception& error) {
    candidate.declined = error.what();
  }
}

// For each candidate the first one with the same loops.
std::vector<size_t> find_equal(const std::vector<CandidateCode>& candidates) {
  std::map<std::string, size_t> seen;
  return by_index(candidates.size(),
                  [&](size_t i) { return seen.try_emplace(loop::to_string(candidates[i].loops), i).first->second; });
}

// Parameters of all kernels, each once, in order of appearance.
std::vector<loop::Buffer> parameters(const loop::Program& loops) {
  std::vector<loop::Buffer> all;
  for (const loop::Kernel& kernel : loops.kernels) {
    for (const loop::Buffer& p : kernel.params) {
      if (std::ranges::none_of(all, [&](const loop::Buffer& known) { return known.name == p.name; })) all.push_back(p);
    }
  }
  return all;
}

// The same stream of numbers for a tensor in every candidate, and different ones for the tensors of a group.
uint64_t seed_of(const std::string& tensor) {
  uint64_t seed = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char c : tensor) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  return seed;
}

}  // namespace

std::vector<CandidateCode> make_candidates(const te::Program& program, std::span<const plan::GroupPlan> plans,
                                           const CandidateContext& context) {
  GroupOptions quiet;  // dumps and times are of the plan that wins, and not made for many threads
  quiet.lower.lower = context.group.lower.lower;
  quiet.lower.disabled = context.group.lower.disabled;
  std::vector<CandidateCode> out(plans.size());
  const auto go_on = [&] {
    if (context.tools.cubins.is_stopped()) throw Stopped();
  };
  parallel_for(plans.size(), context.tools.threads, [&](size_t i) {
    go_on();
    try_step(out[i], [&] { out[i].loops = lower_group(program, plans[i], quiet); });
  });
  const std::vector<size_t> first = find_equal(out);
  CodeTools one_by_one = context.tools;
  one_by_one.threads = 1;
  parallel_for(plans.size(), context.tools.threads, [&](size_t i) {
    go_on();
    if (first[i] != i || !out[i].declined.empty()) return;
    const CodeTask task = {out[i].loops, plans[i].name};
    try_step(out[i], [&] {
      out[i].code = std::move(generate({&task, 1}, context.target, one_by_one).programs.front());
    });
  });
  for (size_t i = 0; i < out.size(); ++i) {
    if (first[i] == i || !out[i].declined.empty()) continue;
    out[i].code = out[first[i]].code;
    out[i].declined = out[first[i]].declined;
  }
  return out;
}

int64_t buffer_index(const loop::Program& loops, const std::string& name) {
  return index_of(parameters(loops), name, &loop::Buffer::name);
}

int64_t largest_integer(const te::Program& program, const std::string& input) {
  return te::largest_index(program, input).value_or(measure::BufferSpec().most);
}

measure::Workload make_workload(const te::Program& program, const plan::GroupPlan& plan, const CandidateCode& code) {
  measure::Workload work;
  work.code = code.code.bytes;
  const std::vector<loop::Buffer> params = parameters(code.loops);
  for (const loop::Buffer& p : params) {
    const auto input = std::ranges::find(program.inputs, p.name, &te::Tensor::name);
    measure::BufferSpec spec;
    spec.type = {p.type, {p.size()}};
    if (input != program.inputs.end()) {
      spec.type = {input->type, input->shape};
      if (const auto layout = plan.layouts.find(p.name); layout != plan.layouts.end()) spec.layout = layout->second;
      spec.fill = measure::Fill::kSigned;
      spec.seed = seed_of(p.name);
      spec.most = largest_integer(program, p.name);
      TW_CHECK(num_elements(spec.layout.storage_shape(spec.type.shape)) == p.size(),
               "input {}: storage and parameter differ", p.name);
    }
    work.buffers.push_back(std::move(spec));
  }
  for (size_t k = 0; k < code.loops.kernels.size(); ++k) {
    const ProgramCode::Entry& entry = code.code.kernels[k];
    measure::WorkStep step;
    step.offset = entry.offset;
    step.scratch_bytes = entry.scratch_bytes;
    step.tiles = code.loops.kernels[k].tiles;
    step.kernel = entry.name;
    step.cuda = entry.cuda;
    for (const loop::Buffer& p : code.loops.kernels[k].params)
      step.args.push_back(index_of(params, p.name, &loop::Buffer::name));
    if (step.cuda.workspace_bytes > 0) {
      step.args.push_back(std::ssize(work.buffers));
      work.buffers.push_back({{DataType{ScalarType::kU8}, {step.cuda.workspace_bytes}}});
    }
    work.steps.push_back(std::move(step));
  }
  work.expected_ns = plan.predicted_us * 1e3;
  return work;
}

}  // namespace tw::driver
