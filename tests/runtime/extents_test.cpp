// Entries that take smaller shapes than their own: what a run sees of them, and manifests that break the rules.
#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/format/error.h"
#include "runtime/format/validate.h"
#include "tests/runtime/api_harness.h"

namespace tw {
namespace {

using format::Manifest;
using test::api;
using test::ranged_sums;

TEST(Extents, TheManifestHasThem) {
  const Manifest manifest = ranged_sums().manifest;
  EXPECT_EQ(format::manifest_from_json(format::to_json(manifest)), manifest);
}

TEST(Extents, RowsThatAreMissingAreLikeTheLast) {
  const auto model = test::load(ranged_sums().file());
  const auto context = test::make_context(model.get(), test::options_with(0));
  for (const int64_t n : {3, 13, 7, 9, 8, 4}) {
    test::SumCase sum(n, static_cast<int>(n));
    EXPECT_OK(sum.run(context.get()));
    // The kernel reverses all rows of its own.
    const int64_t bound = n <= 7 ? 7 : 13;
    for (int64_t i = 0; i < n; ++i) {
      const auto from = static_cast<size_t>(std::min(bound - 1 - i, n - 1));
      EXPECT_EQ(sum.y.data[static_cast<size_t>(i)], sum.a.data[from] + sum.b.data[from]) << n << " at " << i;
    }
  }
}

// The kernels reverse rows of their own, which shows the parts: 13 and 7 rows; 13, and the last 13 for two that are
// left.
TEST(Extents, MoreRowsRunInPartsWhereRowsAreApart) {
  test::TestArtefact artefact = ranged_sums();
  std::ranges::reverse(
      artefact.manifest.entries);  // as the compiler has them: the first that takes parts is the largest
  for (format::Entry& entry : artefact.manifest.entries) entry.extents[0].in_parts = true;
  const auto model = test::load(artefact.file());
  const auto context = test::make_context(model.get(), test::options_with(0));
  struct Part {
    int64_t first, count;
  };
  for (const auto& [n, parts] : {std::pair{20, std::vector<Part>{{0, 13}, {13, 7}}}, {15, {{0, 13}, {2, 13}}}}) {
    test::SumCase sum(n, n);
    EXPECT_OK(sum.run(context.get()));
    std::vector<float> want(static_cast<size_t>(n));
    for (const Part& part : parts) {
      for (int64_t i = 0; i < part.count; ++i) {
        const auto from = static_cast<size_t>(part.first + part.count - 1 - i);
        want[static_cast<size_t>(part.first + i)] = sum.a.data[from] + sum.b.data[from];
      }
    }
    EXPECT_EQ(std::vector<float>(sum.y.data.begin(), sum.y.data.end()), want) << n;
    const DLTensor inputs[] = {sum.a.view(), sum.b.view()}, output = sum.y.view();
    uint64_t times[3] = {};
    EXPECT_OK(api().measure_entry(context.get(), 0, inputs, &output, times, 3));
    EXPECT_TRUE(std::ranges::all_of(times, [](uint64_t ns) { return ns > 0; }));
    EXPECT_TRUE(std::ranges::equal(want, sum.y.data)) << n;
  }
}

TEST(Extents, OthersAreRefusedNamingTheRanges) {
  const auto model = test::load(ranged_sums().file());
  const auto context = test::make_context(model.get(), test::options_with(0));
  for (const int64_t n : {1, 2, 14}) {
    test::SumCase sum(n);
    EXPECT_FAILS(sum.run(context.get()), TW_ERROR_NO_SUCH_SHAPE, "a[3..7] b[3..7]; a[8..13] b[8..13]");
  }
}

TEST(Extents, InputsOfOneExtentAgree) {
  const auto model = test::load(ranged_sums().file());
  const auto context = test::make_context(model.get(), test::options_with(0));
  test::Vector<float> a(4), b(5), y(4);
  const DLTensor inputs[] = {a.view(), b.view()}, output = y.view();
  EXPECT_FAILS(api().run(context.get(), inputs, 2, &output, 1), TW_ERROR_NO_SUCH_SHAPE, "a[4] b[5]");
  EXPECT_FAILS(api().run_entry(context.get(), 0, inputs, &output), TW_ERROR_INVALID_ARGUMENT, "'b' has shape [5]");
}

TEST(Extents, OutputsHaveTheShapeThatInputsSay) {
  const auto model = test::load(ranged_sums().file());
  const auto context = test::make_context(model.get(), test::options_with(0));
  test::SumCase sum(5);
  const DLTensor inputs[] = {sum.a.view(), sum.b.view()};
  int64_t extent = 0;
  EXPECT_OK(api().output_shape(model.get(), 0, inputs, 0, &extent));
  EXPECT_EQ(extent, 5);
  EXPECT_FAILS(api().output_shape(model.get(), 0, inputs, 1, &extent), TW_ERROR_INVALID_ARGUMENT, "no such output");
  test::Vector<float> seven(7);
  const DLTensor output = seven.view();
  EXPECT_FAILS(api().run(context.get(), inputs, 2, &output, 1), TW_ERROR_INVALID_ARGUMENT, "wanted is [5]");
}

TEST(Extents, RangesAreThereToSee) {
  const auto model = test::load(ranged_sums().file());
  TwExtentInfo info{};
  info.struct_size = sizeof(info);
  EXPECT_OK(api().input_extent(model.get(), 1, 0, 0, &info));
  EXPECT_STREQ(info.name, "n");
  EXPECT_EQ(info.least, 8);
  EXPECT_EQ(info.most, 13);
  EXPECT_EQ(info.times, 1);
  test::TestArtefact in_parts = ranged_sums();
  for (format::Entry& entry : in_parts.manifest.entries) entry.extents[0].in_parts = true;
  const auto parted = test::load(in_parts.file());
  EXPECT_OK(api().input_extent(parted.get(), 1, 0, 0, &info));
  EXPECT_EQ(info.least, 8);
  EXPECT_EQ(info.most, std::numeric_limits<int64_t>::max());
  const auto fixed = test::load(test::sum_model({7}).file());
  EXPECT_OK(api().input_extent(fixed.get(), 0, 1, 0, &info));
  EXPECT_STREQ(info.name, "");
  EXPECT_EQ(info.least, 7);
  EXPECT_EQ(info.most, 7);
  EXPECT_FAILS(api().input_extent(model.get(), 0, 0, 1, &info), TW_ERROR_INVALID_ARGUMENT, "no such dimension");
}

TEST(Extents, HostileOnesAreRefused) {
  struct Change {
    const char* what;
    std::function<void(format::Extent& extent, format::Entry& entry)> apply;
  };
  const std::vector<Change> changes = {
      {"no name", [](auto& x, auto&) { x.name.clear(); }},
      {"a name twice", [](auto& x, auto& e) { e.extents.push_back(x); }},
      {"a dim twice", [](auto& x, auto& e) { e.extents.push_back(x), e.extents.back().name = "m"; }},
      {"nothing", [](auto& x, auto&) { x.least = 0; }},
      {"one size", [](auto& x, auto&) { x.least = x.bound; }},
      {"a bound that is not the shape's", [](auto& x, auto&) { x.bound = 8; }},
      {"a bound below", [](auto& x, auto&) { x.least = 9; }},
      {"no input", [](auto& x, auto&) { x.inputs.clear(); }},
      {"a missing input", [](auto& x, auto&) { x.inputs[0].tensor = 2; }},
      {"a negative input", [](auto& x, auto&) { x.inputs[0].tensor = -1; }},
      {"a missing dim", [](auto& x, auto&) { x.inputs[1].dim = 1; }},
      {"no elements for each", [](auto& x, auto&) { x.inputs[0].times = 0; }},
      {"too many elements for each", [](auto& x, auto&) { x.outputs[0].times = 2; }},
      {"a missing output", [](auto& x, auto&) { x.outputs[0].tensor = 1; }},
      {"parts along a second dim", [](auto& x, auto&) { x.in_parts = true, x.inputs[1].dim = 1; }},
      {"too many", [](auto& x, auto& e) { e.extents.assign(format::Extent::kMost + 1, x); }},
      {"a buffer of a missing one",
       [](auto&, auto& e) {
         e.buffers.push_back({format::Place::kExtent, 1, 0, 8, "m"});
       }},
      {"a buffer of another size",
       [](auto&, auto& e) {
         e.buffers.push_back({format::Place::kExtent, 0, 0, 4, "n"});
       }},
      {"a buffer beside it",
       [](auto&, auto& e) {
         e.buffers.push_back({format::Place::kExtent, 0, 8, 8, "n"});
       }},
  };
  const auto section_size = [](std::string_view name) { return name == "code" ? 4096 : name == "weights" ? 16 : 0; };
  ASSERT_NO_THROW(format::validate(ranged_sums().manifest, section_size));
  for (const Change& change : changes) {
    Manifest bad = ranged_sums().manifest;
    format::Extent extent = bad.entries[0].extents[0];
    const size_t before = bad.entries[0].extents.size();
    change.apply(extent, bad.entries[0]);
    if (bad.entries[0].extents.size() == before) bad.entries[0].extents[0] = extent;
    EXPECT_THROW(format::validate(bad, section_size), format::Error) << change.what;
  }
}

// Whoever runs the kernels trusts that nobody writes an extent, and that it is a whole number of 8 bytes.
TEST(Extents, NoKernelWritesOne) {
  test::TestArtefact artefact = ranged_sums();
  format::Entry& entry = artefact.manifest.entries[0];
  entry.buffers.push_back({format::Place::kExtent, 0, 0, 8, "n"});
  for (int64_t& arg : entry.cpu_steps[0].args) arg = static_cast<int64_t>(entry.buffers.size()) - 1;
  EXPECT_THROW(format::Artefact::parse(artefact.file()), format::Error);
}

}  // namespace
}  // namespace tw
