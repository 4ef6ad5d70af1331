// The table of what kernels touch, and manifests that disagree with it, however right their hashes are.
#include "runtime/format/kernel_use.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "runtime/format/error.h"
#include "runtime/format/step_order.h"
#include "runtime/format/validate.h"
#include "tests/runtime/cuda_fixture.h"
#include "tests/runtime/test_model.h"

namespace tw {
namespace {

using format::Entry;
using format::KernelUse;
using format::Manifest;
using format::Place;

std::vector<KernelUse> some_uses() {
  return {{64, 100, 7, 128, 0, {{format::DataType::kF32, 28, false}, {format::DataType::kBool, 1, true}}},
          {192, 5, 1, 0, 9}};
}

std::string refusal(const std::function<void()>& check) {
  try {
    check();
    return "";
  } catch (const format::Error& error) {
    EXPECT_EQ(error.code(), format::ErrorCode::kDamaged);
    return error.what();
  }
}

TEST(KernelUses, ReadBack) {
  EXPECT_EQ(format::read_kernel_uses(format::to_bytes(some_uses())), some_uses());
  EXPECT_TRUE(format::read_kernel_uses(format::to_bytes(std::vector<KernelUse>())).empty());
}

TEST(KernelUses, CutExtendedOrWildTablesAreRefused) {
  const std::vector<uint8_t> good = format::to_bytes(some_uses());
  for (size_t size = 0; size < good.size(); ++size) {
    const format::Bytes cut = format::Bytes(good).first(size);
    EXPECT_NE(refusal([&] { format::read_kernel_uses(cut); }), "") << size;
  }
  std::vector<uint8_t> longer = good;
  longer.push_back(0);
  EXPECT_NE(refusal([&] { format::read_kernel_uses(longer); }).find("goes on"), std::string::npos);
  for (size_t at = 7; at < good.size(); at += 8) {  // the highest byte of each number
    std::vector<uint8_t> wild = good;
    wild[at] = 0x80;
    EXPECT_NE(refusal([&] { format::read_kernel_uses(wild); }), "") << at;
  }
}

// A manifest that was changed after the table of its kernels was made.
class ChangedManifest : public testing::Test {
 protected:
  std::string refusal_of(const std::function<void(Manifest& manifest, Entry& entry)>& change) {
    Manifest changed = made_.manifest;
    change(changed, changed.entries[0]);
    return refusal([&] {
      format::validate(changed, [&](std::string_view name) { return size_of(name); });
      format::check_kernel_uses(changed, uses_);
    });
  }

  std::vector<KernelUse>& uses() { return uses_; }

 private:
  int64_t size_of(std::string_view name) const {
    for (const format::Section& section : sections_) {
      if (section.name == name) return static_cast<int64_t>(section.bytes.size());
    }
    return 0;
  }

