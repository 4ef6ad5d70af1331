// Steps that run several times: their order, where their buffers lie, what a manifest may say of them, runs on the CPU.
#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>

#include "runtime/device/cpu/program.h"
#include "runtime/format/error.h"
#include "runtime/format/turns.h"
#include "runtime/format/validate.h"
#include "tests/runtime/api_harness.h"

namespace tw {
namespace {

using format::Buffer;
using format::Entry;
using format::Place;
using test::api;

/// Steps in the order of a run, each with the turns; '|' before one with which a turn begins.
std::string order_of(const std::vector<format::Repeat>& repeats, size_t steps) {
  Entry entry;
  entry.repeats = repeats;
  std::string order;
  size_t count = 0;
  format::for_each_step(entry, steps, [&](size_t step, std::span<const int64_t> turns, bool first_of_turn) {
    order += format::join(order.empty() ? "" : " ", first_of_turn ? "|" : "", step);
    for (const int64_t turn : turns) order += format::join(".", turn);
    ++count;
  });
  EXPECT_EQ(format::steps_run(entry, steps), count);
  return order;
}

TEST(Turns, StepsComeTurnAfterTurn) {
  EXPECT_EQ(order_of({}, 0), "");
  EXPECT_EQ(order_of({}, 2), "0 1");
  EXPECT_EQ(order_of({{1, 2, 2}}, 4), "0.0 |1.0 2.0 |1.1 2.1 3.0");
  EXPECT_EQ(order_of({{0, 1, 2}, {1, 1, 2}}, 2), "|0.0.0 |0.1.0 |1.0.0 |1.0.1");
  EXPECT_EQ(order_of({{0, 3, 2}, {1, 1, 2}}, 3), "|0.0.0 |1.0.0 |1.0.1 2.0.0 |0.1.0 |1.1.0 |1.1.1 2.1.0");
  EXPECT_EQ(order_of({{0, 1, 2}, {0, 1, 2}}, 1), "|0.0.0 |0.0.1 |0.1.0 |0.1.1");
}

TEST(Turns, MoreStepsThanARunMayTakeAreMany) {
  Entry entry;
  entry.repeats = {{0, 2, INT64_MAX}, {0, 2, INT64_MAX}, {0, 1, 3}};
  EXPECT_GT(format::steps_run(entry, 2), static_cast<size_t>(format::kMaxStepsRun));
}

TEST(Turns, BuffersMoveRowByRow) {
  Entry entry;
  entry.repeats = {{0, 1, 3}, {0, 1, 4}};
  entry.buffers = {{Place::kInput, 1, 8, 4, "forwards", {{0, 100, 0, 1, 3}, {1, 4, 0, 1, 4}}},
                   {Place::kArena, 0, 8, 4, "backwards", {{1, 4, 3, 3, 4}}},
                   {Place::kArena, 0, 64, 4, "the row before", {{1, 4, 1, 1, 2}}, {3}},
                   {Place::kWeights, 0, 12, 4, "its first", {{0, 4, 0, 1, 3}}}};
  const auto offsets = [&](int64_t buffer, int64_t outer) {
    std::vector<int64_t> all;
    for (int64_t turn = 0; turn < 4; ++turn)
      all.push_back(format::located(entry, buffer, std::array{outer, turn}).offset);
    return all;
  };
  EXPECT_EQ(offsets(0, 2), (std::vector<int64_t>{208, 212, 216, 220}));
  EXPECT_EQ(offsets(1, 0), (std::vector<int64_t>{20, 16, 12, 8}));
  EXPECT_EQ(offsets(2, 1), (std::vector<int64_t>{16, 64, 68, 64}));
  EXPECT_EQ(format::located(entry, 0, std::array<int64_t, 2>{0, 0}), (Buffer{Place::kInput, 1, 8, 4, ""}));
  EXPECT_EQ(format::located(entry, 2, std::array<int64_t, 2>{2, 0}), (Buffer{Place::kWeights, 0, 20, 4, ""}));
  EXPECT_EQ(format::extent(entry.buffers[0]), 4 + 200 + 12);
}

// ---- What a manifest may say.

struct Refusal {
  const char* message;
  std::function<void(Entry&)> change;
};

void expect_refused(const test::TestArtefact& good, const std::vector<Refusal>& refusals) {
  const auto section_size = [&](std::string_view name) {
    return static_cast<int64_t>(name == "code" ? good.code.size() : name == "weights" ? good.weights.size() : 0);
  };
  EXPECT_NO_THROW(format::validate(good.manifest, section_size));
  for (const Refusal& refusal : refusals) {
    format::Manifest bad = good.manifest;
    refusal.change(bad.entries[0]);
    try {
      format::validate(bad, section_size);
      ADD_FAILURE() << "taken: " << refusal.message;
    } catch (const format::Error& error) {
      EXPECT_EQ(error.code(), format::ErrorCode::kDamaged);
      EXPECT_NE(std::string(error.what()).find(refusal.message), std::string::npos)
          << error.what() << " instead of " << refusal.message;
    }
  }
}

constexpr int64_t kMax = INT64_MAX;

TEST(Repeats, ThatDoNotNestAreRefused) {
  expect_refused(test::scan_model(2, 3, 4),
                 {{"repeats steps that it does not have", [](Entry& e) { e.repeats[2].first = -1; }},
                  {"repeats steps that it does not have", [](Entry& e) { e.repeats[2].count = 3; }},
                  {"repeats steps that it does not have", [](Entry& e) { e.repeats[2].count = kMax; }},
                  {"repeats steps that it does not have", [](Entry& e) { e.repeats[2].first = kMax; }},
                  {"repeats steps that it does not have", [](Entry& e) { e.repeats[2].count = 0; }},
                  {"without a turn", [](Entry& e) { e.repeats[2].turns = 0; }},
                  {"cross or are out of order", [](Entry& e) { e.repeats[1].count = 2; }},
                  {"cross or are out of order", [](Entry& e) { std::swap(e.repeats[0], e.repeats[2]); }},
                  {"cross or are out of order", [](Entry& e) { e.repeats[2].count = 1; }},
                  {"cross or are out of order",
                   [](Entry& e) {
                     e.repeats[0] = {0, 2, 2}, e.repeats[1] = {1, 2, 2};
                   }},
                  {"in more than 16 repeats", [](Entry& e) { e.repeats.insert(e.repeats.end(), 15, e.repeats[3]); }},
                  {"runs too many steps", [](Entry& e) { e.repeats[1].turns = format::kMaxStepsRun; }},
                  {"runs too many steps", [](Entry& e) { e.repeats[2].turns = e.repeats[3].turns = kMax; }}});
}

TEST(Repeats, BuffersThatMoveTooFarAreRefused) {
  expect_refused(test::scan_model(2, 3, 4),
                 {{"moves with no repeat", [](Entry& e) { e.buffers[0].moves[0].repeat = -1; }},
                  {"moves with no repeat", [](Entry& e) { e.buffers[0].moves[1].repeat = 4; }},
                  {"an inner repeat before an outer one",
                   [](Entry& e) { std::swap(e.buffers[0].moves[0], e.buffers[0].moves[1]); }},
                  {"an inner repeat before an outer one", [](Entry& e) { e.buffers[0].moves[1].repeat = 0; }},
                  {"beyond its period", [](Entry& e) { e.buffers[0].moves[1].period = 0; }},
                  {"beyond its period", [](Entry& e) { e.buffers[0].moves[1].period = kMax; }},
                  {"beyond its period", [](Entry& e) { e.buffers[0].moves[1].start = 3; }},
                  {"beyond its period", [](Entry& e) { e.buffers[0].moves[1].start = -1; }},
                  {"beyond its period", [](Entry& e) { e.buffers[0].moves[1].step = 4; }},
                  {"beyond its period", [](Entry& e) { e.buffers[0].moves[1].step = -1; }},
                  {"out of its place", [](Entry& e) { e.buffers[0].moves[1].bytes = -16; }},
                  {"out of its place", [](Entry& e) { e.buffers[0].moves[1].bytes = kMax; }},
                  {"out of its place", [](Entry& e) { e.buffers[0].moves[1].bytes = 17; }},
                  {"out of its place", [](Entry& e) { e.buffers[0].moves[1].period = 4; }},
                  {"out of its place", [](Entry& e) { e.arena_bytes -= 1; }},
                  {"out of its place", [](Entry& e) { e.outputs[1].shape[1] = 2; }},
                  {"out of its place",
                   [](Entry& e) {
                     e.buffers[5] = {Place::kWeights, 0, 0, 0, "", {{3, 1, 0, 1, 2}}};
                   }},
                  {"an error word that moves",
                   [](Entry& e) {
                     e.buffers[6] = {Place::kError, 0, 0, 4, "", {{3, 4, 0, 1, 1}}};
                   }},
                  {"step 'forth' outside of a repeat", [](Entry& e) { e.cpu_steps[0].args[0] = 4; }},
                  {"step 'out' outside of a repeat", [](Entry& e) { e.repeats[3].count = 1; }}});
}

TEST(Repeats, BuffersThatBeginWhereTheyCannotAreRefused) {
  expect_refused(test::scan_model(2, 3, 4),
                 {{"begins in no other one", [](Entry& e) { e.buffers[1].initial = {9}; }},
                  {"begins in no other one", [](Entry& e) { e.buffers[1].initial = {-1}; }},
                  {"begins in no other one",
                   [](Entry& e) {
                     e.buffers[1].initial = {3, 3};
                   }},
                  {"begins elsewhere and does not move", [](Entry& e) { e.buffers[5].moves.clear(); }},
                  {"begins where it cannot", [](Entry& e) { e.buffers[3].bytes = 12; }},
                  {"begins where it cannot", [](Entry& e) { e.buffers[1].initial = {1}; }},
                  {"begins where it cannot", [](Entry& e) { e.buffers[3].initial = {3}, e.buffers[5].initial = {1}; }},
                  {"begins where it cannot",
                   [](Entry& e) {
                     e.buffers[3] = {Place::kError, 0, 0, 4, ""};
                     for (const size_t b : {0U, 1U, 2U}) e.buffers[b].bytes = 4;
                   }},
                  {"begins in one that moves with it", [](Entry& e) { e.buffers[1].initial = {0}; }},
                  {"begins in one that moves with it", [](Entry& e) { e.buffers[1].initial = {8}; }}});
}

TEST(Repeats, ThatReadAStateAndChangeItAreRefused) {
  test::TestArtefact total = test::total_model(4);
  Entry& entry = total.manifest.entries[0];
  entry.repeats = {{0, 1, 2}, {1, 1, 2}};
  const auto together = [](Entry& e) { e.repeats = {{0, 2, 2}}; };
  expect_refused(total, {{"reads and changes state 'total'", together},
                         {"reads state 'total' where it has changed", [](Entry& e) {
                            e.buffers.push_back({Place::kOutput, 0, 0, 16, "", {{1, 0, 0, 0, 1}}, {2}});
                            e.cpu_steps[1].args[0] = 4;
                          }}});
  entry.buffers[2] = {Place::kOutput, 0, 0, 16, "", {{0, 0, 0, 0, 1}}, {4}};  // takes the state in its first turn
  entry.buffers.push_back({Place::kState, 1, 0, 16, "total"});
  expect_refused(total, {{"reads and changes state 'total'", together}});
}

// ---- Runs on the CPU.

struct ScanCase {
  ScanCase(int64_t batch_in, int64_t turns_in, int64_t n_in)
      : batch(batch_in),
        turns(turns_in),
        n(n_in),
        x(elements()),
        h(static_cast<size_t>(batch * n)),
        y(elements(), -1),
        z(elements(), -1) {
    std::iota(x.begin(), x.end(), 1.0f);
    std::iota(h.begin(), h.end(), 100.0f);
    for (float& value : x) value = static_cast<float>(static_cast<int>(value) % 11);
  }
  size_t elements() const { return static_cast<size_t>(batch * turns * n); }
  DLTensor view(std::vector<float>& values, int64_t* shape, int rank) {
    return {values.data(), {kDLCPU, 0}, rank, test::dlpack_type<float>(), shape, nullptr, 0};
  }
  test::Outcome run(TwContext* context) {
    inputs[0] = view(x, rows, 3), inputs[1] = view(h, first, 2);
    outputs[0] = view(y, rows, 3), outputs[1] = view(z, rows, 3);
    return api().run(context, inputs, 2, outputs, 2);
  }
  void expect_right() const {
    std::vector<float> forth(elements()), back(elements());
    const auto at = [&](int64_t b, int64_t t, int64_t i) { return static_cast<size_t>((b * turns + t) * n + i); };
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t i = 0; i < n; ++i) {
        float sum = h[static_cast<size_t>(b * n + i)];
        for (int64_t t = 0; t < turns; ++t) forth[at(b, t, i)] = sum += x[at(b, t, i)];
        sum = h[static_cast<size_t>(b * n + i)];
        for (int64_t t = turns; t-- > 0;) back[at(b, t, i)] = (sum += x[at(b, t, i)]) + x[at(b, t, i)];
      }
    }
    EXPECT_EQ(y, forth) << batch << " x " << turns << " x " << n;
    EXPECT_EQ(z, back) << batch << " x " << turns << " x " << n;
  }
  int64_t batch, turns, n;
  std::vector<float> x, h, y, z;
  int64_t rows[3] = {batch, turns, n}, first[2] = {batch, n};
  DLTensor inputs[2], outputs[2];
};

