// Rows, columns, transposes and points on GPUs: every schedule computes what the te program says.
#include <gtest/gtest.h>

#include "support/math.h"
#include "tests/construct/construct_check.h"
#include "tests/harness/te_programs.h"

namespace tw::construct {
namespace {

// Rows that divide among threads lie in registers, others in shared memory.
TEST(ConstructMemory, SoftmaxByThreads) {
  check({merged(testing::softmax(132 * 4, 32)), {}}, "cuda:sm_90a", "rows", 1e-5);  // four rows a tile
  for (const int64_t n : {7, 32, 65, 128, 200, 384, 1000}) {
    for (const int64_t rows : {2, 3, 8}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, n));
      check({merged(testing::softmax(rows, n)), {}}, "cuda:sm_90a", n < 32 ? "thread-rows" : "rows", 1e-5);
    }
  }
}

// What is summed of a row is each thread's own, and so is what is made of it: nobody waits for another thread's store.
// Where threads store a number of each row of several, sums lie in shared memory.
TEST(ConstructMemory, SumsOfRowsAreInRegisters) {
  for (const auto& [length, leaves] : {std::pair{64, false}, {64, true}, {1024, false}, {1024, true}, {4096, false}}) {
    SCOPED_TRACE(fmt::format("{} {}", length, leaves));
    const int64_t rows = length == 64 ? 132 * 8 : 6;
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {rows, length});
    const te::Tensor sum = b.reduce("sum", {rows}, {length}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return x({i[0], r[0]});
    });
    const Expr count = float_imm(static_cast<double>(length));
    const te::Tensor mean = b.compute("mean", sum.shape, [&](const auto& i) { return sum(i) / count; });
    const te::Tensor y = b.compute("y", x.shape, [&](const auto& i) { return x(i) - mean({i[0]}); });
    const GroupTask task{b.finish("norm", leaves ? std::vector{y, mean} : std::vector{y}), {}};
    const targets::Target t = targets::find_target("cuda:sm_90a");
    const Construction built = construct(t.families, task, t.info, nullptr).front();
    EXPECT_EQ(built.family, "rows");
    const std::string text = loop::to_string(schedule::apply(task.program, built.schedule));
    EXPECT_EQ(text.find("alloc sum") != std::string::npos && text.find("stack") == std::string::npos,
              !leaves || length > 64)
        << text;
    check_candidate(task, t, built, 1e-5);
  }
}

// Few rows are cut finer, and the vectors that they share are fetched before the rows are summed.
TEST(ConstructMemory, FewRowsFetchWhatTheyShare) {
  for (const int64_t rows : {6, 4000}) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {rows, 768});
    const te::Tensor scale = b.placeholder("scale", DataType::f32(), {768});
    const te::Tensor sum = b.reduce("sum", {rows}, {768}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return x({i[0], r[0]});
    });
    const te::Tensor y = b.compute("y", x.shape, [&](const auto& i) { return (x(i) - sum({i[0]})) * scale({i[1]}); });
    const GroupTask task{b.finish("norm", {y}), {}};
    const targets::Target t = targets::find_target("cuda:sm_90a");
    const Construction built = construct(t.families, task, t.info, nullptr).front();
    EXPECT_EQ(built.family, "rows");
    const loop::Program program = schedule::apply(task.program, built.schedule);
    const std::string text = loop::to_string(program);
    EXPECT_EQ(text.find("scale[") < text.find("sum["), rows == 6) << text;
    if (rows == 6) check_candidate(task, t, built, 1e-4);
  }
}

