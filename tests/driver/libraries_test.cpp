// Kernels that a library computes, from a plan to the artefact.
#ifdef TW_HAVE_CUDA
#include <gtest/gtest.h>

#include "driver/compile.h"
#include "runtime/format/problem.h"
#include "tests/graph/sample.h"

namespace tw::driver::test {
namespace {

using graph::test::add;

// y = relu(x w), f16.
graph::Graph product() {
  graph::Graph g;
  g.name = "product";
  const graph::ValueId x = g.add_input("x", {DataType::f16(), {4, 3}});
  const graph::RefTensor w = graph::RefTensor::zeros({DataType::f16(), {3, 5}});
  const graph::ValueId constant = g.add_constant("w", w.type, share(w.to_bytes()));
  g.outputs = {add(g, "relu", {add(g, "matmul", {x, constant})})};
  return g;
}

const char* const kCall =
    "cublaslt 130100 1 gemm batch=1 m=4 n=5 k=3 a=x0:f16:3:0 b=x1:f16:5:0 out=relu:f16:5:0 act=relu";

CompileOptions replay(const std::string& implementation) {
  CompileOptions options;
  options.target = "cuda:sm_90a";
  options.plan_text =
      "tilewright plan 2\ntarget cuda:sm_90a\nentry main\ngraph 0\ngroup \"matmul+relu\" cublaslt\n"
      "  do inline matmul\n  do compute_at matmul_acc relu i1 \"register\"\n  do implement relu \"" +
      implementation + "\"\n";
  return options;
}

TEST(Libraries, AnImplementedKernelIsAStepWithoutACubin) {
  const Compiled compiled = compile_graph(product(), replay(kCall));
  EXPECT_TRUE(compiled.manifest.kernels.empty());
  EXPECT_FALSE(compiled.sections.contains("cubin.0"));
  const std::vector<uint8_t> bytes = artefact_bytes(compiled);  // checks it, too
  const format::Artefact artefact = format::Artefact::parse(bytes);
  const format::Entry& entry = artefact.manifest().entries.at(0);
  ASSERT_EQ(entry.cuda_steps.size(), 1U);
  const format::CudaStep& step = entry.cuda_steps[0];
  EXPECT_EQ(step.call, kCall);
  ASSERT_EQ(step.operands.size(), 3U);
  const auto place = [&](size_t operand) { return entry.buffers[static_cast<size_t>(step.operands[operand])].place; };
  EXPECT_EQ(place(0), format::Place::kInput);
  EXPECT_EQ(place(1), format::Place::kWeights);
  EXPECT_EQ(place(2), format::Place::kOutput);
  EXPECT_EQ(compiled.plan.entries[0].groups[0].family, "cublaslt");
}

// What a plan says for one GPU architecture, or of another group, is no defect of the compiler.
TEST(Libraries, PlansForOtherTargetsOrGroupsAreRefused) {
  const auto message = [](const CompileOptions& options) -> std::string {
    try {
      compile_graph(product(), options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  for (const char* target : {"cuda:sm_80", "cpu:x86-64"}) {
    CompileOptions options = replay(kCall);
    options.target = target;
    EXPECT_EQ(message(options), fmt::format("--plan is for cuda:sm_90a, this compilation for {}", target));
  }
  CompileOptions options = replay(kCall);
  options.plan_text += "  layout x7 reorder(1, 0)\n";
  EXPECT_NE(message(options).find("--plan does not fit group matmul+relu: "), std::string::npos) << message(options);
}

// A step whose operands are not the kernel's parameters in their order.
TEST(Libraries, AttentionIsAStepToo) {
  graph::Graph g;
  g.name = "attention";
  const auto input = [&](const char* name) { return g.add_input(name, {DataType::f16(), {2, 16, 16}}); };
  const graph::ValueId q = input("q"), k = input("k"), v = input("v");
  const graph::ValueId scores =
      add(g, "matmul", {q, add(g, "transpose", {k}, {{"perm", std::vector<int64_t>{0, 2, 1}}})});
  g.outputs = {add(g, "matmul", {add(g, "softmax", {scores}, {{"axis", int64_t{2}}}), v})};
  const std::string problem =
      "attention batch=1 m=16 n=16 k=16 groups=2 keys=16 a=x1:f16:16:0:256:0 b=x0:f16:16:0:256:0 "
      "values=x2:f16:16:0:256:0 out=matmul_1:f16:16:0:256:0 act=softmax:1";
  CompileOptions options = replay("");
  options.plan_text =
      "tilewright plan 2\ntarget cuda:sm_90a\nentry main\ngraph 0\ngroup \"transpose+matmul+softmax\" cudnn\n";
  for (const char* stage : {"transpose", "matmul", "softmax_exp", "softmax_scale", "softmax"})
    options.plan_text += fmt::format("  do inline {}\n", stage);
  for (const char* stage : {"matmul_acc_1", "softmax_sum", "softmax_max", "matmul_acc"})
    options.plan_text += fmt::format("  do compute_at {} matmul_1 i1 \"stack\"\n", stage);
  options.plan_text += "  do implement matmul_1 \"cudnn 91900 2,24=7 " + problem + "\"\n";
  const std::vector<uint8_t> bytes = artefact_bytes(compile_graph(g, options));
  const format::Artefact artefact = format::Artefact::parse(bytes);
  const format::Entry& entry = artefact.manifest().entries.at(0);
  ASSERT_EQ(entry.cuda_steps.size(), 1U);
  std::vector<std::string> operands;
  for (const int64_t b : entry.cuda_steps[0].operands) {
    const format::Buffer& buffer = entry.buffers[static_cast<size_t>(b)];
    operands.push_back(buffer.place == format::Place::kInput ? entry.inputs[static_cast<size_t>(buffer.index)].name
                                                             : "out");
  }
  EXPECT_EQ(operands, (std::vector<std::string>{"q", "k", "v", "out"}));
}

// Plans are files: no text of one makes an artefact that reads beyond its buffers, and none is a defect of ours.
TEST(Libraries, PlansThatDoNotFitTheirKernelsAreRefused) {
  const std::string operands = "a=x0:f16:3:0 b=x1:f16:5:0 out=relu:f16:5:0 act=relu",
                    row = "template gemm_sm90_128x256x64_cooperative_2x1 gemm batch=1 ";
  const auto message = [](const std::string& text) -> std::string {
    try {
      compile_graph(product(), replay(text));
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  for (const std::string& text : std::vector<std::string>{"cublaslt 130100 1 gemm bogus", "nobody", row + "bogus"})
    EXPECT_TRUE(message(text).starts_with("--plan: plan line 8: ")) << text << ": " << message(text);
  for (const std::string& text : std::vector<std::string>{
           "cublaslt 130100 1 gemm batch=1 m=400 n=5 k=3 " + operands,
           "cudnn 91900 1 gemm batch=1 m=4 n=5 k=3 " + operands,
           "cublaslt 130100 1 gemm batch=1 m=4 n=5 k=3 a=z:f16:3:0 b=x1:f16:5:0 out=relu:f16:5:0",
           "cublaslt 130100 1 gemm batch=1 m=4 n=5 k=3 a=x0:bf16:3:0 b=x1:bf16:5:0 out=relu:bf16:5:0",
           row + "m=400 n=5 k=3 " + operands})
    EXPECT_TRUE(message(text).starts_with("group 'matmul+relu': ")) << text << ": " << message(text);
}

TEST(Libraries, NothingJoinsWhereNothingIsMeasuredOrAskedFor) {
  const TargetInfo gpu = targets::find_target("cuda:sm_90a").info;
  CompileOptions options;
  EXPECT_TRUE(usable_libraries(options, gpu).empty()) << "nothing is measured";
  options.tuning.worker = {"worker"};
  options.libraries = LibraryUse::kNone;
  EXPECT_TRUE(usable_libraries(options, gpu).empty());
  options.libraries = LibraryUse::kAuto;
  EXPECT_TRUE(usable_libraries(options, targets::find_target("cpu:x86-64").info).empty());
}

}  // namespace
}  // namespace tw::driver::test
#endif