TEST(Repeats, CarryValuesForthAndBack) {
  for (const auto& [batch, turns, n] :
       {std::array<int64_t, 3>{1, 1, 1}, {1, 7, 5}, {3, 1, 2}, {3, 2, 64}, {2, 50, 301}}) {
    const auto model = test::load(test::scan_model(batch, turns, n).file());
    for (const int threads : {1, 2, 0}) {
      const auto context = test::make_context(model.get(), test::options_with(threads));
      for (int i = 0; i < 3; ++i) {  // each with tensors of its own
        ScanCase scan(batch, turns, n);
        scan.x[0] = static_cast<float>(i);
        EXPECT_OK(scan.run(context.get()));
        scan.expect_right();
      }
    }
  }
}

TEST(Repeats, TurnsWaitForEachOtherWhateverTheirStepsSay) {
  const test::TestArtefact artefact = test::scan_model(2, 5, 301);
  const Entry& entry = artefact.manifest.entries[0];
  ASSERT_FALSE(entry.cpu_steps[0].after);
  const runtime::CodeMap code(artefact.code);
  std::vector<uint8_t> arena(static_cast<size_t>(entry.arena_bytes));
  int32_t error = 0;
  const runtime::CpuMemory memory{arena.data(), nullptr, nullptr, 0, &error};
  runtime::CpuProgram program(artefact.manifest, entry, code, memory, runtime::CpuProgram::Profile::kOff);
  EXPECT_EQ(program.count(), 2 * 5 * 3);
  for (const int threads : {1, 2, 3, 8}) {
    ScanCase scan(2, 5, 301);
    const DLTensor inputs[] = {scan.view(scan.x, scan.rows, 3), scan.view(scan.h, scan.first, 2)};
    const DLTensor outputs[] = {scan.view(scan.y, scan.rows, 3), scan.view(scan.z, scan.rows, 3)};
    program.bind(inputs, outputs);
    runtime::ThreadPool pool(threads);
    ASSERT_TRUE(pool.try_run(threads, program));
    scan.expect_right();
  }
}

