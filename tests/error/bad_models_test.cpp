// Models that cannot be imported, each with the message its user reads: what, where, and what to do.
#include "tests/error/bad_models.h"

#include <gtest/gtest.h>

#include "ops/list.h"

namespace tw::frontend::test {
namespace {

const std::vector<BadModel>& bad_models() {
  static const std::vector<BadModel> kModels = [] {
    std::vector<BadModel> all;
    for (const auto& family : {bad_graphs(), bad_bindings(), bad_nodes(), bad_values()})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return kModels;
}

class BadModels : public ::testing::TestWithParam<size_t> {};

TEST_P(BadModels, SayWhatIsWrong) {
  const BadModel& bad = bad_models().at(GetParam());
  ModelBuilder builder(bad.opset);
  ImportOptions options;
  bad.build(builder, options);
  const graph::OpTable ops = ops::all_ops();
  std::string message;
  Kind kind = Kind::kUser;
  try {
    import_onnx_bytes(builder.bytes(), "", ops, options);
    FAIL() << "the model was imported";
  } catch (const Unsupported& e) {
    kind = Kind::kUnsupported;
    message = e.what();
  } catch (const UserError& e) {
    message = e.what();
  }
  EXPECT_EQ(kind, bad.kind) << message;
  for (const char* part : bad.says)
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
}

INSTANTIATE_TEST_SUITE_P(All, BadModels, ::testing::Range<size_t>(0, bad_models().size()),
                         [](const auto& info) { return std::string(bad_models().at(info.param).name); });

std::string message_of(std::span<const std::byte> bytes) {
  const graph::OpTable ops = ops::all_ops();
  try {
    import_onnx_bytes(bytes, "", ops, {});
  } catch (const UserError& e) {
    return e.what();
  }
  return "imported";
}

TEST(BadBytes, AreNotAModel) {
  EXPECT_NE(message_of({}).find("not an ONNX model, or truncated"), std::string::npos);
  const std::string text = "\x08\xff\xff\xff this is not protobuf";
  EXPECT_NE(message_of(std::as_bytes(std::span(text))).find("not an ONNX model, or truncated"), std::string::npos);
}

TEST(BadBytes, EveryTruncationIsRefusedOrImportedWithoutHarm) {
  ModelBuilder builder;
  simple(builder, "Add", {"w"});
  builder.floats("w", {3}, {1, 2, 3});
  const std::vector<std::byte> bytes = builder.bytes();
  const graph::OpTable ops = ops::all_ops();
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(import_onnx_bytes(std::span(bytes).first(length), "", ops, {}), std::runtime_error) << length;
  }
  EXPECT_NO_THROW(import_onnx_bytes(bytes, "", ops, {}));
}

TEST(BadFiles, NameThePathAndTheReason) {
  const graph::OpTable ops = ops::all_ops();
  const auto message = [&](const std::string& path) -> std::string {
    try {
      import_onnx_file(path, ops, {});
    } catch (const UserError& e) {
      return e.what();
    }
    return "imported";
  };
  EXPECT_NE(message("/no/such/model.onnx").find("cannot read '/no/such/model.onnx': No such file"), std::string::npos);
  EXPECT_NE(message("/").find("not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace tw::frontend::test
