#include "tests/math/compiled_function.h"

#include <algorithm>
#include <cstring>

#include "codegen/llvm/jit.h"
#include "expr/elementary.h"
#include "graph/op.h"
#include "lower/pass.h"
#include "ops/list.h"
#include "schedule/schedule.h"
#include "support/error.h"
#include "targets/registry.h"
#include "te/rewrite.h"

namespace tw::testing {
namespace {

constexpr int64_t kElements = 65536 + 13;  // more than one tile, and a tail

// out[i] = f(x[i]) or f(x[i], y[i])
te::Program te_of_elementary(const ElementaryFunction& function, DataType type) {
  te::Builder builder;
  std::vector<te::Tensor> inputs;
  for (int k = 0; k < function.arity; ++k) inputs.push_back(builder.placeholder(k == 0 ? "x" : "y", type, {kElements}));
  const te::Tensor out = builder.compute("out", {kElements}, [&](const std::vector<Expr>& i) {
    std::vector<Expr> operands;
    for (const te::Tensor& t : inputs) operands.push_back(t(i));
    return call(std::string(function.name), operands);
  });
  return builder.finish("elementary", {out});
}

te::Program te_of_operator(const std::string& op, DataType type) {
  static const graph::OpTable ops = ops::all_ops();
  graph::Graph g;
  graph::Node node;
  node.op = op;
  node.name = "out";
  node.inputs = {g.add_input("x", {type, {kElements}})};
  g.outputs = graph::append_node(g, ops, node);
  return graph::to_te(g, ops).program;
}

te::Program te_of(const std::string& name, DataType type) {
  const ElementaryFunction* function = find_elementary(name);
  return function != nullptr ? te_of_elementary(*function, type) : te_of_operator(name, type);
}

loop::Program loops_of(const te::Program& program, const targets::Target& target) {
  const construct::Construction built =
      construct::construct(target.families, {program, {}}, target.info, nullptr).front();
  lower::RunOptions run;
  run.lower.vector_bytes = target.info.vector_bytes;
  return lower::lower(schedule::apply(te::apply_layouts(program, built.constant_layouts), built.schedule), run);
}

}  // namespace

struct CompiledFunction::Impl {
  DataType type;
  te::Program te;
  loop::Program loops;
  codegen::cpu::JitModule code;
  Impl(const std::string& name, DataType element, const targets::Target& target)
      : type(element),
        te(te_of(name, element)),
        loops(loops_of(te, target)),
        code(loops, *codegen::cpu::find_level(architecture(target.info)), {.param_alignment = 1}) {
    TW_CHECK(loops.kernels.size() == 1, "{} is not one kernel", name);
  }
};

CompiledFunction::CompiledFunction(const std::string& name, DataType type, const std::string& target)
    : impl_(std::make_unique<Impl>(name, type, targets::find_target(target))) {}
CompiledFunction::~CompiledFunction() = default;

bool CompiledFunction::runs_here(const std::string& target) {
  const std::optional<codegen::cpu::CpuLevel> level = codegen::cpu::find_level(architecture(target));
  return level && codegen::cpu::runs_on_host(*level);
}

std::vector<uint32_t> CompiledFunction::operator()(const std::vector<Point>& points) const {
  const loop::Kernel& kernel = impl_->loops.kernels.front();
  const auto width = static_cast<size_t>(impl_->type.bytes());
  const std::vector<te::Tensor>& inputs = impl_->te.inputs;
  std::vector<std::vector<std::byte>> in(inputs.size());
  for (auto& bytes : in) bytes.resize(kElements * width);
  std::vector<std::byte> out(kElements * width);
  std::vector<std::byte> scratch(static_cast<size_t>(impl_->code.kernel(kernel.name).scratch_bytes) + 64);
  void* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
  std::vector<void*> buffers;
  for (const loop::Buffer& p : kernel.params) {
    const auto input = std::ranges::find(inputs, p.name, &te::Tensor::name);
    buffers.push_back(input == inputs.end() ? out.data() : in[static_cast<size_t>(input - inputs.begin())].data());
  }
  std::vector<uint32_t> results(points.size());
  for (size_t begin = 0; begin < points.size(); begin += kElements) {
    const size_t count = std::min<size_t>(kElements, points.size() - begin);
    for (size_t i = 0; i < static_cast<size_t>(kElements); ++i) {
      const Point& p = points[begin + i % count];  // the rest of the last block repeats it
      std::memcpy(in[0].data() + i * width, &p.x, width);
      if (inputs.size() > 1) std::memcpy(in[1].data() + i * width, &p.y, width);
    }
    impl_->code.function(kernel.name)(buffers.data(), aligned, 0, kernel.tiles);
    for (size_t i = 0; i < count; ++i) std::memcpy(&results[begin + i], out.data() + i * width, width);
  }
  return results;
}

}  // namespace tw::testing