TEST(Repeats, StepsOfATurnThatNeedNotWaitShareALoop) {
  test::TestArtefact artefact = test::scan_model(2, 5, 3);
  Entry& entry = artefact.manifest.entries[0];
  entry.repeats = {{0, 3, 4}};
  for (Buffer& buffer : entry.buffers) buffer.moves.clear(), buffer.initial.clear();
  for (format::CpuStep& step : entry.cpu_steps) step.after = false;
  const runtime::CodeMap code(artefact.code);
  EXPECT_EQ(runtime::CpuProgram(artefact.manifest, entry, code, {}, runtime::CpuProgram::Profile::kOff).count(), 4);
  EXPECT_EQ(runtime::CpuProgram(artefact.manifest, entry, code, {}, runtime::CpuProgram::Profile::kOn).count(), 12);
}

TEST(Repeats, AProfileHasTheTimeOfAllTurns) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kTurns = 2000;
  const auto model = test::load(test::scan_model(2, kTurns, 64).file());
  const auto context = test::make_context(model.get(), test::options_with(1, 1));
  ScanCase scan(2, kTurns, 64);
  double largest_part = 0;
  for (int i = 0; i < 5; ++i) {
    const Clock::time_point start = Clock::now();
    EXPECT_OK(scan.run(context.get()));
    const auto whole = static_cast<uint64_t>(std::chrono::nanoseconds(Clock::now() - start).count());
    TwStepTime steps[4] = {};
    size_t count = 0;
    EXPECT_OK(api().last_profile(context.get(), steps, 4, &count));
    ASSERT_EQ(count, 3u);
    EXPECT_STREQ(steps[0].name, "forth");
    EXPECT_STREQ(steps[2].name, "out");
    const uint64_t sum = steps[0].ns + steps[1].ns + steps[2].ns;
    EXPECT_LE(sum, whole) << "of this run alone";
    for (int s = 0; s < 3; ++s) EXPECT_GT(steps[s].ns, sum / 50);
    largest_part = std::max(largest_part, static_cast<double>(sum) / static_cast<double>(whole));
  }
  EXPECT_GT(largest_part, 0.25);
}