// Lines that are stored longer than their rows begin with whole accesses, which rows of any length are read by; indices
// and what a row has one of are no matter.
TEST(ConstructMemory, OddRowsOfPaddedLines) {
  for (const int64_t line : {1003, 1008}) {
    constexpr int64_t kRows = 7, kLength = 1003;
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::bf16(), {kRows, line});
    const te::Tensor label = b.placeholder("label", DataType::i64(), {kRows});
    const auto wide = [&](const Expr& i, const Expr& j) { return cast(DataType::f32(), x({i, j})); };
    const te::Tensor max = b.reduce("max", {kRows}, {kLength}, te::CombinerKind::kMax,
                                    [&](const auto& i, const auto& r) { return wide(i[0], r[0]); });
    const te::Tensor y = b.compute("y", {kRows, kLength + 5}, [&](const auto& i) {
      const Expr there = select(cast(DataType::i64(), i[1]) == label({i[0]}), max({i[0]}), wide(i[0], i[1]));
      return select(i[1] < Expr(kLength), cast(DataType::bf16(), there), float_imm(0, DataType::bf16()));
    });
    const GroupTask task{b.finish("lines", {y}), {}};
    const targets::Target t = targets::find_target("cuda:sm_90a");
    const Construction built = construct(t.families, task, t.info, nullptr).front();
    EXPECT_EQ(built.family, "rows");
    ASSERT_EQ(built.trace.size(), 1U);
    EXPECT_EQ(built.trace[0].ends_with("times 8 elements a thread"), line == 1008) << built.trace[0];
    check_candidate(task, t, built, 1e-2);
  }
}

// Rows that indices choose: accesses are as wide as the rows' own elements, however wide the indices are.
TEST(ConstructMemory, RowsThatIndicesChoose) {
  constexpr int64_t kLines = 50, kLength = 256;
  te::Builder b;
  const te::Tensor table = b.placeholder("table", DataType::f32(), {kLines, kLength});
  const te::Tensor ids = b.placeholder("ids", DataType::i64(), {2, kLength});
  const auto chosen = [&](const std::vector<Expr>& i, const Expr& j) {
    const Expr line = min(max(ids({i[0], i[1]}), int_imm(0)), int_imm(kLines - 1));
    return table({line, j});
  };
  const te::Tensor most = b.reduce("most", {2, kLength}, {kLength}, te::CombinerKind::kMax,
                                   [&](const auto& i, const auto& r) { return chosen(i, r[0]); });
  const te::Tensor y = b.compute("y", {2, kLength, kLength}, [&](const auto& i) {
    return chosen(i, i[2]) - most({i[0], i[1]});
  });
  const GroupTask task{b.finish("lines", {y}), {}};
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const Construction built = construct(t.families, task, t.info, nullptr).front();
  EXPECT_EQ(built.family, "rows");
  ASSERT_EQ(built.trace.size(), 1U);
  EXPECT_TRUE(built.trace[0].ends_with("times 4 elements a thread")) << built.trace[0];
  check_candidate(task, t, built, 1e-5);
}

// Halves of heads that change places, as rotary embeddings turn them: each element is read in the half that it is of.
TEST(ConstructMemory, PartsOfAConcatByThreads) {
  for (const int64_t half : {32, 20, 3}) {
    SCOPED_TRACE(fmt::format("halves of {}", half));
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f16(), {6, 5, 2 * half});
    const te::Tensor cosine = b.placeholder("cosine", DataType::f16(), {6, 1, 2 * half});
    const te::Tensor sine = b.placeholder("sine", DataType::f16(), {6, 1, 2 * half});
    const te::Tensor turned = b.compute("turned", x.shape, [&](const auto& i) {
      return select(i[2] < Expr(half), -x({i[0], i[1], i[2] + Expr(half)}), x({i[0], i[1], i[2] - Expr(half)}));
    });
    const te::Tensor y = b.compute("y", x.shape, [&](const auto& i) {
      return x(i) * cosine({i[0], Expr(0), i[2]}) + turned(i) * sine({i[0], Expr(0), i[2]});
    });
    check({merged(b.finish("rotary", {y})), {}}, "cuda:sm_90a", "point", 1e-2);
  }
}

// Rows of images that were rolled, of windows: each row is read where it was, its elements lie side by side.
TEST(ConstructMemory, RowsOfRolledWindowsByThreads) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f16(), {2, 6, 4, 96});
  const te::Tensor windows = b.placeholder("windows", DataType::f16(), {2, 3, 2, 2, 2, 96});
  const te::Tensor image = b.compute("image", x.shape, [&](const auto& i) {
    return windows({i[0], floor_div(i[1], Expr(2)), floor_div(i[2], Expr(2)), floor_mod(i[1], Expr(2)),
                    floor_mod(i[2], Expr(2)), i[3]});
  });
  const te::Tensor rolled = b.compute("rolled", x.shape, [&](const auto& i) {
    return select(i[1] < Expr(1), image({i[0], i[1] + Expr(5), i[2], i[3]}), image({i[0], i[1] - Expr(1), i[2], i[3]}));
  });
  const te::Tensor both = b.compute("both", x.shape, [&](const auto& i) { return x(i) + rolled(i); });
  const te::Tensor sum = b.reduce("sum", {2, 6, 4}, {96}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return cast(DataType::f32(), both({i[0], i[1], i[2], r[0]}));
  });
  const te::Tensor y = b.compute("y", x.shape, [&](const auto& i) {
    return cast(DataType::f32(), both(i)) - sum({i[0], i[1], i[2]});
  });
  check({merged(b.finish("norm", {y})), {}}, "cuda:sm_90a", "rows", 1e-2);
}

