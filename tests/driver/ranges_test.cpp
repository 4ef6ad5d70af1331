// Dimensions with a range: entries that serve every smaller extent, and what forbids it.
#include "driver/ranges.h"

#include <gtest/gtest.h>

#include "artefact/verify.h"
#include "driver/refit.h"
#include "tests/driver/range_models.h"

namespace tw::driver::test {
namespace {

using artefact::Session;
using tw::testing::ModelBuilder;
using tw::testing::set_int;
using tw::testing::set_ints;

constexpr int64_t kWidth = 24;

// y[n, 10] = softmax(relu(x[n, 24] w) v)
void mlp(ModelBuilder& model) {
  model.input("x", {std::string("n"), kWidth});
  model.floats("w", {kWidth, 40}, numbers(kWidth * 40, 1));
  model.floats("v", {40, 10}, numbers(400, 2));
  model.node("MatMul", {"x", "w"}, {"a"});
  model.node("Relu", {"a"}, {"b"});
  model.node("MatMul", {"b", "v"}, {"c"});
  set_int(model.node("Softmax", {"c"}, {"y"}), "axis", -1);
  model.output("y");
}

// Attention of all tokens to all, with a position that is added to values, and the mean and the first of the tokens.
Model attention(const std::vector<float>& positions) {
  return [positions](ModelBuilder& model) {
    model.input("x", {std::string("batch"), std::string("seq"), kWidth});
    for (const char* part : {"q", "k", "v"}) {
      model.floats(std::string("w") + part, {kWidth, kWidth}, numbers(kWidth * kWidth, *part));
      model.node("MatMul", {"x", std::string("w") + part}, {std::string(part) + "0"});
    }
    model.floats("positions", {64, kWidth}, positions);
    model.node("Shape", {"x"}, {"shape"});
    model.ints("zero", {0});
    model.ints("one", {1});
    model.ints("two", {2});
    model.node("Slice", {"shape", "one", "two"}, {"tokens"});
    model.node("Slice", {"positions", "zero", "tokens", "zero"}, {"p"});
    model.node("Add", {"v0", "p"}, {"v1"});
    model.ints("heads", {0, 0, 3, 8});
    for (const char* part : {"q", "k", "v"}) {
      const std::string name = part, in = name == "v" ? "v1" : name + "0";
      model.node("Reshape", {in, "heads"}, {name + "r"});
      set_ints(model.node("Transpose", {name + "r"}, {name + "h"}), "perm",
               name == "k" ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3});
    }
    model.node("MatMul", {"qh", "kh"}, {"scores"});
    set_int(model.node("Softmax", {"scores"}, {"share"}), "axis", -1);
    model.node("MatMul", {"share", "vh"}, {"mixed"});
    set_ints(model.node("Transpose", {"mixed"}, {"back"}), "perm", {0, 2, 1, 3});
    model.ints("flat", {0, 0, kWidth});
    model.node("Reshape", {"back", "flat"}, {"y"});
    auto& mean = model.node("ReduceMean", {"y"}, {"mean"});
    set_ints(mean, "axes", {1});
    auto& most = model.node("ReduceMax", {"y"}, {"most"});
    set_ints(most, "axes", {1});
    model.ints("first_of", {0});
    set_int(model.node("Gather", {"y", "first_of"}, {"first"}), "axis", 1);
    model.output("y").output("mean").output("most").output("first");
  };
}

TEST(Ranges, ExtentsCoverTheRangeWithLittleLeftEmpty) {
  for (const auto& [least, most] : {std::pair<int64_t, int64_t>{1, 1}, {1, 7}, {1, 128}, {100, 512}, {3, 4096}}) {
    const std::vector<int64_t> extents = extents_in_range(least, most);
    EXPECT_EQ(extents.front(), most);
    for (size_t e = 1; e < extents.size(); ++e) {
      EXPECT_LT(extents[e], extents[e - 1]);
      EXPECT_LE(extents[e - 1] - extents[e], std::max<int64_t>(8, extents[e - 1] / 7 + 8));
    }
    EXPECT_GE(extents.back(), least);
    EXPECT_LT(extents.back() - least, std::max<int64_t>(8, extents.back() / 4));
  }
}

TEST(Ranges, OneArtefactServesEveryBatch) {
  Session ranged = session_of(compile_dims(mlp, {"n=1..20"}));
  EXPECT_EQ(ranged.entries(), (std::vector<std::string>{"x:17..20x24", "x:9..16x24", "x:1..8x24"}));
  for (const int64_t n : {20, 1, 7, 8, 9, 13, 16, 17, 19}) {
    SCOPED_TRACE(n);
    expect_like_exact(mlp, ranged, {fmt::format("n={}", n)}, n);
  }
}

TEST(Ranges, RowsBeyondTheLengthReachNoSumMaximumOrSoftmax) {
  const Model model = attention(numbers(64 * kWidth, 5));
  Session ranged = session_of(compile_dims(model, {"batch=2", "seq=1..20"}));
  for (const int64_t n : {20, 1, 3, 8, 11, 17}) {
    SCOPED_TRACE(n);
    expect_like_exact(model, ranged, {"batch=2", fmt::format("seq={}", n)}, n);
  }
}

TEST(Ranges, OfTwoDimensionsAreServedTogether) {
  const Model model = attention(numbers(64 * kWidth, 5));
  Session ranged = session_of(compile_dims(model, {"batch=1..3", "seq=2..12"}));
  for (const auto& [batch, seq] : {std::pair{1, 2}, {3, 12}, {2, 7}, {1, 9}, {3, 3}}) {
    SCOPED_TRACE(seq);
    expect_like_exact(model, ranged, {fmt::format("batch={}", batch), fmt::format("seq={}", seq)}, seq);
  }
}

// As exporters write masks and positions: by indices that are made of the shape, and by how many tokens there were.
void indexed(ModelBuilder& model) {
  model.input("x", {std::string("batch"), std::string("seq"), kWidth})
      .input("mask", {std::string("batch"), std::string("seq")});
  for (const int64_t n : {0, 1, 2}) model.ints(fmt::format("i{}", n), {n});
  for (const char* n : {"0", "1"}) model.node("Squeeze", {std::string("i") + n}, {std::string("n") + n});
  model.node("Shape", {"mask"}, {"shape"});
  model.node("Gather", {"shape", "n0"}, {"batch"});
  model.node("Gather", {"shape", "n1"}, {"seq"});
  model.node("Range", {"n0", "batch", "n1"}, {"batches"});
  model.node("Range", {"n0", "seq", "n1"}, {"tokens"});
  model.node("Unsqueeze", {"batches", "i1"}, {"rows"});
  model.node("Unsqueeze", {"batch", "i0"}, {"batch_of"});
  // Of all batches behind each other.
  set_int(model.node("Flatten", {"mask"}, {"flat"}), "axis", 2);
  model.node("Mul", {"rows", "seq"}, {"begin"});
  model.node("Add", {"begin", "tokens"}, {"place"});
  model.node("Gather", {"flat", "place"}, {"m0"});
  model.node("Mul", {"x", "m0"}, {"by_place"});
  // By pairs of a batch and a token.
  model.node("Expand", {"rows", "shape"}, {"all_rows"});
  model.node("Expand", {"tokens", "shape"}, {"all_tokens"});
  model.node("Unsqueeze", {"all_rows", "i2"}, {"row"});
  model.node("Unsqueeze", {"all_tokens", "i2"}, {"token"});
  set_int(model.node("Concat", {"row", "token"}, {"pair"}), "axis", 2);
  model.node("GatherND", {"mask", "pair"}, {"by_pair"});
  // By how many numbers above zero there were so far.
  model.floats("zero", {1}, {0});
  model.node("Greater", {"mask", "zero"}, {"is_there"});
  set_int(model.node("Cast", {"is_there"}, {"ones"}), "to", onnx::TensorProto::INT64);
  model.node("CumSum", {"ones", "n1"}, {"position"});
  model.floats("table", {64, 4}, numbers(256, 7));
  model.node("Gather", {"table", "position"}, {"embedded"});
  model.floats("line", {1, 64}, numbers(64, 8));
  model.ints("sixty_four", {64});
  set_int(model.node("Concat", {"batch_of", "sixty_four"}, {"wide"}), "axis", 0);
  model.node("Expand", {"line", "wide"}, {"lines"});
  set_int(model.node("GatherElements", {"lines", "position"}, {"by_element"}), "axis", 1);
  model.output("by_place").output("by_pair").output("embedded").output("by_element");
}

TEST(Ranges, IndicesMadeOfTheShapeFollowTheRows) {
  Session fixed = session_of(compile_dims(indexed, {"batch=2", "seq=1..20"}));
  for (const int64_t n : {20, 1, 2, 3, 9, 16}) {
    SCOPED_TRACE(n);
    expect_like_exact(indexed, fixed, {"batch=2", fmt::format("seq={}", n)}, n);
  }
  Session both = session_of(compile_dims(indexed, {"batch=1..3", "seq=1..12"}));
  for (const auto& [batch, seq] : {std::pair{1, 1}, {3, 12}, {2, 7}, {1, 9}, {3, 1}}) {
    SCOPED_TRACE(seq);
    expect_like_exact(indexed, both, {fmt::format("batch={}", batch), fmt::format("seq={}", seq)}, seq);
  }
}

// A product of zero and infinity is no zero: values of rows that are not there are none.
TEST(Ranges, RowsBeyondTheLengthMayBeInfinite) {
  std::vector<float> positions = numbers(64 * kWidth, 5);
  std::fill(positions.begin() + 5 * kWidth, positions.end(), INFINITY);
  const Model model = attention(positions);
  Session ranged = session_of(compile_dims(model, {"batch=1", "seq=1..8"}));
  for (const int64_t n : {1, 5}) expect_like_exact(model, ranged, {"batch=1", fmt::format("seq={}", n)}, n);
}

TEST(Ranges, EntriesAreVerifiedAtSmallerExtents) {
  const Compiled compiled = compile_dims(attention(numbers(64 * kWidth, 5)), {"batch=1", "seq=1..12"});
  const std::vector<uint8_t> artefact = artefact_bytes(compiled);
  for (const int64_t n : {12, 10, 3}) {
    const artefact::VerifyReport report =
        artefact::verify_artefact(artefact, nullptr, {array_of({DataType::f32(), {1, n, kWidth}}, n)}, {});
    for (const artefact::GroupCheck& group : report.groups) EXPECT_TRUE(group.ok()) << n << ": " << group.group;
    for (const WorstElement& output : report.outputs) {
      EXPECT_TRUE(output.ok()) << n << ": " << output.tensor;
    }
    EXPECT_EQ(report.outputs.size(), 4u);
  }
}

void expect_no_such_shape(Session& session, const Shape& shape, const std::string& part) {
  try {
    session.run({array_of({DataType::f32(), shape}, 1)});
    ADD_FAILURE() << to_string(shape) << " was accepted";
  } catch (const artefact::RuntimeFailure& failure) {
    EXPECT_NE(std::string(failure.what()).find(part), std::string::npos) << failure.what();
  }
}

TEST(Ranges, AnotherExtentIsRefusedNamingThoseThatThereAre) {
  Session rows = session_of(compile_dims(mlp, {"n=2..20"}));
  expect_no_such_shape(rows, {1, kWidth}, "x[2..8,24]");
  Session tokens = session_of(compile_dims(attention(numbers(64 * kWidth, 5)), {"batch=1", "seq=2..20"}));
  for (const int64_t n : {1, 21}) expect_no_such_shape(tokens, {1, n, kWidth}, "x[1,2..8,24]");
}

// 41 rows are two parts of 20, and one row that no entry takes by itself.
TEST(Ranges, MoreRowsThanThereIsRoomForRunInParts) {
  Session rows = session_of(compile_dims(mlp, {"n=2..20"}));
  for (const int64_t n : {21, 40, 41, 57}) {
    SCOPED_TRACE(n);
    expect_like_exact(mlp, rows, {fmt::format("n={}", n)}, n);
  }
  const Model model = attention(numbers(64 * kWidth, 5));
  Session both = session_of(compile_dims(model, {"batch=1..3", "seq=2..12"}));
  for (const auto& [batch, seq] : {std::pair{8, 7}, {4, 12}}) {
    SCOPED_TRACE(seq);
    expect_like_exact(model, both, {fmt::format("batch={}", batch), fmt::format("seq={}", seq)}, seq);
  }
}

// The first row of a part is not the first of all.
TEST(Ranges, RowsThatReadTheFirstOneDoNotRunInParts) {
  const Model model = [](ModelBuilder& m) {
    m.input("x", {std::string("n"), kWidth});
    m.ints("zero", {0});
    m.ints("one", {1});
    m.node("Slice", {"x", "zero", "one", "zero"}, {"first"});
    m.node("Add", {"x", "first"}, {"y"});
    m.output("y");
  };
  Session session = session_of(compile_dims(model, {"n=2..8"}));
  expect_like_exact(model, session, {"n=5"}, 5);
  expect_no_such_shape(session, {9, kWidth}, "x[2..8,24]");
}

TEST(Ranges, WeightsAreStoredOnce) {
  const size_t one = compile_dims(mlp, {"n=128"}).sections.at("weights").size();
  EXPECT_EQ(compile_dims(mlp, {"n=1..128"}).sections.at("weights").size(), one);
}

// Nor is any weight in memory twice while they are compiled.
TEST(Ranges, EntriesShareTheirWeightsFromTheImportOn) {
  ModelBuilder model(17);
  mlp(model);
  const std::vector<frontend::ImportResult> models = import_bytes(model.bytes(), "", with_dims({"n=1..20"}));
  ASSERT_EQ(models.size(), 3U);
  EXPECT_EQ(models[0].elements.size(), 2U);
  for (const frontend::ImportResult& one : models) EXPECT_EQ(one.elements, models[0].elements);
}

TEST(Ranges, OtherWeightsAreTaken) {
  const auto scaled = [](float scale) {
    return [scale](ModelBuilder& model) {
      mlp(model);
      for (float& w : *model.graph().mutable_initializer(0)->mutable_float_data()) w *= scale;
    };
  };
  const Compiled first = compile_dims(scaled(1), {"n=1..20"});
  CompileOptions replay;
  replay.plan_text = plan::to_string(first.plan);
  frontend::ImportOptions one;
  one.dims["n"] = 20;
  const graph::Graph other = import(scaled(2), 17, one).graph;
  auto weights = std::make_shared<frontend::Weights>();
  for (const char* name : {"w", "v"}) {
    const graph::Value& value = other.value(other.find_value(name));
    weights->emplace(name, frontend::Weight{value.type, value.constant});
  }
  const std::vector<uint8_t> artefact = artefact_bytes(first);
  const Refitted refitted = refit(artefact, weights);
  EXPECT_EQ(format::serialize_artefact(refitted.manifest, refitted.sections()),
            artefact_bytes(compile_dims(scaled(2), {"n=1..20"}, replay)));
}

TEST(Ranges, WhatMixesRowsIsRefusedByName) {
  expect_refused(
      [](ModelBuilder& model) {
        model.input("x", {int64_t{1}, int64_t{3}, std::string("seq")});
        model.floats("w", {4, 3, 3}, numbers(36, 1));
        model.node("Conv", {"x", "w"}, {"y"});
        model.output("y");
      },
      {"seq=8..16"}, {"--dim seq=8..16: ", "'node_y' (conv)", "List the sizes instead: --dim seq=8,16"});
}

TEST(Ranges, TheRangeThatForbidsItIsNamedWithSizesOfAllOfIt) {
  const Model model = [](ModelBuilder& m) {
    m.input("x", {std::string("batch"), int64_t{3}, std::string("seq")});
    m.floats("w", {4, 3, 3}, numbers(36, 1));
    m.node("Conv", {"x", "w"}, {"y"});
    m.output("y");
  };
  expect_refused(model, {"batch=1..8", "seq=3..128"}, {"--dim seq=3..128: ", "instead: --dim seq=3,32,64,128"});
}

TEST(Ranges, WhatComputesWithTheExtentIsRefusedByName) {
  expect_refused(
      [](ModelBuilder& model) {
        model.input("x", {std::string("seq"), int64_t{3}});
        model.node("Size", {"x"}, {"size"});
        set_int(model.node("Cast", {"size"}, {"count"}), "to", onnx::TensorProto::FLOAT);
        model.node("Div", {"x", "count"}, {"y"});
        model.output("y");
      },
      {"seq=8..16"}, {"'node_y' (div)", "is another one at 15 than at 16"});
}

// Of all tokens the last one that a run has: by an index, a slice, and among heads.
TEST(Ranges, TheLastRowIsTheLastThatThereIs) {
  const Model model = [](ModelBuilder& m) {
    attention(numbers(64 * kWidth, 5))(m);
    m.ints("end", {-1});
    m.node("Squeeze", {"end"}, {"scalar"});
    m.ints("beyond", {INT64_MAX});
    set_int(m.node("Gather", {"y", "scalar"}, {"last"}), "axis", 1);
    m.node("Slice", {"y", "end", "beyond", "one"}, {"row"});
    m.node("Neg", {"row"}, {"last_row"});
    m.ints("half", {kWidth / 2});
    m.ints("axes", {1, 2});
    set_int(m.node("Concat", {"end", "half"}, {"starts"}), "axis", 0);
    set_int(m.node("Concat", {"beyond", "beyond"}, {"ends"}), "axis", 0);
    m.node("Slice", {"y", "starts", "ends", "axes"}, {"half_row"});
    m.node("Neg", {"half_row"}, {"last_half"});
    set_int(m.node("Gather", {"vh", "end"}, {"of_heads"}), "axis", 2);
    m.output("last").output("last_row").output("last_half").output("of_heads");
  };
  Session ranged = session_of(compile_dims(model, {"batch=1..2", "seq=1..20"}));
  for (const auto& [batch, seq] : {std::pair{2, 20}, {1, 1}, {2, 8}, {1, 9}, {2, 13}}) {
    SCOPED_TRACE(seq);
    expect_like_exact(model, ranged, {fmt::format("batch={}", batch), fmt::format("seq={}", seq)}, seq);
  }
}

TEST(Ranges, ANodeThatReadsALaterRowIsRefused) {
  expect_refused(
      [](ModelBuilder& model) {
        model.input("x", {std::string("seq"), int64_t{3}});
        model.ints("last", {-2});
        set_int(model.node("Gather", {"x", "last"}, {"y"}), "axis", 0);
        model.output("y");
      },
      {"seq=8..16"}, {"'node_y' (gather)"});
}

// The fifth of all tokens of all batches is another one where a batch has fewer.
TEST(Ranges, AnIndexIntoBatchesBehindEachOtherIsRefused) {
  expect_refused(
      [](ModelBuilder& model) {
        model.input("x", {int64_t{2}, std::string("seq"), int64_t{3}});
        model.ints("flat", {-1, 3});
        model.node("Reshape", {"x", "flat"}, {"rows"});
        model.ints("fifth", {5});
        set_int(model.node("Gather", {"rows", "fifth"}, {"y"}), "axis", 0);
        model.output("y");
      },
      {"seq=4..8"}, {"'node_y' (gather)"});
}

TEST(Ranges, MalformedOnesAreRefused) {
  for (const char* dim : {"n=0..8", "n=8..4", "n=..8", "n=1..", "n=1..x"})
    EXPECT_THROW(with_dims({dim}), UsageError) << dim;
  EXPECT_THROW(compile_dims(mlp, {"n=4", "m=1..8"}), UserError);
}

// What runs there is checked by the runtime's tests (cuda_device_test.cpp), and on a GPU.
TEST(Ranges, GpusTakeThemToo) {
  CompileOptions options;
  options.target = "cuda:sm_90a";
  const Compiled compiled = compile_dims(mlp, {"n=1..20"}, options);
  ASSERT_EQ(compiled.manifest.entries.size(), 3u);
  for (const format::Entry& entry : compiled.manifest.entries) {
    EXPECT_EQ(entry.extents.size(), 1u);
    EXPECT_EQ(std::ranges::count(entry.buffers, format::Place::kExtent, &format::Buffer::place), 0)
        << "its rows are apart: no kernel asks how many there are";
  }
  const Compiled summed = compile_dims(attention(numbers(64 * kWidth, 5)), {"batch=1", "seq=1..12"}, options);
  EXPECT_EQ(std::ranges::count(summed.manifest.entries[0].buffers, format::Place::kExtent, &format::Buffer::place), 1);
}

}  // namespace
}  // namespace tw::driver::test
