// Templates as autotune candidates: what is not compiled, what is, and when. NVRTC, nvcc and the measurer are the
// tests' own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "driver/compile.h"
#include "driver/tune/tuner.h"
#include "measure/fill.h"
#include "ops/list.h"
#include "runtime/format/validate.h"
#include "targets/registry.h"
#include "templates/fit.h"
#include "templates/library.h"
#include "tests/driver/cubins/zero_run.h"
#include "tests/harness/fake_nvcc.h"

namespace tw::driver::test {
namespace {

namespace fs = std::filesystem;
using measure::Measured;
using measure::Outcome;

// Mainloop-only kernels, of which nothing is wanted, take the times that they are given; the whole template half a
// microsecond and other kernels one.
class PlannedMeasurer : public measure::Measurer {
 public:
  PlannedMeasurer(std::vector<double> mainloop_only, std::vector<std::vector<measure::Workload>>& rounds)
      : mainloop_only_(std::move(mainloop_only)), rounds_(rounds) {}
  std::vector<Measured> measure(std::span<const measure::Workload> work,
                                const measure::MeasureOptions& options) override {
    rounds_.emplace_back(work.begin(), work.end());
    std::vector<Measured> out;
    size_t mainloop = 0;
    for (size_t i = 0; i < work.size(); ++i) {
      const bool whole = !work[i].wanted.empty(), is_template = work[i].steps[0].kernel == templates::kKernelName;
      const double ns = !whole ? mainloop_only_.at(mainloop++) : is_template ? 500 : 1000;
      if (!whole) {
        EXPECT_EQ(options.check(i, {}), "");
      }
      out.push_back({Outcome::kMeasured, "", {ns, ns, 12, 1}});
    }
    return out;
  }
  measure::RunOnce run(const measure::Workload& work, int) override { return zero_run(work); }

 private:
  std::vector<double> mainloop_only_;
  std::vector<std::vector<measure::Workload>>& rounds_;
};

// y = silu(x0 x1 + x2).
const char* const kProduct = R"(te group
input x0: f16[256, 256]
input x1: f16[256, 256]
input x2: f16[256]
sum: f32[256, 256] = sum(r0 in 256) over (i0, i1) of (cast<f32>(x0[i0, r0]) * cast<f32>(x1[r0, i1]))
biased: f32[256, 256] (i0, i1) = (sum[i0, i1] + cast<f32>(x2[i1]))
y: f16[256, 256] (i0, i1) = cast<f16>((biased[i0, i1] * sigmoid(biased[i0, i1])))
output y
)";

constexpr const char* kAnswer =
    "launch 4 1 1 384 1 1 1000 0\\nparams 00000000000000000000000000000000\\nrelocation 0 0 0";
// Of a kernel that wants memory, for 4 tiles of 128 x 128 sums and their barriers: behind a, b and the result.
constexpr const char* kHungry =
    "launch 4 1 1 384 1 1 1000 262272\\nparams 00000000000000000000000000000000\\nrelocation 0 0 0\\nrelocation 8 3 "
    "0";

class TemplateAutotuneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw-autotune-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    nvcc_.folder = folder_;
    setenv("TW_NVRTC", TW_FAKE_NVRTC, 1);
    setenv("TW_FAKE_NVRTC_LOG", (folder_ / "log").c_str(), 1);
    setenv("TILEWRIGHT_CACHE_DIR", folder_.c_str(), 1);
    setenv("TILEWRIGHT_CUTLASS", nvcc_.headers().c_str(), 1);
    setenv("TILEWRIGHT_NVCC", nvcc_.path().c_str(), 1);
    cubin_options_.worker = {TW_CUBIN_WORKER};
    group_.lower.lower.vector_bytes = target_.info.vector_bytes;
    options_.light_us = 0;
    options_.database = (folder_ / "tuning.db").string();
    options_.notice = [this](const std::string& text) { notices_.push_back(text); };
    compiler("");
    build_plain_rows();
  }
  void TearDown() override {
    for (const char* variable : {"TILEWRIGHT_CACHE_DIR", "TILEWRIGHT_CUTLASS", "TILEWRIGHT_NVCC"}) unsetenv(variable);
    fs::remove_all(folder_);
  }

  // A compiler that does `first`; its host programs give one answer.
  void compiler(const std::string& first, const std::string& answer = kAnswer) const {
    nvcc_.write({.first = first,
                 .program = fmt::format(R"(#!/bin/sh
while read line; do
  printf '{}\nend\n' >&0
done
)",
                                        answer)});
  }
  int64_t runs() const { return nvcc_.runs(); }

  void build_plain_rows() {
    std::vector<templates::Instance> plain;
    for (const templates::Row* row : templates::ranked(product_, target_.info)) {
      if (!row->stream_k && plain.size() < 2) plain.push_back({*row});
    }
    templates::TemplateLibrary({templates::template_folder()}).build_all(plain, [](size_t, const auto& built) {
      EXPECT_TRUE(built.ok()) << built.reason();
    });
  }

  // Candidate 0 is a kernel of ours, 1 and 2 are templates: with no library installed or allowed.
  TuneTask task() const {
    TuneTask out;
    out.name = "matmul";
    out.program = te::parse_program(kProduct);
    out.constants = {"x1", "x2"};
    for (const construct::Constructor& c : target_.families) {
      if (c.family != "point" && c.family != "cutlass") continue;
      const Result<construct::Candidates> built = c.construct({out.program, out.constants}, target_.info);
      if (!built.ok()) ADD_FAILURE() << c.family << ": " << built.reason();
      for (const construct::Construction& made : *built)
        out.candidates.push_back({"matmul", std::string(c.family), made.constant_layouts, made.schedule, 0, {}, 0});
    }
    std::ranges::stable_partition(out.candidates, [](const plan::GroupPlan& p) { return p.family == "point"; });
    out.joined = out.candidates.size() - 1;
    out.candidates[0].predicted_us = 1;
    return out;
  }
  TuneResult choose(std::vector<double> mainloop_only) {
    Cubins cubins(cubin_options_);
    TuneTask t = task();
    t.owner_waits = owner_waits_;
    EXPECT_EQ(t.candidates.size(), 3U);
    Tuner tuner(options_, std::make_unique<PlannedMeasurer>(std::move(mainloop_only), rounds_));
    TuneResult result =
        tuner.choose({&t, 1}, {target_.info, group_, {2, cubins}, measure::CacheState::kCold, {}}).front();
    profiling_ = tuner.profiling();
    if (result.best > 0)
      found_ = tuner.find_code(lower_group(t.program, t.candidates[result.best], group_), t.name) != nullptr;
    return result;
  }

  fs::path folder_;
  FakeNvcc nvcc_;
  targets::Target target_ = targets::find_target("cuda:sm_90a");
  templates::GemmDescriptor product_ = {256, 256, 256};
  GroupOptions group_;
  CubinOptions cubin_options_;
  TunerOptions options_;
  std::vector<std::string> notices_;
  std::vector<std::vector<measure::Workload>> rounds_;
  bool found_ = false, owner_waits_ = false;
  Profiling profiling_;
};

