#include "driver/tune/candidate_check.h"

#include <cmath>

#include "driver/tune/candidate.h"
#include "driver/tune/tolerance.h"
#include "schedule/match/stages.h"

namespace tw::driver {
namespace {

constexpr double kMaxPoints = 4e8;  // multiply-adds of a reference: about a second of one core
constexpr int64_t kMinElements = 64;
constexpr double kPointNs = 4;          // of a reference, generously
constexpr double kFiniteShare = 0.75;   // of the reference, else the inputs are filled another way
constexpr double kFlippedShare = 0.01;  // integers from rounded floats that may differ

// Extents at which the candidates cut loops.
std::vector<int64_t> factors_of(const std::vector<plan::GroupPlan>& plans) {
  std::set<int64_t> factors;
  for (const plan::GroupPlan& plan : plans) {
    for (const schedule::Primitive& p : plan.schedule.primitives()) {
      for (const int64_t f : p.factors) {
        if (f > 1) factors.insert(f);
      }
    }
  }
  return {factors.begin(), factors.end()};
}

Result<SampledReference> make_reference(const TuneTask& task, int64_t count) {
  const std::vector<int64_t> factors = factors_of(task.candidates);
  std::map<std::string, std::vector<int64_t>> elements;
  for (const std::string& output : task.program.outputs)
    elements[output] = choose_elements(task.program.tensor(output).shape, factors, count);
  return sample_reference(task.program, elements);
}

std::vector<std::byte> bytes_of(const std::vector<int64_t>& values) {
  const auto* data = reinterpret_cast<const std::byte*>(values.data());
  return {data, data + values.size() * sizeof(int64_t)};
}

// Fills floats, which make_workload() fills with kSigned, another way.
void set_fill(measure::Workload& work, measure::Fill fill) {
  for (measure::BufferSpec& b : work.buffers) {
    if (b.fill == measure::Fill::kSigned) b.fill = fill;
  }
}

// Few elements of long sums, as of all rows or all pixels, would leave a GPU's threads one after the other with a read
// of memory each: sums become sums of parts.
te::Program with_sums_in_parts(const te::Program& program) {
  constexpr int64_t kLongSum = 1024;
  schedule::Schedule parts;
  for (const te::Compute& c : program.computes) {
    if (!c.is_reduction() || c.combiner.kind != te::CombinerKind::kSum) continue;
    const int64_t terms = te::num_points(c.reduce_axes);
    const auto longest = std::ranges::max_element(c.reduce_axes, {}, &te::Axis::extent);
    const auto count = std::min(longest->extent, static_cast<int64_t>(std::sqrt(static_cast<double>(terms))));
    if (terms >= kLongSum && count > 1) parts.rfactor_blocks(c.name(), longest->name, count);
  }
  return schedule::rewritten(program, parts);
}

// The reference as plain machine code, every tensor it gives wanted whole.
Result<measure::Workload> make_work(const te::Program& of, const SampledReference& reference,
                                    const TuneContext& context) {
  const bool is_gpu = context.target.kind == DeviceKind::kCuda;
  const te::Program program = is_gpu ? with_sums_in_parts(reference.program) : reference.program;
  const construct::Candidates built = *construct::construct_point({program, {}}, context.target);
  const plan::GroupPlan plan{"reference", "point", {}, built.front().schedule, 0, {}, 0};
  CodeTools tools = context.tools;
  tools.compilations = &context.counts->references;
  const CandidateCode code =
      std::move(make_candidates(program, {&plan, 1}, {context.target, context.group, tools}).front());
  if (!code.declined.empty()) return declined("no code for the reference: {}", code.declined);
  measure::Workload work = make_workload(program, plan, code);
  for (const auto& [name, values] : reference.indices) {
    const int64_t b = buffer_index(code.loops, name);
    if (b < 0) continue;
    work.buffers[static_cast<size_t>(b)].fill = measure::Fill::kBytes;
    work.buffers[static_cast<size_t>(b)].bytes = bytes_of(values);
  }
  for (const te::Tensor& input : of.inputs) {  // the numbers that candidates get, whatever the sampled maths limits
    const int64_t b = buffer_index(code.loops, input.name);
    if (b >= 0) work.buffers[static_cast<size_t>(b)].most = largest_integer(of, input.name);
  }
  for (const std::string& name : reference.signs) {
    const int64_t b = buffer_index(code.loops, name);
    if (b >= 0) work.buffers[static_cast<size_t>(b)].fill = measure::Fill::kSigns;
  }
  for (const std::string& name : reference.program.outputs) work.wanted.push_back({buffer_index(code.loops, name), {}});
  work.expected_ns = kPointNs * count_points(reference.program);
  return work;
}

}  // namespace

Result<CandidateCheck> CandidateCheck::make(const TuneTask& task, const TuneContext& context) {
  Result<SampledReference> reference = make_reference(task, kCheckedElements);
  if (!reference.ok()) return declined("{}", reference.reason());
  if (const double points = count_points(reference->program); points > kMaxPoints) {
    const auto fewer = static_cast<int64_t>(static_cast<double>(kCheckedElements) * kMaxPoints / points);
    reference = make_reference(task, std::max(kMinElements, fewer));
  }
  CandidateCheck check;
  Result<measure::Workload> work = make_work(task.program, *reference, context);
  if (!work.ok()) return declined("{}", work.reason());
  check.reference_work_ = std::move(work).value();
  check.reference_ = std::move(reference).value();
  return check;
}

std::string CandidateCheck::run_reference(measure::Measurer& measurer) {
  for (const measure::Fill fill : {measure::Fill::kSigned, measure::Fill::kPositive}) {
    set_fill(reference_work_, fill);
    fill_ = fill;
    const measure::RunOnce run = measurer.run(reference_work_, 0);
    if (run.outcome != measure::Outcome::kMeasured)
      return fmt::format("the reference could not be run: {} {}", measure::outcome_name(run.outcome), run.reason);
    read(reference_, run.samples);
    if (is_mostly_finite()) break;
  }
  reference_work_ = {};
  return "";
}

void CandidateCheck::read(const SampledReference& reference, const measure::Samples& samples) {
  outputs_.clear();
  size_t next = 0;
  for (const SampledOutput& output : reference.outputs) {
    const auto count = static_cast<int64_t>(output.elements.size());
    const DataType type = output.type.is_float() ? DataType::f64() : output.type;
    const graph::RefTensor exact = graph::RefTensor::from_bytes({type, {count}}, samples.at(next++));
    Output out{output.tensor, output.elements, exact, std::vector<double>(exact.floats.size(), 0.0),
               !output.trials.empty()};
    out.want.type.type = output.type;
    for (size_t t = 0; t < output.trials.size(); ++t) {
      const graph::RefTensor trial = graph::RefTensor::from_bytes({type, {count}}, samples.at(next++));
      for (size_t i = 0; i < out.bounds.size(); ++i) {
        const double deviation = std::fabs(trial.floats[i] - exact.floats[i]) / reference.magnification;
        if (std::isfinite(deviation)) out.bounds[i] = std::max(out.bounds[i], deviation);
      }
    }
    finish_bounds(output.rounded, exact.floats, out.bounds);
    outputs_.push_back(std::move(out));
  }
}

bool CandidateCheck::is_mostly_finite() const {
  double finite = 0, all = 0;
  for (const Output& output : outputs_) {
    for (const double x : output.want.floats) finite += std::isfinite(x) ? 1 : 0;
    all += static_cast<double>(output.want.floats.size());
  }
  return finite >= kFiniteShare * all;
}

void CandidateCheck::prepare(const loop::Program& loops, measure::Workload& work) const {
  set_fill(work, fill_);
  for (const Output& output : outputs_) work.wanted.push_back({buffer_index(loops, output.tensor), output.elements});
}

std::string CandidateCheck::check(const measure::Samples& samples) const {
  if (samples.size() != outputs_.size())
    return fmt::format("{} outputs instead of {}", samples.size(), outputs_.size());
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const Output& output = outputs_[o];
    if (static_cast<int64_t>(samples[o].size()) != output.want.type.bytes())
      return fmt::format("{} bytes of output {}", samples[o].size(), output.tensor);
    const graph::RefTensor got = graph::RefTensor::from_bytes(output.want.type, samples[o]);
    const WorstElement worst = compare(output.tensor, got, output.want, output.bounds);
    const bool flips = output.rounded && !output.want.is_float();
    const double allowed = flips ? kFlippedShare * static_cast<double>(worst.elements) : 0;
    if (static_cast<double>(worst.wrong) <= allowed) continue;
    return fmt::format("{} of {} checked elements of {}: element {} is {}, the reference {}, the bound {}", worst.wrong,
                       worst.elements, output.tensor, output.elements[static_cast<size_t>(worst.index)], worst.got,
                       worst.want, worst.bound);
  }
  return "";
}

std::string CandidateCheck::disagree(std::span<const measure::Difference> differences) const {
  for (size_t o = 0; o < outputs_.size() && o < differences.size(); ++o) {
    const Output& output = outputs_[o];
    if (output.rounded && !output.want.is_float()) continue;  // integers that rounding may flip
    // Elsewhere bounds are not known: those of the checked elements stand for all.
    const double bound = output.bounds.empty() ? 0 : *std::ranges::max_element(output.bounds);
    if (differences[o].largest <= 2 * bound) continue;
    return fmt::format("element {} of {} differs by {}, twice the largest bound is {}", differences[o].element,
                       output.tensor, differences[o].largest, 2 * bound);
  }
  return "";
}

}  // namespace tw::driver
