// Random sequences of all layout primitives: on tensors, and on all tensors of random operators. Some thousand here; as
// many as TW_TEST_LAYOUTS says (scripts/layout_sequences.sh).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "support/join.h"
#include "te/materialize.h"
#include "tests/harness/eval_index.h"
#include "tests/te/layout_check.h"

namespace tw::te {
namespace {

using samples::Padding;
using samples::Random;

uint64_t sequences() {
  const char* wanted = std::getenv("TW_TEST_LAYOUTS");
  return wanted == nullptr ? 4000 : std::strtoull(wanted, nullptr, 10);
}

// As text, through the inverse, as bytes.
TEST(LayoutProperty, SequencesOnTensorsComeBack) {
  for (uint64_t seed = 0; seed < sequences() / 2 && !HasFailure(); ++seed) {
    Random random(seed);
    const Shape shape = by_index(samples::pick(random, 1, 4), [&](int64_t) { return samples::pick(random, 1, 9); });
    const Layout layout = samples::random_layout(shape, random, Padding::kAllowed);
    EXPECT_EQ(parse_layout(to_string(layout)), layout);
    EXPECT_EQ(layout.inverse(shape).inverse(layout.storage_shape(shape)), layout) << to_string(layout);
    TensorValues values = zeros(DataType::f32(), shape);
    for (double& x : values.floats) x = static_cast<double>(samples::pick(random, -99, 99));
    const TensorValues stored = samples::in_layout(values, layout, 777);
    EXPECT_TRUE(samples::same(samples::in_layout(stored, layout.inverse(shape), 0), values))
        << to_string(shape) << " " << to_string(layout);
  }
}

TEST(LayoutProperty, OperatorsComputeTheSame) {
  uint64_t checked = 0, refused = 0, tensors = 0;
  std::map<LayoutOp, uint64_t> used;
  for (uint64_t seed = 0; tensors < sequences() && !HasFailure(); ++seed) {
    Random random(seed);
    const Padding padding = seed % 4 == 0 ? Padding::kNone : Padding::kAllowed;
    for (const Program& program : samples::all(random)) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      PadFills fills;
      for (const std::string& name : program.outputs)
        if (seed % 3 == 0) fills[name] = static_cast<double>(samples::pick(random, -2, 5));
      const samples::Layouts layouts = samples::random_layouts(program, random, padding);
      const bool done = samples::check(program, layouts, fills, random);
      (done ? checked : refused) += 1;
      if (!done) continue;
      tensors += layouts.size();
      for (const auto& [name, layout] : layouts) {
        for (const LayoutPrimitive& p : layout.primitives()) ++used[p.op];
      }
    }
  }
  std::printf("%llu sequences in %llu programs, %llu programs refused for their windows; unfold %llu, store_at %llu\n",
              static_cast<unsigned long long>(tensors), static_cast<unsigned long long>(checked),
              static_cast<unsigned long long>(refused), static_cast<unsigned long long>(used[LayoutOp::kUnfold]),
              static_cast<unsigned long long>(used[LayoutOp::kStoreAt]));
  EXPECT_EQ(used.size(), 8U) << "all primitives, but decouple_at, which inverses have";
  EXPECT_LT(refused * 2, checked);
}

}  // namespace
}  // namespace tw::te
