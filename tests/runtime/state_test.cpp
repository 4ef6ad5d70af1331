// State through the C interface: kept from run to run, of one context or shared, copied out and in, saved and loaded;
// and what a manifest may say of it.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <thread>

#include "runtime/format/atomic_file.h"
#include "runtime/format/error.h"
#include "runtime/format/safetensors.h"
#include "tests/runtime/api_harness.h"

namespace tw {
namespace {

using test::api;
using test::Vector;

constexpr int64_t kElements = 100;
constexpr int32_t kTotal = 1;  // of the states of total_model

using StatePtr = std::unique_ptr<TwState, void (*)(TwState*)>;

StatePtr make_state(const TwModel* model) {
  TwState* state = nullptr;
  EXPECT_OK(api().state_create(model, nullptr, &state));
  return {state, api().state_free};
}

StatePtr state_of(const TwContext* context) {
  TwState* state = nullptr;
  EXPECT_OK(api().context_state(context, &state));
  return {state, api().state_free};
}

// y of a run with x[i] = i + first.
std::vector<float> run(TwContext* context, float first) {
  Vector<float> x(kElements), y(kElements, -1);
  for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<float>(i) + first;
  const DLTensor input = x.view(), output = y.view();
  EXPECT_OK(api().run(context, &input, 1, &output, 1));
  return y.data;
}

std::vector<float> total(TwState* state) {
  Vector<float> values(kElements, -1);
  const DLTensor tensor = values.view();
  EXPECT_OK(api().state_get(state, kTotal, &tensor));
  return values.data;
}

class StateTest : public ::testing::Test {
 protected:
  const test::ModelPtr model_ = test::load(test::total_model(kElements).file());
};

TEST_F(StateTest, IsDescribed) {
  ASSERT_EQ(api().state_count(model_.get()), 3);
  TwTensorInfo info{};
  info.struct_size = sizeof(info);
  EXPECT_OK(api().state_info(model_.get(), kTotal, &info));
  EXPECT_STREQ(info.name, "total");
  EXPECT_EQ(info.ndim, 1);
  EXPECT_EQ(info.shape[0], kElements);
  EXPECT_FAILS(api().state_info(model_.get(), 3, &info), TW_ERROR_INVALID_ARGUMENT, "no such state");
  EXPECT_EQ(api().state_count(test::load(test::sum_model({3}).file()).get()), 0);
}

TEST_F(StateTest, EveryContextHasItsOwn) {
  const auto one = test::make_context(model_.get(), test::options_with(0));
  const auto other = test::make_context(model_.get(), test::options_with(1));
  EXPECT_EQ(run(one.get(), 0)[7], 7);
  EXPECT_EQ(run(one.get(), 1)[7], 8 + 7);
  EXPECT_EQ(run(other.get(), 0)[7], 7);
  EXPECT_EQ(total(state_of(one.get()).get())[7], 15);
  EXPECT_EQ(total(state_of(other.get()).get())[7], 7);
}

TEST_F(StateTest, ContextsMayShareOne) {
  StatePtr state = make_state(model_.get());
  TwOptions options = test::options_with(1);
  options.state = state.get();
  const auto one = test::make_context(model_.get(), options), other = test::make_context(model_.get(), options);
  run(one.get(), 0);
  EXPECT_EQ(run(other.get(), 0)[7], 14);
  EXPECT_EQ(total(state.get())[7], 14);
  state.reset();  // contexts keep it
  EXPECT_EQ(run(one.get(), 0)[7], 21);
}

TEST_F(StateTest, RunsThatShareOneDoNotMeet) {
  const StatePtr state = make_state(model_.get());
  TwOptions options = test::options_with(1);
  options.state = state.get();
  constexpr int kThreads = 4, kRuns = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const auto context = test::make_context(model_.get(), options);
      for (int r = 0; r < kRuns; ++r) run(context.get(), 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<float> values = total(state.get());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<float>(i) * kThreads * kRuns);
}

TEST_F(StateTest, AStateOfAnotherModelIsRefused) {
  const test::ModelPtr same = test::load(test::total_model(kElements).file());
  const StatePtr state = make_state(same.get());
  TwOptions options = test::options_with(1);
  options.state = state.get();
  TwContext* context = nullptr;
  EXPECT_FAILS(api().context_create(model_.get(), &options, &context), TW_ERROR_INVALID_ARGUMENT, "another model");
}

TEST_F(StateTest, OutlivesItsModel) {
  test::ModelPtr model = test::load(test::total_model(kElements).file());
  const StatePtr state = make_state(model.get());
  model.reset();
  EXPECT_EQ(total(state.get()), std::vector<float>(kElements, 0));
}

TEST_F(StateTest, IsSetAndReset) {
  const auto context = test::make_context(model_.get(), test::options_with(1));
  const StatePtr state = state_of(context.get());
  Vector<float> values(kElements, 1000);
  DLTensor tensor = values.view();
  EXPECT_OK(api().state_set(state.get(), kTotal, &tensor));
  EXPECT_EQ(run(context.get(), 0)[7], 1007);
  EXPECT_OK(api().state_reset(state.get()));
  EXPECT_EQ(run(context.get(), 0)[7], 7);
  Vector<float> others(2, -1);
  others.shape = 1;
  const DLTensor other = others.view();
  EXPECT_OK(api().state_get(state.get(), 2, &other));
  EXPECT_EQ(others.data, (std::vector<float>{0, -1})) << "states beside it are not touched";
  values.shape = kElements - 1;
  EXPECT_FAILS(api().state_get(state.get(), kTotal, &tensor), TW_ERROR_INVALID_ARGUMENT, "state 'total'");
  EXPECT_FAILS(api().state_set(state.get(), 0, &tensor), TW_ERROR_INVALID_ARGUMENT, "state 'before'");
  EXPECT_FAILS(api().state_set(state.get(), 3, &tensor), TW_ERROR_INVALID_ARGUMENT, "no state 3");
  EXPECT_FAILS(api().state_get(nullptr, 0, &tensor), TW_ERROR_INVALID_ARGUMENT, "null");
}

TEST_F(StateTest, BeginsAsTheArtefactSays) {
  test::TestArtefact artefact = test::total_model(kElements);
  artefact.states.resize(static_cast<size_t>(artefact.manifest.state_bytes()));
  const float first = 5;
  std::memcpy(artefact.states.data() + 256, &first, sizeof(first));
  const auto context = test::make_context(test::load(artefact.file()).get(), test::options_with(1));
  EXPECT_EQ(run(context.get(), 1)[0], 6);
  EXPECT_EQ(run(context.get(), 1)[0], 7);
  EXPECT_OK(api().state_reset(state_of(context.get()).get()));
  EXPECT_EQ(run(context.get(), 1)[0], 6);
}

// total as f32[4, 25], which is stored column by column; a run adds x[i] to element i of the storage.
test::TestArtefact turned_model() {
  test::TestArtefact artefact = test::total_model(kElements);
  artefact.manifest.states[kTotal].tensor.shape = {4, 25};
  artefact.manifest.states[kTotal].order = {1, 0};
  return artefact;
}

int64_t turned_shape[] = {4, 25};

std::vector<float> turned_total(TwState* state) {
  std::vector<float> values(kElements, -1);
  const DLTensor tensor = {values.data(), {kDLCPU, 0}, 2, test::dlpack_type<float>(), turned_shape, nullptr, 0};
  EXPECT_OK(api().state_get(state, kTotal, &tensor));
  return values;
}

float of_row(int64_t row, int64_t column) { return static_cast<float>(column * 4 + row); }

TEST(TurnedState, IsRowsForItsCaller) {
  const test::ModelPtr model = test::load(turned_model().file());
  const auto context = test::make_context(model.get(), test::options_with(1));
  const StatePtr state = state_of(context.get());
  run(context.get(), 0);
  std::vector<float> values = turned_total(state.get());
  for (int64_t r = 0; r < 4; ++r) {
    for (int64_t c = 0; c < 25; ++c) EXPECT_EQ(values[static_cast<size_t>(r * 25 + c)], of_row(r, c));
  }
  std::iota(values.begin(), values.end(), 0.0F);
  const DLTensor tensor = {values.data(), {kDLCPU, 0}, 2, test::dlpack_type<float>(), turned_shape, nullptr, 0};
  EXPECT_OK(api().state_set(state.get(), kTotal, &tensor));
  EXPECT_EQ(turned_total(state.get()), values);
  const std::vector<float> y = run(context.get(), 0);
  EXPECT_EQ(y[1], 1 + 25) << "element [1, 0] lies behind [0, 0]";
}

TEST(TurnedState, FilesHaveRows) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("tw_turned_" + std::to_string(getpid()))).string();
  const test::ModelPtr model = test::load(turned_model().file());
  const auto context = test::make_context(model.get(), test::options_with(1));
  const StatePtr state = state_of(context.get());
  run(context.get(), 0);
  EXPECT_OK(api().state_save(state.get(), path.c_str()));
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto tensors = format::parse_safetensors(format::bytes_of(bytes));
  const auto saved = std::ranges::find(tensors, "total", &format::NamedTensor::name);
  ASSERT_NE(saved, tensors.end());
  EXPECT_EQ(saved->shape, (std::vector<int64_t>{4, 25}));
  const std::vector<float> rows = turned_total(state.get());
  EXPECT_EQ(std::memcmp(saved->bytes.data(), rows.data(), rows.size() * sizeof(float)), 0);
  const StatePtr fresh = make_state(model.get());
  EXPECT_OK(api().state_load(fresh.get(), path.c_str()));
  EXPECT_EQ(turned_total(fresh.get()), rows);
  std::filesystem::remove(path);
}