// Two largest numbers of all elements and the larger one, as of indices that are out of range: one row.
TEST(ConstructMemory, OneRowOfAll) {
  te::Builder b;
  const auto largest = [&](const std::string& name) {
    const te::Tensor x = b.placeholder(name, DataType::i32(), {1, 128});
    return b.reduce("max_" + name, {1, 1}, {1, 128}, te::CombinerKind::kMax, [&](const auto&, const auto& r) {
      return x({r[0], r[1]});
    });
  };
  const te::Tensor p = largest("p"), q = largest("q");
  const te::Tensor y = b.compute("y", {1, 1}, [&](const auto&) {
    return max(p({Expr(0), Expr(0)}), q({Expr(0), Expr(0)}));
  });
  check({merged(b.finish("all", {y})), {}}, "cuda:sm_90a", "rows");
}

// A loss: one number of all elements, whose parts are summed by many tiles where they are long. Differences, which are
// read twice, are terms.
TEST(ConstructMemory, SumsWithoutRows) {
  for (const int64_t n : {31, 32, 1000, 7919, 16 * 8192}) {
    for (const te::CombinerKind kind : {te::CombinerKind::kSum, te::CombinerKind::kMax}) {
      te::Builder b;
      const te::Tensor x = b.placeholder("x", DataType::f32(), {n});
      const te::Tensor t = b.placeholder("t", DataType::f32(), {n});
      const te::Tensor d = b.compute("d", {n}, [&](const auto& i) { return x(i) - t(i); });
      const te::Tensor all = b.reduce("all", {}, {n}, kind, [&](const auto&, const auto& r) { return d(r) * d(r); });
      const te::Tensor y =
          b.compute("y", {}, [&](const auto&) { return all(std::vector<Expr>{}) * imm(DataType::f32(), 1.0 / n); });
      const GroupTask task{b.finish("loss", {y}), {}};
      check(task, "cuda:sm_90a", n < 32 ? "point" : "rows", 1e-5);
      check(task, "cpu:x86-64-v3", n < 4096 ? "generic" : "rows", 1e-5);
      const targets::Target target = targets::find_target("cuda:sm_90a");
      const Construction built = construct(target.families, task, target.info, nullptr).front();
      const loop::Program loops = schedule::apply(task.program, built.schedule);
      EXPECT_EQ(loops.kernels.front().tiles, n == 16 * 8192 ? 16 : 1) << loop::to_string(loops);
    }
  }
}

// The range of all elements, as dynamic quantization asks for it, and a variance: reductions beside each other and of
// each other.
TEST(ConstructMemory, SeveralTotals) {
  constexpr int64_t kElements = 3 * 4096;
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {kElements});
  const auto all = [&](const char* name, te::CombinerKind kind, const auto& term) {
    return b.reduce(name, {}, {kElements}, kind, [&](const auto&, const auto& r) { return term(x(r)); });
  };
  const std::vector<Expr> at = {};
  const te::Tensor high = all("high", te::CombinerKind::kMax, [](const Expr&e) { return e; }),
                   low = all("low", te::CombinerKind::kMin, [](const Expr&e) { return e; });
  const te::Tensor off =
      all("off", te::CombinerKind::kSum, [&](const Expr& e) { return (e - low(at)) * float_imm(1e-4); });
  const te::Tensor y = b.compute("y", {}, [&](const auto&) { return high(at) - low(at) + off(at); });
  check({b.finish("range", {y}), {}}, "cpu:x86-64-v4", "rows", 1e-4);
}

