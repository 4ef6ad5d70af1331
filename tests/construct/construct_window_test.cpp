// Convolutions by matrix instructions of warp groups: every candidate is a kernel, of copies that the engine can make.
#include <gtest/gtest.h>

#include "codegen/cuda/emit.h"
#include "lower/pass.h"
#include "te/rewrite.h"
#include "tests/construct/construct_check.h"
#include "tests/harness/te_programs.h"

namespace tw::construct {
namespace {

// Of one image, the channels last: `before` and `after` zeros in the last dim.
struct Windows {
  Shape size, kernel;
  int64_t before, after, columns, channels = 64;
};

te::Program program_of(const Windows& c) {
  te::Builder b;
  const size_t last = c.size.size() - 1;
  Shape x_shape = c.size, padded = c.size, w_shape = {c.columns}, out, steps = {c.channels};
  padded[last] += c.before + c.after;
  for (size_t d = 0; d <= last; ++d) out.push_back(padded[d] - c.kernel[d] + 1);
  w_shape.insert(w_shape.end(), c.kernel.begin(), c.kernel.end());
  steps.insert(steps.end(), c.kernel.begin(), c.kernel.end());
  for (Shape* shape : {&x_shape, &padded, &w_shape}) shape->push_back(c.channels);
  out.push_back(c.columns);
  const te::Tensor x = b.placeholder("x", DataType::f16(), x_shape), w = b.placeholder("w", DataType::f16(), w_shape);
  const te::Tensor p = b.compute("pad", padded, [&](const auto& i) {
    std::vector<Expr> at(i.begin(), i.end());
    at[last] = at[last] - Expr(c.before);
    return select(Expr(0) <= at[last] && at[last] < Expr(c.size[last]), x(at), imm(DataType::f16(), 0));
  });
  const te::Tensor acc = b.reduce("acc", out, steps, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    std::vector<Expr> at_x, at_w = {i[last + 1]};
    for (size_t d = 0; d <= last; ++d) at_x.push_back(i[d] + r[d + 1]), at_w.push_back(r[d + 1]);
    at_x.push_back(r[0]), at_w.push_back(r[0]);
    return cast(DataType::f32(), p(at_x)) * cast(DataType::f32(), w(at_w));
  });
  const te::Tensor y = b.compute("y", acc.shape, [&](const auto& i) { return cast(DataType::f16(), acc(i)); });
  return merged(b.finish("conv", {y}));
}

// PTX ISA: boxes have up to 256 lines, copies of windows up to 1024, whose corners have 16, 8 or 5 bits.
void expect_copies(const codegen::CudaKernel& kernel) {
  for (const codegen::CudaTensorMap& map : kernel.maps) {
    const codegen::CudaWindows& w = map.windows;
    EXPECT_LE(map.box.front(), w.extents.empty() ? 256 : 1024);
    const int64_t corners = map.shape.size() == 3 ? 1 << 15 : map.shape.size() == 4 ? 1 << 7 : 1 << 4;
    for (size_t d = 0; d < w.extents.size(); ++d)
      EXPECT_LT((w.extents[d] - 1) * w.steps[d] + 1 - w.before[d] - map.shape[d + 1], corners);
  }
}

TEST(ConstructWindows, EveryCandidateIsAKernel) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  for (const Windows& c : {Windows{{5000}, {7}, 3, 3, 256},
                           {{1200}, {3}, 0, 0, 40},
                           {{300}, {3}, 2, 1, 16},
                           {{217}, {2}, 0, 1, 64},
                           {{14, 14}, {3, 3}, 1, 1, 32},
                           {{9, 6}, {3, 3}, 1, 1, 64},
                           {{5, 14, 14}, {3, 3, 3}, 1, 17, 64}}) {
    const GroupTask task{program_of(c), {"w"}};
    SCOPED_TRACE(te::to_string(task.program));
    bool checked = num_elements(c.size) > 300;
    for (const Construction& candidate : construct(t.families, task, t.info, nullptr)) {
      SCOPED_TRACE(candidate.trace.front());
      lower::RunOptions run;
      run.lower.vector_bytes = t.info.vector_bytes;
      run.lower.has.halves = true;
      run.lower.inner_divisor = schedule::gathers(candidate.schedule) ? 0 : 1;
      const te::Program stored = te::apply_layouts(task.program, candidate.constant_layouts);
      try {
        const loop::Program lowered = lower::lower(schedule::apply(stored, candidate.schedule), run);
        for (const codegen::CudaKernel& kernel : codegen::emit_cuda(lowered).kernels) expect_copies(kernel);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
      for (const Values values : {Values::kWhole, Values::kSpecial})
        if (!checked) check_candidate(task, t, candidate, 1e-2, Passes::kLast, values);
      checked = true;
    }
  }
}

// An image of one row of height, three times as high with its padding: only the padding asks for a pixel's height.
TEST(ConstructWindows, PaddingMayUseAnAxisThatItsReadDoesNot) {
  const auto conv = [](int64_t min, int64_t dilation) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {2, 16, 9});
    const te::Tensor w = b.placeholder("w", DataType::f32(), {12, 16, 2, 3});
    const te::Tensor p = b.compute("pad", {2, 16, 3, 11}, [&](const auto& i) {
      const Expr inside = i[2] >= Expr(min) && i[2] < Expr(2) && i[3] >= Expr(1) && i[3] < Expr(10);
      return select(inside, x({i[0], i[1], i[3] - Expr(1)}), imm(DataType::f32(), 0));
    });
    const te::Tensor y =
        b.reduce("y", {2, 12, 2, 9}, {16, 2, 3}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
          return p({i[0], r[0], i[2] + r[1] * Expr(dilation), i[3] + r[2]}) * w({i[1], r[0], r[1], r[2]});
        });
    return merged(b.finish("conv", {y}));
  };
  check({conv(1, 1), {}}, "cuda:sm_90a", "contraction", 1e-5);
  check({conv(2, 1), {"w"}}, "cuda:sm_90a", "point", 1e-5);  // which is padding everywhere
}

}  // namespace
}  // namespace tw::construct