// total as two tensors: head f32[4, 10] column by column, and behind it tail f32[60].
test::TestArtefact parted_model() {
  test::TestArtefact artefact = test::total_model(kElements);
  artefact.manifest.states[kTotal].parts = {{{"head", format::DataType::kF32, {4, 10}}, {1, 0}},
                                            {{"tail", format::DataType::kF32, {60}}, {}}};
  return artefact;
}

std::vector<float> part(TwState* state, int32_t index, std::vector<int64_t> shape) {
  std::vector<float> values(shape.size() == 2 ? 40 : 60, -1);
  const auto rank = static_cast<int32_t>(shape.size());
  const DLTensor tensor = {values.data(), {kDLCPU, 0}, rank, test::dlpack_type<float>(), shape.data(), nullptr, 0};
  EXPECT_OK(api().state_get(state, index, &tensor));
  return values;
}

TEST(PartedState, IsSeenAsItsParts) {
  const test::ModelPtr model = test::load(parted_model().file());
  ASSERT_EQ(api().state_count(model.get()), 4);
  TwTensorInfo info{};
  info.struct_size = sizeof(info);
  const auto name = [&](int32_t index) {
    EXPECT_OK(api().state_info(model.get(), index, &info));
    return std::string(info.name);
  };
  EXPECT_EQ(name(0) + " " + name(1) + " " + name(2) + " " + name(3), "before head tail behind");
  const auto context = test::make_context(model.get(), test::options_with(1));
  const StatePtr state = state_of(context.get());
  run(context.get(), 0);
  const std::vector<float> head = part(state.get(), 1, {4, 10}), tail = part(state.get(), 2, {60});
  EXPECT_EQ(head[10], 1) << "element [1, 0] lies behind [0, 0]";
  EXPECT_EQ(head[1], 4);
  EXPECT_EQ(tail[0], 40);
  EXPECT_EQ(tail[59], 99);
}