  const test::TestArtefact made_ = test::sum_model({7});
  const std::vector<format::Section> sections_ = made_.sections();
  std::vector<KernelUse> uses_ = format::read_kernel_uses(made_.uses);
};

TEST_F(ChangedManifest, IsRefusedWhereKernelsAreCalledInAnotherWay) {
  const std::string other = "calls its kernel with other tiles or buffers";
  EXPECT_EQ(refusal_of([](Manifest&, Entry&) {}), "");
  const auto refuses = [&](const std::string& why, const std::function<void(Manifest&, Entry&)>& change) {
    EXPECT_NE(refusal_of(change).find(why), std::string::npos) << refusal_of(change);
  };
  refuses(other, [](Manifest&, Entry& e) { e.cpu_steps[0].tiles = 8; });
  refuses(other, [](Manifest&, Entry& e) { e.cpu_steps[0].args.pop_back(); });
  refuses(other, [](Manifest&, Entry& e) { e.cpu_steps[0].args.push_back(0); });
  refuses(other, [](Manifest& m, Entry&) { ++m.kernels[0].bytes; });
  refuses("no kernel begins where", [](Manifest& m, Entry&) { ++m.kernels[0].offset, --m.kernels[0].bytes; });
  refuses(other, [](Manifest&, Entry& e) { e.buffers[2].bytes -= 4; });
  refuses("scratch memory of", [](Manifest&, Entry& e) { e.scratch_bytes_per_thread *= 2; });
  refuses("does not wait for step", [](Manifest&, Entry& e) { e.cpu_steps[1].after = false; });
  refuses("which no step before it has written",
          [](Manifest&, Entry& e) { std::swap(e.cpu_steps[0], e.cpu_steps[1]); });
  refuses("no step writes its output", [](Manifest&, Entry& e) { e.cpu_steps.pop_back(); });
}

// Instructions that multiply bytes read four of them as a word; nothing else is another type.
TEST_F(ChangedManifest, MayGiveWordsOfBytes) {
  for (KernelUse& use : uses()) {
    for (format::KernelArgument& argument : use.arguments) argument.dtype = format::DataType::kI32;
  }
  const auto with = [&](format::DataType type, int64_t count) {
    return refusal_of([&](Manifest&, Entry& e) {
      for (auto* specs : {&e.inputs, &e.outputs}) {
        for (auto& spec : *specs) spec.dtype = type, spec.shape[0] *= count;
      }
    });
  };
  EXPECT_EQ(with(format::DataType::kU8, 4), "");
  EXPECT_EQ(with(format::DataType::kI8, 4), "");
  EXPECT_NE(with(format::DataType::kU32, 1).find("other tiles or buffers"), std::string::npos);
}

TEST_F(ChangedManifest, IsRefusedWhereMemoryDisagrees) {
  const auto refuses = [&](const std::string& why, const std::function<void(Manifest&, Entry&)>& change) {
    EXPECT_NE(refusal_of(change).find(why), std::string::npos) << refusal_of(change);
  };
  refuses("is a part of tensor", [](Manifest&, Entry& e) { e.inputs[0].shape[0] = 8; });
  refuses("outside of its place", [](Manifest&, Entry& e) { e.outputs[0].shape[0] = 6; });
  refuses("other tiles or buffers", [](Manifest&, Entry& e) { e.outputs[0].dtype = format::DataType::kI32; });
  refuses("other tiles or buffers", [](Manifest&, Entry& e) { e.buffers[2].offset += 2, e.arena_bytes += 2; });
  refuses("an arena of", [](Manifest&, Entry& e) { e.arena_bytes += 1 << 20; });
  refuses("in the same bytes at the same time", [](Manifest&, Entry& e) {
    e.buffers.push_back({Place::kArena, 0, e.buffers[2].offset + 4, 8, "other"});
    e.cpu_steps[1].args.push_back(static_cast<int64_t>(e.buffers.size()) - 1);
  });
}

#ifdef TW_RUNTIME_CUDA
// Launches are data: what a kernel is told besides its buffers is known by its hash.
TEST(LaunchesOfAManifest, AreRefusedWhereTheTableHasOthers) {
  const test::TestArtefact made = test::scale_model(64);
  made.sections();  // makes the table
  const std::vector<KernelUse> uses = format::read_kernel_uses(made.uses);
  const auto refuses = [&](const std::string& why, const std::function<void(Manifest&, Entry&)>& change) {
    Manifest changed = made.manifest;
    change(changed, changed.entries[0]);
    const std::string said = refusal([&] { format::check_kernel_uses(changed, uses); });
    EXPECT_TRUE(why.empty() ? said.empty() : said.find(why) != std::string::npos) << said << " for " << why;
  };
  const std::string way = "or not in this way", buffers = "other tiles or buffers";
  refuses("", [](Manifest&, Entry&) {});
  refuses(way, [](Manifest&, Entry& e) { ++e.cuda_steps[0].grid[1]; });
  refuses(way, [](Manifest&, Entry& e) { e.cuda_steps[0].block[0] *= 2; });
  refuses(way, [](Manifest&, Entry& e) { e.cuda_steps[1].shared_bytes -= 1; });
  refuses(way, [](Manifest&, Entry& e) { e.cuda_steps[0].params.back() ^= 1; });
  refuses(way, [](Manifest&, Entry& e) { e.cuda_steps[1].relocations[1].addend = 0; });
  refuses(way, [](Manifest&, Entry& e) { e.cuda_steps[0].relocations.pop_back(); });
  refuses(way, [](Manifest&, Entry& e) { e.cuda_steps[1].overlaps = false; });
  refuses(way, [](Manifest&, Entry& e) { e.cuda_steps[0].kernel = 1; });
  refuses(way, [](Manifest& m, Entry&) { m.kernels[0].name = "fail"; });
  refuses(way, [](Manifest& m, Entry&) { m.kernels[0].section = "cubin.1"; });
  refuses(buffers, [](Manifest&, Entry& e) { e.buffers[1].bytes -= 4; });
  refuses(buffers, [](Manifest&, Entry& e) { e.zeros = {{1, 0, 16}}; });
  refuses(buffers, [](Manifest&, Entry& e) { e.cuda_steps[0].relocations[2].buffer = 3; });
  refuses(buffers, [](Manifest&, Entry& e) { e.outputs[0].dtype = format::DataType::kI32; });
  refuses("does not wait for step", [](Manifest&, Entry& e) { e.cuda_steps[1].after.clear(); });
  refuses("which no step before it has written", [](Manifest&, Entry& e) {
    std::swap(e.cuda_steps[0], e.cuda_steps[1]);
    std::swap(e.cuda_steps[0].after, e.cuda_steps[1].after);
  });
  refuses("no step writes its output", [](Manifest&, Entry& e) { e.cuda_steps.pop_back(); });
  refuses("", [](Manifest&, Entry& e) { e.cuda_steps[0].name = "another name"; });
}
#endif

// Of two branches, steps of one may run beside those of the other until a step waits for both.
TEST(StepOrder, KnowsWhatMayStillRun) {
  Entry entry;
  const std::vector<std::vector<int64_t>> after = {{}, {0}, {0}, {2}, {1, 3}, {4}, {3}};
  for (const auto& steps : after) {
    entry.cuda_steps.emplace_back();
    entry.cuda_steps.back().after = steps;
  }
  const format::StepOrder order(entry);
  std::vector<std::set<size_t>> ended(after.size());
  for (size_t s = 0; s < after.size(); ++s) {
    for (const int64_t before : after[s]) {
      ended[s].insert(static_cast<size_t>(before));
      ended[s].insert(ended[static_cast<size_t>(before)].begin(), ended[static_cast<size_t>(before)].end());
    }
    for (size_t t = 0; t < s; ++t) EXPECT_EQ(order.has_ended(t, s), ended[s].contains(t)) << t << " " << s;
  }
}

// Two chains beside each other: in each every step waits for the one before it.
Entry two_chains(int64_t steps) {
  Entry entry;
  entry.cuda_steps.resize(static_cast<size_t>(steps));
  for (int64_t s = 2; s < steps; ++s) entry.cuda_steps[static_cast<size_t>(s)].after = {s - 2};
  return entry;
}

TEST(StepOrder, ManyBranchesAreRefusedBeforeTheyFillMemory) {
  EXPECT_EQ(format::StepOrder(two_chains(2000)).open(1999).size(), 1000);
  EXPECT_NE(refusal([] { format::StepOrder order(two_chains(20'000)); }).find("too many branches"), std::string::npos);
}

}  // namespace
}  // namespace tw
