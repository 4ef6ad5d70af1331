// What operators of onnxruntime's own domain refuse: node, attribute or input, and the remedy.
#include <gtest/gtest.h>

#include "tests/onnx/import_model.h"

namespace tw::frontend {
namespace {

using namespace testing;

void expect_refused(const ModelBuilder& m, const std::vector<std::string>& parts) {
  try {
    import_model(m);
    FAIL() << "it was imported";
  } catch (const UnsupportedModel& e) {
    for (const std::string& part : parts) EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

ModelBuilder products() {
  ModelBuilder m;
  m.opset_import("com.microsoft", 1);
  m.input("a", {int64_t{2}, int64_t{3}, int64_t{4}}).input("b", {int64_t{2}, int64_t{4}, int64_t{3}}).output("y");
  return m;
}

TEST(Contrib, AttributesThatAreNotSupportedAreNamed) {
  ModelBuilder m = products();
  set_int(m.node("FusedMatMul", {"a", "b"}, {"y"}, "com.microsoft"), "transBatchB", 1);
  expect_refused(m, {"FusedMatMul", "'node_y'", "'transBatchB'", "Transpose before input B"});
  ModelBuilder shared = products();
  onnx::NodeProto& node = shared.node("Attention", {"a", "b"}, {"y"}, "com.microsoft");
  set_int(node, "num_heads", 1);
  set_int(node, "past_present_share_buffer", 1);
  expect_refused(shared, {"Attention", "'past_present_share_buffer'", "export without"});
}

// The keys that count are known at run time only: where the new one goes is not.
TEST(Contrib, ACacheThatIsNotFullIsRefused) {
  ModelBuilder m;
  m.opset_import("com.microsoft", 1);
  for (const char* name : {"q", "k", "v"}) m.input(name, {int64_t{1}, int64_t{1}, int64_t{8}});
  for (const char* name : {"pk", "pv"}) m.input(name, {int64_t{1}, int64_t{1}, int64_t{5}, int64_t{8}});
  m.input("last", {int64_t{1}}, onnx::TensorProto::INT32).output("y");
  onnx::NodeProto& node = m.node("GroupQueryAttention", {"q", "k", "v", "pk", "pv", "last"}, {"y"}, "com.microsoft");
  set_int(node, "num_heads", 1);
  set_int(node, "kv_num_heads", 1);
  expect_refused(m, {"GroupQueryAttention", "'seqlens_k'", "--const last=@file.npy"});
  ImportOptions options;
  options.constants = {{"last", {{DataType(ScalarType::kI32), {1}}, {}, {3}}}};
  EXPECT_THROW(import_model(m, options), UnsupportedModel);
  options.constants = {{"last", {{DataType(ScalarType::kI32), {1}}, {}, {5}}}};
  EXPECT_EQ(import_model(m, options).graph.outputs.size(), 1u);
}

}  // namespace
}  // namespace tw::frontend