TEST(PartedState, FilesHaveThePartsByTheirNames) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("tw_parted_" + std::to_string(getpid()))).string();
  const test::ModelPtr model = test::load(parted_model().file());
  const auto context = test::make_context(model.get(), test::options_with(1));
  const StatePtr state = state_of(context.get());
  run(context.get(), 0);
  EXPECT_OK(api().state_save(state.get(), path.c_str()));
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto tensors = format::parse_safetensors(format::bytes_of(bytes));
  const auto saved = std::ranges::find(tensors, "head", &format::NamedTensor::name);
  ASSERT_NE(saved, tensors.end());
  EXPECT_EQ(std::ranges::find(tensors, "total", &format::NamedTensor::name), tensors.end());
  const std::vector<float> head = part(state.get(), 1, {4, 10}), tail = part(state.get(), 2, {60});
  EXPECT_EQ(std::memcmp(saved->bytes.data(), head.data(), head.size() * sizeof(float)), 0);
  const StatePtr fresh = make_state(model.get());
  EXPECT_OK(api().state_load(fresh.get(), path.c_str()));
  EXPECT_EQ(part(fresh.get(), 1, {4, 10}), head);
  EXPECT_EQ(part(fresh.get(), 2, {60}), tail);
  std::filesystem::remove(path);
}

