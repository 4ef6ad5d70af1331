#include "tests/te/layout_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "support/error.h"
#include "support/join.h"
#include "te/layout_templates.h"
#include "te/merge_axes.h"
#include "te/reads.h"

namespace tw::te::samples {
namespace {

std::string describe(const Program& program, const Layouts& layouts) {
  std::string out = to_string(program);
  for (const auto& [name, layout] : layouts) out += "layout " + name + " " + to_string(layout) + "\n";
  return out;
}

std::optional<Program> rewritten(const Program& program, const Layouts& layouts, const PadFills& fills) {
  try {
    return split_reductions(apply_layouts(program, layouts, fills));
  } catch (const InternalError& error) {
    const std::string text = error.what();
    const bool by_name = text.find("' reads '") != std::string::npos && text.find(": unfold(") != std::string::npos;
    EXPECT_TRUE(by_name) << text << "\n" << describe(program, layouts);
    return std::nullopt;
  }
}

// One input as a slice of another, where two fit.
void attach(const Program& program, Random& random, Layouts& layouts) {
  for (const Tensor& to : program.inputs) {
    for (const Tensor& from : program.inputs) {
      for (size_t d = 0; d < to.shape.size(); ++d) {
        if (from.name == to.name || from.type != to.type || spliced(to.shape, d, 1, {}) != from.shape) continue;
        const Layout first = Layout().store_at(static_cast<int>(d), from.name);
        layouts.erase(from.name);
        layouts[to.name] = first.then(random_layout(first.storage_shape(to.shape), random, Padding::kNone));
        return;
      }
    }
  }
}

// Windows of x, of which some lie in a tile: cropped or padded to them and unfolded along both images' axes.
void unfold_windows(const Program& program, Random& random, Layouts& layouts) {
  for (const Compute& c : program.computes) {
    for (const Expr& read : distinct_reads(c, "X")) {
      Layout layout;
      for (size_t d : {size_t{3}, size_t{2}}) {
        const int64_t windows = c.axes[d].extent;
        if (const auto l = te::unfold_windows(c, read, d, program.tensor("X").shape[d], {pick(random, 1, windows + 1)}))
          layout = layout.then(*l);
      }
      layouts["X"] =
          layout.then(random_layout(layout.storage_shape(program.tensor("X").shape), random, Padding::kNone));
    }
  }
}

}  // namespace

bool check(const Program& program, const Layouts& layouts, const PadFills& fills, Random& random) {
  const auto layout_of = [&](const std::string& name) { return value_or(layouts, name, Layout()); };
  const auto fill_of = [&](const std::string& name) { return value_or(fills, name, 0.0); };
  const std::optional<Program> stored = rewritten(program, layouts, fills);
  if (!stored) return false;
  const ValueMap inputs =
      random_inputs(program, random, program.inputs[0].shape.empty() ? 1 : program.inputs[0].shape[0]);
  ValueMap at;
  // Padding of inputs is never read: any value will do.
  for (const Tensor& input : stored->inputs)
    at.emplace(input.name, in_layout(inputs.at(input.name), layout_of(input.name), 777, inputs));
  const ValueMap expected = evaluate(program, inputs);
  const ValueMap actual = evaluate(*stored, at);
  for (const std::string& name : program.outputs) {
    const Layout layout = layout_of(name);
    const TensorValues& logical = expected.at(name);
    EXPECT_TRUE(same(actual.at(name), in_layout(logical, layout, fill_of(name))))
        << name << " differs\n"
        << describe(program, layouts) << to_string(*stored);
    const TensorValues back = in_layout(actual.at(name), layout.inverse(logical.shape), 0);
    EXPECT_TRUE(same(back, logical)) << name << " does not come back\n" << describe(program, layouts);
  }
  return true;
}

Layouts random_layouts(const Program& program, Random& random, Padding padding) {
  Layouts layouts;
  for (const Tensor& tensor : all_tensors(program)) {
    if (pick(random, 0, 3) > 0) layouts[tensor.name] = random_layout(tensor.shape, random, padding);
  }
  if (padding == Padding::kAllowed && pick(random, 0, 1) == 0) attach(program, random, layouts);
  const bool has_windows = program.name == "conv" || program.name == "max_pool";
  if (padding == Padding::kAllowed && has_windows && pick(random, 0, 2) > 0) unfold_windows(program, random, layouts);
  // The outputs of one tuple reduction share their axes.
  for (const Compute& c : program.computes) {
    for (const Tensor& output : c.outputs) layouts[output.name] = value_or(layouts, c.name(), Layout());
  }
  return layouts;
}

}  // namespace tw::te::samples