// Step "pick" for a quarter of the elements a turn, then "again" for all.
TEST(Repeats, AnErrorInATurnNamesItsStep) {
  test::TestArtefact artefact = test::gather_model(5, 100);
  Entry& entry = artefact.manifest.entries[0];
  entry.repeats = {{0, 1, 4}};
  entry.buffers.push_back({Place::kInput, 1, 0, 200, "", {{0, 200, 0, 1, 4}}});
  entry.buffers.push_back({Place::kOutput, 0, 0, 100, "", {{0, 100, 0, 1, 4}}});
  entry.cpu_steps = {{2, {0, 5, 6, 3, 4}, 25, true, "pick"}, {2, {0, 1, 2, 3, 4}, 100, true, "again"}};
  const auto model = test::load(artefact.file());
  const auto context = test::make_context(model.get(), test::options_with(0));
  test::Vector<float> data(5), y(100);
  test::Vector<int64_t> index(100, 3);
  std::iota(data.data.begin(), data.data.end(), 0.0f);
  const DLTensor inputs[] = {data.view(), index.view()};
  const DLTensor output = y.view();
  for (const size_t wrong : {0U, 30U, 99U}) {
    index.data[wrong] = 5;
    EXPECT_FAILS(api().run(context.get(), inputs, 2, &output, 1), TW_ERROR_INPUT_VALUE, "step 'pick'");
    index.data[wrong] = 4;
    EXPECT_OK(api().run(context.get(), inputs, 2, &output, 1));
    EXPECT_EQ(y.data[wrong], 4.0f);
  }
  EXPECT_EQ(y.data[1], 3.0f);
}

}  // namespace
}  // namespace tw