TEST_F(TemplateAutotuneTest, WhatLosesWithoutItsEpilogueIsNotCompiled) {
  const TuneResult result = choose({1100, 1200});
  EXPECT_EQ(result.best, 0);
  EXPECT_EQ(runs(), 2);
  EXPECT_EQ(rounds_.size(), 1U);
  for (const size_t c : {1, 2}) {
    EXPECT_EQ(outcome_name(result.measured[c].outcome), "refused");
    EXPECT_TRUE(result.measured[c].reason.starts_with("others take less than its 1.")) << result.measured[c].reason;
  }
  choose({});
  EXPECT_EQ(rounds_.size(), 1U) << "the database knows them";
}

TEST_F(TemplateAutotuneTest, WhatWouldGainLittleOfTheModelIsNotCompiledUnlessAllIsMeasured) {
  options_.whole_share = 5 * 0.6;  // a fifth of it: .6 of the model's time, where 450 ns of 1,000 promise .55
  const TuneResult result = choose({450, 470});
  EXPECT_EQ(result.best, 0);
  EXPECT_EQ(runs(), 2);
  EXPECT_EQ(outcome_name(result.measured[1].outcome), "not-measured");
  EXPECT_EQ(result.measured[1].reason,
            "0.5 us without epilogue would gain 55.0 % of the model's time: too little for nvcc (--measure-all)");
  options_.whole_share = 0;  // as --measure-all
  EXPECT_EQ(choose({450}).best, 1) << "the database knows nothing of it that would keep it out";
  EXPECT_EQ(runs(), 3);
}

