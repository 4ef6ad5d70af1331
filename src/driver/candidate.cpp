#include "driver/candidate.h"

#include <algorithm>

#include "driver/parallel.h"
#include "support/error.h"

namespace tw::driver {
namespace {

CandidateCode make_candidate(const te::Program& program, const plan::GroupPlan& plan, const CandidateContext& context,
                             const GroupOptions& options) {
  CandidateCode out;
  try {
    out.loops = lower_group(program, plan, options);
    const CodeTask task = {out.loops, plan.name};
    out.code = std::move(generate({&task, 1}, context.target, {1, context.tools.cubins}).programs.front());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const ResourceError&) {  // no fault of the candidate
    throw;
  } catch (const std::exception& error) {
    out.refused = error.what();
  }
  return out;
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
  parallel_for(plans.size(), context.tools.threads,
               [&](size_t i) { out[i] = make_candidate(program, plans[i], context, quiet); });
  return out;
}

int64_t buffer_index(const loop::Program& loops, const std::string& name) {
  const std::vector<loop::Buffer> all = parameters(loops);
  const auto found = std::ranges::find(all, name, &loop::Buffer::name);
  return found == all.end() ? -1 : found - all.begin();
}

tune::Workload make_workload(const te::Program& program, const plan::GroupPlan& plan, const CandidateCode& code) {
  tune::Workload work;
  work.code = code.code.bytes;
  const std::vector<loop::Buffer> params = parameters(code.loops);
  for (const loop::Buffer& p : params) {
    const auto input = std::ranges::find(program.inputs, p.name, &te::Tensor::name);
    tune::BufferSpec spec;
    spec.type = {p.type, {p.size()}};
    if (input != program.inputs.end()) {
      spec.type = {input->type, input->shape};
      if (const auto layout = plan.layouts.find(p.name); layout != plan.layouts.end()) spec.layout = layout->second;
      spec.fill = tune::Fill::kSigned;
      spec.seed = seed_of(p.name);
      TW_CHECK(num_elements(spec.layout.storage_shape(spec.type.shape)) == p.size(),
               "input {}: storage and parameter differ", p.name);
    }
    work.buffers.push_back(std::move(spec));
  }
  for (size_t k = 0; k < code.loops.kernels.size(); ++k) {
    const ProgramCode::Entry& entry = code.code.kernels[k];
    tune::WorkStep step{entry.offset, entry.scratch_bytes, code.loops.kernels[k].tiles, {}};
    for (const loop::Buffer& p : code.loops.kernels[k].params)
      step.args.push_back(std::ranges::find(params, p.name, &loop::Buffer::name) - params.begin());
    work.steps.push_back(std::move(step));
  }
  work.expected_ns = plan.predicted_us * 1e3;
  return work;
}

}  // namespace tw::driver