// What no tile keeps is computed twice; what one may keep is tried both ways.
TEST(ConstructMemory, LongRowsByThreads) {
  targets::Target t = targets::find_target("cuda:sm_90a");
  for (const int64_t bytes : {16 << 10, 5 << 10}) {
    t.info.levels.front().capacity_bytes = bytes;
    const GroupTask task{merged(testing::softmax(2, 1000)), {}};
    std::vector<bool> computed;
    for (const Construction& built : construct(t.families, task, t.info, nullptr)) {
      EXPECT_EQ(built.family, "rows");
      computed.push_back(schedule::to_string(built.schedule).find("inline exp") != std::string::npos);
      check_candidate(task, t, built, 1e-5);
    }
    EXPECT_EQ(computed, bytes < 8 << 10 ? std::vector<bool>{true} : (std::vector<bool>{false, true}));
  }
}

// A row that is kept takes the room of an input that several stages read: the first candidate keeps the input.
TEST(ConstructMemory, InputsAreKeptBeforeWhatIsMadeOfThem) {
  targets::Target t = targets::find_target("cuda:sm_90a");
  t.info.levels.front().capacity_bytes = 10 << 10;
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {2, 1500});
  const te::Tensor max = b.reduce("max", {2}, {1500}, te::CombinerKind::kMax, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]});
  });
  const te::Tensor d = b.compute("d", x.shape, [&](const auto& i) { return x(i) - max({i[0]}); });
  const te::Tensor sum = b.reduce("sum", {2}, {1500}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return d({i[0], r[0]});
  });
  const te::Tensor y = b.compute("y", x.shape, [&](const auto& i) { return d(i) * sum({i[0]}); });
  const GroupTask task{merged(b.finish("kept", {y})), {}};
  const Candidates built = construct(t.families, task, t.info, nullptr);
  ASSERT_EQ(built.size(), 2U);
  EXPECT_NE(schedule::to_string(built[0].schedule).find("cache_read x"), std::string::npos);
  EXPECT_EQ(schedule::to_string(built[1].schedule).find("cache_read x"), std::string::npos);
  for (const Construction& candidate : built) check_candidate(task, t, candidate, 1e-4);
}

// 40,000 elements of 8 bytes do not fit a tile's memory, as those of 4 bytes do: they are read again.
TEST(ConstructMemory, WhatATileKeepsIsCountedInBytes) {
  for (const DataType type : {DataType::f32(), DataType::f64()}) {
    te::Builder b;
    constexpr int64_t kLength = 40000;
    const te::Tensor x = b.placeholder("x", type, {2, kLength});
    const te::Tensor sum = b.reduce("sum", {2}, {kLength}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return x({i[0], r[0]});
    });
    const te::Tensor y = b.compute("y", {2, kLength}, [&](const auto& i) { return x(i) / sum({i[0]}); });
    const targets::Target t = targets::find_target("cuda:sm_90a");
    const Construction built = construct(t.families, {b.finish("share", {y}), {}}, t.info, nullptr).front();
    EXPECT_EQ(built.family, "rows");
    const bool kept = schedule::to_string(built.schedule).find("cache_read x") != std::string::npos;
    EXPECT_EQ(kept, type == DataType::f32()) << to_string(type);
  }
}

// An f16 value that an element-wise function reads twice in f32 is not stored in f32 before.
TEST(ConstructMemory, ConversionsAreRepeatedInRegisters) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f16(), {64, 96});
  const te::Tensor wide = b.compute("wide", x.shape, [&](const auto& i) { return cast(DataType::f32(), x(i)); });
  const te::Tensor y = b.compute("y", x.shape, [&](const auto& i) {
    return cast(DataType::f16(), wide(i) * imm(DataType::f32(), .5) + wide(i) * wide(i));
  });
  const GroupTask task{b.finish("curve", {y}), {}};
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const Construction built = construct(t.families, task, t.info, nullptr).front();
  EXPECT_EQ(schedule::apply(task.program, built.schedule).kernels.size(), 1);
  check(task, "cuda:sm_90a", "point", 1e-3);
}

TEST(ConstructMemory, TransposesThroughSharedMemory) {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{64, 96}, {50, 33}, {32, 32}, {9, 200}, {24, 8}, {5, 90}}) {
    SCOPED_TRACE(fmt::format("{} x {}", rows, columns));
    check({testing::transpose(rows, columns), {}}, "cuda:sm_90a", std::min(rows, columns) < 8 ? "point" : "transpose");
  }
}