class StateFiles : public StateTest {
 protected:
  StateFiles() { std::filesystem::create_directories(folder_); }
  ~StateFiles() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("tw_state_" + std::to_string(getpid()));
};

TEST_F(StateFiles, AreWhatWasThere) {
  const auto context = test::make_context(model_.get(), test::options_with(1));
  const StatePtr state = state_of(context.get());
  run(context.get(), 1);
  EXPECT_OK(api().state_save(state.get(), path("s.safetensors").c_str()));
  const StatePtr fresh = make_state(model_.get());
  EXPECT_OK(api().state_load(fresh.get(), path("s.safetensors").c_str()));
  EXPECT_EQ(total(fresh.get()), total(state.get()));
  EXPECT_OK(api().state_save(fresh.get(), path("again.safetensors").c_str()));
  const auto bytes = [&](const std::string& name) {
    std::ifstream file(path(name), std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  EXPECT_EQ(bytes("s.safetensors"), bytes("again.safetensors"));
  EXPECT_FAILS(api().state_save(state.get(), path("missing/s").c_str()), TW_ERROR_INVALID_ARGUMENT, "missing");
  EXPECT_FAILS(api().state_load(state.get(), path("missing").c_str()), TW_ERROR_INVALID_ARGUMENT, "missing");
}

TEST_F(StateFiles, ThatDoNotFitAreRefusedAndChangeNothing) {
  const StatePtr state = make_state(model_.get());
  const std::vector<float> one(1, 3), many(kElements, 3);
  const format::NamedTensor before{
      "before", format::DataType::kF32, {1}, format::bytes_of(std::as_bytes(std::span(one)))};
  const format::NamedTensor behind{
      "behind", format::DataType::kF32, {1}, format::bytes_of(std::as_bytes(std::span(one)))};
  const format::NamedTensor all{
      "total", format::DataType::kF32, {kElements}, format::bytes_of(std::as_bytes(std::span(many)))};
  format::NamedTensor other = all, shape = all, type = all;
  other.name = "other";
  shape.shape = {2, kElements / 2};
  type.dtype = format::DataType::kI32;
  const std::vector<std::pair<std::vector<format::NamedTensor>, std::string>> wrong = {
      {{before, behind}, "lacks the state 'total'"},
      {{before, behind, all, other}, "'other', which is no state"},
      {{before, behind, shape}, "'total' is f32[2,50]"},
      {{before, behind, type}, "'total' is i32[100]"}};
  for (const auto& [tensors, message] : wrong) {
    format::write_safetensors(path("w.safetensors"), tensors);
    EXPECT_FAILS(api().state_load(state.get(), path("w.safetensors").c_str()), TW_ERROR_INVALID_ARGUMENT, message);
    EXPECT_EQ(total(state.get()), std::vector<float>(kElements, 0));
  }
  const std::string text = "no tensors";
  format::write_file_atomically(path("w.safetensors"), format::bytes_of(text));
  EXPECT_FAILS(api().state_load(state.get(), path("w.safetensors").c_str()), TW_ERROR_INVALID_ARGUMENT,
               "w.safetensors");
  format::write_safetensors(path("w.safetensors"), {before, behind, all});
  EXPECT_OK(api().state_load(state.get(), path("w.safetensors").c_str()));
  EXPECT_EQ(total(state.get()), many);
}

// ---- What a manifest may say.

void expect_damaged(const std::function<void(test::TestArtefact&)>& change, const std::string& message) {
  test::TestArtefact artefact = test::total_model(kElements);
  change(artefact);
  try {
    artefact.file();  // what the writer checks a reader does
    ADD_FAILURE() << "taken: " << message;
  } catch (const format::Error& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(StateManifest, StepsReadBeforeOthersWrite) {
  using A = test::TestArtefact;
  expect_damaged([](A& a) { std::swap(a.manifest.entries[0].cpu_steps[0], a.manifest.entries[0].cpu_steps[1]); },
                 "reads state 'total' where it has changed");
  expect_damaged(
      [](A& a) {
        a.manifest.entries[0].cpu_steps[1].args = {0, 2, 3};
      },
      "reads state 'total' where it has changed");
  expect_damaged([](A& a) { a.manifest.entries[0].cpu_steps[1].after = false; }, "while others may use it");
}

TEST(StateManifest, StatesLieByThemselves) {
  using A = test::TestArtefact;
  expect_damaged([](A& a) { a.manifest.states[1].offset = 0; }, "lies in the wrong place");
  expect_damaged([](A& a) { a.manifest.states[1].offset = 300; }, "lies in the wrong place");
  expect_damaged([](A& a) { a.manifest.states[1].tensor.name = "x"; }, "has no name or that of another tensor");
  expect_damaged([](A& a) { a.manifest.states[1].next = "y"; }, "becomes another tensor");
  expect_damaged([](A& a) { a.manifest.states[2].tensor.name = "before"; }, "that of another tensor");
  for (const std::vector<int64_t>& order : std::vector<std::vector<int64_t>>{{0}, {1}, {0, 0}, {1, 0}})
    expect_damaged([&](A& a) { a.manifest.states[1].order = order; }, "stored in no order of its dims");
  using Order = std::vector<int64_t>;
  for (const Order& order : {Order{0, 1}, Order{1}, Order{1, 1}, Order{2, 1}, Order{1, 0, 2}})
    expect_damaged(
        [&](A& a) {
          a.manifest.states[1].tensor.shape = {a.manifest.states[1].tensor.shape[0], 1};
          a.manifest.states[1].order = order;
        },
        "stored in no order of its dims");
  const auto with_parts = [](const std::function<void(format::State&)>& change, const std::string& message) {
    expect_damaged(
        [&](A& a) {
          a = parted_model();
          change(a.manifest.states[kTotal]);
        },
        message);
  };
  using S = format::State;
  with_parts([](S& s) { s.parts[1].tensor.shape = {61}; }, "not what its parts are");
  with_parts([](S& s) { s.parts.pop_back(); }, "not what its parts are");
  with_parts([](S& s) { s.parts[1].tensor.name = "before"; }, "that of another tensor");
  with_parts([](S& s) { s.parts[1].tensor.dtype = format::DataType::kI32; }, "is of another type");
  with_parts([](S& s) { s.parts[0].order = {0, 0}; }, "stored in no order of its dims");
  expect_damaged([](A& a) { a.states.resize(16); }, "section 'states' has 16 bytes");
  expect_damaged([](A& a) { a.manifest.entries[0].buffers[2].index = 3; }, "buffer of no state");
  expect_damaged([](A& a) { a.manifest.entries[0].buffers[2].bytes += 4; }, "outside of its place");
}

}  // namespace
}  // namespace tw