TEST_F(TemplateAutotuneTest, TheFastestRowIsCompiledOnceAndMeasuredWhole) {
  const TuneResult result = choose({450, 400});
  ASSERT_EQ(rounds_.size(), 2U);
  EXPECT_EQ(rounds_[0].size(), 3U);
  EXPECT_FALSE(rounds_[0][0].wanted.empty()) << "the first one's outputs are kept";
  ASSERT_EQ(rounds_[1].size(), 2U) << "the best one of before, and the template";
  for (const measure::Workload& work : rounds_[1]) EXPECT_FALSE(work.wanted.empty());
  EXPECT_EQ(runs(), 3);
  EXPECT_EQ(result.best, 2);
  EXPECT_TRUE(found_) << "code that was measured is not made again";
  EXPECT_EQ(outcome_name(result.measured[1].outcome), "refused");
  choose({});
  EXPECT_EQ(rounds_.size(), 2U);
  EXPECT_EQ(runs(), 3);
  fs::remove(options_.database);
  const TuneResult again = choose({600});  // of the other row: this one is built now
  EXPECT_EQ(again.best, 2);
  EXPECT_EQ(rounds_.size(), 3U);
}

// As with families switched off: the kernel of ours is neither compiled nor run.
TEST_F(TemplateAutotuneTest, NothingIsCompiledBetweenTemplatesThatAreProfiled) {
  choose({450, 400});
  EXPECT_EQ(profiling_.kernels_compiled, 2) << "there is no cache, and the winner is compared with it";
  EXPECT_EQ(profiling_.references_compiled, 2);
  EXPECT_EQ(profiling_.templates_compiled, 0);
  EXPECT_EQ(profiling_.winners_compiled, 1);
  EXPECT_EQ(profiling_.candidates, 3 + 2);
  fs::remove(options_.database);
  owner_waits_ = true;
  const TuneResult result = choose({450});  // the other one is built by now
  EXPECT_GT(result.best, 0);
  EXPECT_EQ(outcome_name(result.measured[0].outcome), "not-measured");
  EXPECT_EQ(profiling_.kernels_compiled, 0);
  EXPECT_EQ(profiling_.templates_compiled, 0);
  EXPECT_EQ(profiling_.candidates, 4);
  EXPECT_EQ(profiling_.winners_compiled, 1);
  EXPECT_GT(profiling_.seconds, 0);
}

TEST_F(TemplateAutotuneTest, WhatTheCompilerRefusesLoses) {
  compiler("echo 'error: no'; exit 1");
  const TuneResult result = choose({900, 1200});
  EXPECT_EQ(result.best, 0);
  EXPECT_EQ(rounds_.size(), 1U);
  EXPECT_NE(result.measured[1].reason.find("nvcc: exit code 1: error: no"), std::string::npos)
      << result.measured[1].reason;
  EXPECT_TRUE(notices_.empty()) << notices_[0];
}

TEST_F(TemplateAutotuneTest, KernelsGetTheMemoryThatTheyWant) {
  fs::remove_all(folder_ / "templates");
  compiler("", kHungry);
  build_plain_rows();
  choose({1100, 1200});
  const measure::Workload& work = rounds_.at(0).at(1);
  const measure::WorkStep& step = work.steps.at(0);
  ASSERT_EQ(step.args.back(), std::ssize(work.buffers) - 1);
  EXPECT_EQ(storage_size(work.buffers.back()), 262272);
  EXPECT_EQ(step.cuda.whole.relocations.at(1).buffer, std::ssize(step.args) - 1);
}

// Two products of one kernel, one after the other, as a plan says.
TEST_F(TemplateAutotuneTest, StepsOfOneKernelShareTheirMemoryAndNobodyElseDoes) {
  compiler("", kHungry);
  const graph::OpTable ops = ops::all_ops();
  frontend::ImportResult model;
  graph::ValueId value = model.graph.add_input("x", {DataType::f16(), {256, 256}});
  for (const char* name : {"first", "second"}) {
    const TensorType type = {DataType::f16(), {256, 256}};
    std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
    bytes.front() = std::byte(name[0]);
    graph::Node node;
    node.op = "matmul", node.name = name,
    node.inputs = {value, model.graph.add_constant(name, type, share(std::move(bytes)))};
    value = graph::append_node(model.graph, ops, std::move(node))[0];
  }
  model.graph.outputs = {value};
  CompileOptions options;
  options.target = "cuda:sm_90a";
  options.cubins = cubin_options_;
  plan::Plan plan = compile_imported({model}, options).plan;
  const std::string row = "gemm_sm90_128x128x64_stream_k_2x1";
  for (plan::GroupPlan& group : plan.entries.at(0).groups) {
    group = {group.name, "cutlass"};
    group.schedule.compute_at("matmul_acc", "matmul", "i1", loop::Scope::kRegister);
    group.schedule.implement(
        "matmul", loop::TemplateCall{row, format::parse_problem("gemm batch=1 m=256 n=256 k=256 a=x0:f16:256:0 "
                                                                "b=x1:f16:256:0 out=matmul:f16:256:0")});
  }
  fs::remove_all(folder_ / "templates");
  options.plan_text = plan::to_string(plan);
  const Compiled made = compile_imported({model}, options);
  const format::Entry& entry = made.manifest.entries.at(0);
  ASSERT_EQ(entry.cuda_steps.size(), 2U);
  ASSERT_EQ(entry.zeros.size(), 1U);
  const format::Zeros& zeros = entry.zeros[0];
  EXPECT_EQ(zeros, (format::Zeros{zeros.buffer, 262144, 128}));
  for (const format::CudaStep& step : entry.cuda_steps) EXPECT_EQ(step.relocations.at(1).buffer, zeros.buffer);
  const auto size = [&](std::string_view section) {
    const auto found = made.sections.find(std::string(section));
    return found == made.sections.end() ? 0 : std::ssize(found->second);
  };
  EXPECT_NO_THROW(format::validate(made.manifest, size)) << "the value between the two lies elsewhere";
  EXPECT_LT(entry.arena_bytes, 2 * 262144 + 256 * 256 * 2);
}