TEST(ConstructMemory, TilesOfTransposesFollowEachOtherInBlocks) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const auto has = [&](int64_t rows, int64_t columns, std::string_view blocks) {
    const Candidates all = construct(t.families, {testing::transpose(rows, columns), {}}, t.info, nullptr);
    return std::ranges::any_of(all,
                               [&](const Construction& c) { return c.trace.at(0).find(blocks) != std::string::npos; });
  };
  EXPECT_TRUE(has(256, 512, "in blocks of 8 x 8 tiles"));
  EXPECT_TRUE(has(64, 512, "in blocks of 2 x 8 tiles"));
  EXPECT_FALSE(has(96, 480, "in blocks")) << "3 and 15 tiles";
  check({testing::transpose(256, 512), {}}, "cuda:sm_90a", "transpose");
}

// A model's image becomes 16-bit, channels last, with channels more.
TEST(ConstructMemory, FilledChannelsAreWrittenLast) {
  for (const int64_t channels : {3, 5, 46, 70}) {
    SCOPED_TRACE(channels);
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {2, channels, 77});
    const int64_t filled = channels <= 4 ? 4 : ceil_div(channels, int64_t{8}) * 8;
    const te::Tensor y = b.compute("y", {2, 77, filled}, [&](const auto& i) {
      return select(i[2] < Expr(channels), cast(DataType::f16(), x({i[0], i[2], i[1]})), imm(DataType::f16(), 0));
    });
    check({b.finish("filled", {y}), {}}, "cuda:sm_90a", filled == 4 ? "point" : "transpose");
  }
}

// The same with strides folded, and with zeros beside the rows of pixels: one candidate more, in which each thread has
// whole pixels, as many as are a vector of the image's lines.
TEST(ConstructMemory, PixelsAreGatheredWhole) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  for (const auto& [fold, filled, zeros] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 4, 0}, {1, 3, 0}, {2, 12, 0}, {2, 16, 1}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", fold, filled, zeros));
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {2, 3, 5 * fold, (8 - zeros) * fold});
    const te::Tensor y = b.compute("y", {2, 5, 8, filled}, [&, fold = fold, zeros = zeros](const auto& i) {
      const Expr place = floor_div(i[3], Expr(3)), row = i[1] * Expr(fold) + floor_div(place, Expr(fold));
      const Expr pixel = (i[2] - Expr(zeros)) * Expr(fold) + floor_mod(place, Expr(fold));
      const Expr value = cast(DataType::f16(), x({i[0], floor_mod(i[3], Expr(3)), row, pixel}));
      return select(i[3] < Expr(3 * fold * fold) && i[2] >= Expr(zeros), value, imm(DataType::f16(), 0));
    });
    const GroupTask task{b.finish("pixels", {y}), {}};
    const std::vector<Construction> built = construct(t.families, task, t.info, nullptr);
    ASSERT_EQ(built.size(), 2U);
    EXPECT_EQ(built[1].family, "point");
    EXPECT_EQ(built[1].trace.front(), fmt::format("{} points with all of their last axis by a thread", 4 / fold));
    for (const Construction& candidate : built) check_candidate(task, t, candidate, 1e-2);
  }
}

// Fewer threads do more each: that comes first where there are enough of them.
TEST(ConstructMemory, ManyPixelsAreGatheredWholeFirst) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  for (const int64_t images : {1, 32}) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {images, 3, 112, 112});
    const te::Tensor y = b.compute("y", {images, 112, 112, 3}, [&](const auto& i) {
      return cast(DataType::f16(), x({i[0], i[3], i[1], i[2]}));
    });
    const Construction first = construct(t.families, {b.finish("pixels", {y}), {}}, t.info, nullptr).front();
    EXPECT_EQ(schedule::to_string(first.schedule).find("cache_read") != std::string::npos, images == 32) << images;
  }
}

struct Windows {
  int64_t size = 8, channels = 16, kernel = 3, stride = 1;
  bool pads = true;
  DataType type = DataType::f16();
};

// A depthwise convolution of weights[channel, kernel, kernel], or the maximum of each window, of channels that lie
// last.
te::Program windows(const Windows& s, bool pools) {
  te::Builder b;
  const int64_t before = s.pads ? s.kernel / 2 : 0;
  const int64_t out = (s.size + 2 * before - s.kernel) / s.stride + 1;
  const te::Tensor x = b.placeholder("x", s.type, {2, s.size, s.size, s.channels});
  const te::Tensor w = b.placeholder("w", s.type, {s.channels, s.kernel, s.kernel});
  te::Tensor p = x;
  if (s.pads) {
    const auto inside = [&](const Expr& i) { return i >= Expr(before) && i < Expr(s.size + before); };
    p = b.compute("pad", {2, s.size + 2 * before, s.size + 2 * before, s.channels}, [&](const auto& i) {
      const Expr other = imm(s.type, pools ? -1000 : 0);
      return select(inside(i[1]) && inside(i[2]), x({i[0], i[1] - Expr(before), i[2] - Expr(before), i[3]}), other);
    });
  }
  const te::CombinerKind kind = pools ? te::CombinerKind::kMax : te::CombinerKind::kSum;
  const te::Tensor acc =
      b.reduce("acc", {2, out, out, s.channels}, {s.kernel, s.kernel}, kind, [&](const auto& i, const auto& r) {
        const Expr a = p({i[0], i[1] * Expr(s.stride) + r[0], i[2] * Expr(s.stride) + r[1], i[3]});
        const Expr wide = cast(DataType::f32(), a);
        return pools ? wide : wide * cast(DataType::f32(), w({i[3], r[0], r[1]}));
      });
  const te::Tensor y =
      b.compute("y", acc.shape, [&](const auto& i) { return cast(s.type, max(acc(i), float_imm(0))); });
  return b.finish("windows", {y});
}

// Strips of vectors by a thread: with and without padding, windows that overlap and such that do not, rows of any
// length, windows too large to unroll, and as many channels as fill no vector of eight.
TEST(ConstructMemory, WindowsOverChannelsByThreads) {
  for (const Windows& s : {Windows{8, 16, 3, 1}, Windows{7, 8, 3, 2}, Windows{6, 24, 3, 1}, Windows{8, 8, 2, 2, false},
                           Windows{14, 8, 7, 1, true, DataType::bf16()}, Windows{5, 12, 3, 1, true, DataType::f32()}}) {
    for (const bool pools : {false, true}) {
      SCOPED_TRACE(fmt::format("size {} channels {} kernel {} stride {} pools {}", s.size, s.channels, s.kernel,
                               s.stride, pools));
      check({windows(s, pools), {"w"}}, "cuda:sm_90a", "columns", 1e-3);
    }
  }
}

// The thread loads each pixel of a row of its windows once.
TEST(ConstructMemory, RowsOfWindowsAreKept) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  for (const Construction& c : construct(t.families, {windows({56, 256, 3, 1}, false), {"w"}}, t.info, nullptr))
    EXPECT_NE(schedule::to_string(c.schedule).find("compute_at pad acc r0 \"register\""), std::string::npos);
}

// Means of whole images, with as few channels as leave SMs idle: narrower vectors, and terms in two loops.
TEST(ConstructMemory, MeansOfImagesByThreads) {
  for (const Shape& kept : {Shape{2, 24}, Shape{40}}) {
    te::Builder b;
    Shape shape = kept;
    shape.insert(shape.end() - 1, 200);
    const te::Tensor x = b.placeholder("x", DataType::f16(), shape);
    const te::Tensor acc = b.reduce("acc", kept, {200}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      std::vector<Expr> at(i.begin(), i.end());
      at.insert(at.end() - 1, r[0]);
      return cast(DataType::f32(), x(at));
    });
    const te::Tensor y =
        b.compute("y", kept, [&](const auto& i) { return cast(DataType::f16(), acc(i) * float_imm(1.0 / 200)); });
    check({b.finish("mean", {y}), {}}, "cuda:sm_90a", "columns", 1e-3);
  }
}

TEST(ConstructMemory, MeansByThreads) {
  for (const int64_t n : {33, 256, 6000}) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {3, 4, n});
    const te::Tensor sum = b.reduce("sum", {3, 4}, {n}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return x({i[0], i[1], r[0]});
    });
    const te::Tensor mean = b.compute("mean", {3, 4}, [&](const auto& i) {
      return sum({i[0], i[1]}) * imm(DataType::f32(), 1.0 / n);
    });
    check({merged(b.finish("mean", {mean})), {}}, "cuda:sm_90a", "rows", 1e-5);
  }
}

}  // namespace
}  // namespace tw::construct