// It says nothing of the template: the next compilation asks again.
TEST_F(TemplateAutotuneTest, WhatACompilerThatIsKilledLeavesIsAskedForAgain) {
  compiler("kill -9 $$");
  const TuneResult result = choose({450, 400});
  EXPECT_EQ(result.best, 0);
  EXPECT_EQ(outcome_name(result.measured[2].outcome), outcome_name(Outcome::kNotMeasured));
  ASSERT_EQ(notices_.size(), 1U);
  EXPECT_NE(notices_[0].find("signal 9 (Killed)"), std::string::npos) << notices_[0];
  compiler("");
  EXPECT_EQ(choose({400}).best, 2);
}

// Not why another kind of row, or one of another GPU, does not compute it.
TEST_F(TemplateAutotuneTest, GroupsOfNoRowAreToldWhatTheirKindWants) {
  const auto reason = [](const std::string& target, const std::string& text) {
    const targets::Target t = targets::find_target(target);
    const auto family = std::ranges::find(t.families, "cutlass", &construct::Constructor::family);
    const auto built = family->construct({te::parse_program("te group\n" + text + "output sum\n"), {"x1"}}, t.info);
    return built.ok() ? "built" : built.reason();
  };
  const std::string conv =
      "input x0: f16[2, 6, 6, 3]\ninput x1: f16[16, 3, 3, 3]\nsum: f32[2, 4, 4, 16] = sum(r0 in 3, r1 in 3, r2 in 3) "
      "over (i0, i1, i2, i3) of (cast<f32>(x0[i0, (i1 + r0), (i2 + r1), r2]) * cast<f32>(x1[i3, r0, r1, r2]))\n";
  EXPECT_TRUE(reason("cuda:sm_90a", conv).starts_with("channels * bytes % 16")) << reason("cuda:sm_90a", conv);
  const std::string product =
      "input x0: f16[8, 13]\ninput x1: f16[13, 16]\nsum: f32[8, 16] = sum(r0 in 13) over (i0, i1) of "
      "(cast<f32>(x0[i0, r0]) * cast<f32>(x1[r0, i1]))\n";
  EXPECT_TRUE(reason("cuda:sm_80", product).starts_with("lines of a * bytes % 4")) << reason("cuda:sm_80", product);
}

// Whatever is wrong with the compiler, the others have been measured; another compilation tries again.
TEST_F(TemplateAutotuneTest, ACompilerThatDoesNotRunEndsNoCompilation) {
  std::ofstream(folder_ / "nvcc") << "#!/bin/sh\nexit 1\n";
  EXPECT_EQ(choose({450, 400}).best, 0);
  ASSERT_EQ(notices_.size(), 1U);
  EXPECT_NE(notices_[0].find("--version' failed: exit code 1"), std::string::npos) << notices_[0];
  compiler("");
  EXPECT_EQ(choose({400}).best, 2);
}

// Without a compiler only what is built already takes part.
TEST_F(TemplateAutotuneTest, WithoutACompilerThereIsNothingToTry) {
  setenv("TILEWRIGHT_NVCC", "/nowhere/nvcc", 1);
  const TuneTask t = [&] {
    TuneTask out;
    out.program = te::parse_program(kProduct);
    return out;
  }();
  const auto family = std::ranges::find(target_.families, "cutlass", &construct::Constructor::family);
  const Result<construct::Candidates> built = family->construct({t.program, {"x1", "x2"}}, target_.info);
  ASSERT_FALSE(built.ok());
  EXPECT_NE(built.reason().find("nvcc or CUTLASS is missing"), std::string::npos) << built.reason();
}

}  // namespace
}  // namespace tw::driver::test
