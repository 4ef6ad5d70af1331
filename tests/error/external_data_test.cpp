// External data that is missing, damaged, or tries to leave the model's folder.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "frontend/onnx/import.h"
#include "ops/list.h"
#include "tests/onnx/model_builder.h"

namespace tw::frontend {
namespace {

namespace fs = std::filesystem;
using testing::ModelBuilder;

class ExternalDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("tw_external_" + std::to_string(::getpid()));
    fs::create_directories(root_ / "model" / "weights");
    write(root_ / "model" / "weights" / "w.bin", 16);
    write(root_ / "outside.bin", 16);
  }
  void TearDown() override { fs::remove_all(root_); }

  static void write(const fs::path& path, size_t bytes) {
    std::ofstream file(path, std::ios::binary);
    for (size_t i = 0; i < bytes; ++i) file.put(static_cast<char>(i % 4 == 3 ? 0x3f : 0));
  }

  // Adds a vector of `elements` floats from the file to an input; the message, or "imported".
  std::string import_with(const std::string& location, const std::string& offset = "0", int64_t elements = 4,
                          const std::string& length = "") {
    ModelBuilder builder;
    builder.input("x", {elements}).output("y");
    auto& tensor = builder.external("w", elements, location, offset);
    if (!length.empty()) {
      tensor.add_external_data()->set_key("length");
      tensor.mutable_external_data()->rbegin()->set_value(length);
    }
    builder.node("Add", {"x", "w"}, {"y"});
    const graph::OpTable ops = ops::all_ops();
    try {
      ImportOptions options;
      options.link_folders = link_folders_;
      graph_ = import_onnx_bytes(builder.bytes(), (root_ / "model").string(), ops, options).graph;
    } catch (const UserError& e) {
      return e.what();
    }
    return "imported";
  }
  void expect_refused(const std::string& message, const std::string& why) {
    EXPECT_NE(message.find("tensor 'w'"), std::string::npos) << message;
    EXPECT_NE(message.find(why), std::string::npos) << message;
  }

  fs::path root_;
  std::vector<std::string> link_folders_;
  graph::Graph graph_;
};

TEST_F(ExternalDataTest, IsReadBelowTheModelsFolder) {
  ASSERT_EQ(import_with("weights/w.bin"), "imported");
  const graph::ValueId id = graph_.find_value("w");
  ASSERT_NE(id, graph::kAbsent);
  EXPECT_EQ(graph::RefTensor::from_bytes(graph_.value(id).type, *graph_.value(id).constant).floats,
            std::vector<double>(4, 0.5));
  EXPECT_EQ(import_with("weights/w.bin", "4", 3), "imported");
  EXPECT_EQ(import_with("./weights/w.bin", "0", 4, "16"), "imported");
}

TEST_F(ExternalDataTest, MayBeALinkThatStaysInside) {
  fs::create_symlink("weights/w.bin", root_ / "model" / "link.bin");
  EXPECT_EQ(import_with("link.bin"), "imported");
}

TEST_F(ExternalDataTest, MissingFileNamesTensorAndPath) {
  expect_refused(import_with("none.bin"), "path 'none.bin' cannot be opened");
}
TEST_F(ExternalDataTest, AbsolutePath) { expect_refused(import_with((root_ / "outside.bin").string()), "is absolute"); }
TEST_F(ExternalDataTest, ParentFolder) { expect_refused(import_with("weights/../../outside.bin"), "contains '..'"); }
TEST_F(ExternalDataTest, NulCharacter) { expect_refused(import_with(std::string("weights/w.bin\0x", 15)), "NUL"); }
TEST_F(ExternalDataTest, EmptyLocation) { expect_refused(import_with(""), "no location"); }

TEST_F(ExternalDataTest, LinkToOutside) {
  fs::create_symlink(root_ / "outside.bin", root_ / "model" / "link.bin");
  expect_refused(import_with("link.bin"), "link to outside");
  fs::create_directory_symlink(root_, root_ / "model" / "folder");
  expect_refused(import_with("folder/outside.bin"), "link to outside");
}

// A folder whose name merely begins like the model's is outside, too.
TEST_F(ExternalDataTest, FolderWithTheSamePrefix) {
  fs::create_directories(root_ / "model2");
  write(root_ / "model2" / "w.bin", 16);
  fs::create_directory_symlink(root_ / "model2", root_ / "model" / "folder");
  expect_refused(import_with("folder/w.bin"), "link to outside");
}

// As in caches of models: the model's folder holds links to files that are kept elsewhere by their content.
TEST_F(ExternalDataTest, LinksMayLeadIntoAFolderThatIsNamed) {
  fs::create_directories(root_ / "blobs");
  write(root_ / "blobs" / "0123", 16);
  fs::create_symlink("../blobs/0123", root_ / "model" / "w.bin");
  expect_refused(import_with("w.bin"), "--allow-links");
  link_folders_ = {(root_ / "nowhere").string(), (root_ / "blobs").string()};
  EXPECT_EQ(import_with("w.bin"), "imported");
  link_folders_ = {root_.string()};
  EXPECT_EQ(import_with("w.bin"), "imported");
  EXPECT_EQ(import_with("weights/w.bin"), "imported") << "what lies in the model's folder may be read as before";
  expect_refused(import_with("../blobs/0123"), "contains '..'");
  link_folders_ = {(root_ / "blob").string(), (root_ / "model").string()};
  expect_refused(import_with("w.bin"), "link to outside");
}

// Its other names may be anywhere: a hard link to a secret reads the secret.
TEST_F(ExternalDataTest, HardLinks) {
  fs::create_hard_link(root_ / "outside.bin", root_ / "model" / "hard.bin");
  expect_refused(import_with("hard.bin"), "2 names (hard links)");
  link_folders_ = {(root_ / "weights").string()};
  expect_refused(import_with("hard.bin"), "2 names (hard links)");
  link_folders_ = {(root_ / "model").string()};
  EXPECT_EQ(import_with("hard.bin"), "imported") << "the user answers for that folder";
}

TEST_F(ExternalDataTest, OneRangeIsReadOnce) {
  ModelBuilder builder;
  builder.input("x", {4}).output("y");
  std::vector<std::string> terms = {"x"};
  for (const auto& [name, offset] : {std::pair{"a", "0"}, {"b", "0"}, {"c", "0"}, {"d", "16"}}) {
    builder.external(name, 4, "weights/two.bin", offset);
    terms.emplace_back(name);
  }
  builder.node("Sum", terms, {"y"});
  write(root_ / "model" / "weights" / "two.bin", 32);
  graph_ = import_onnx_bytes(builder.bytes(), (root_ / "model").string(), ops::all_ops(), {}).graph;
  const auto bytes = [&](const char* name) { return graph_.value(graph_.find_value(name)).constant.get(); };
  EXPECT_EQ(bytes("a"), bytes("b"));
  EXPECT_EQ(bytes("a"), bytes("c"));
  EXPECT_NE(bytes("a"), bytes("d"));
}

// A file without blocks takes no disk: its size says nothing of what there is.
TEST_F(ExternalDataTest, MoreThanThereIsMemory) {
  constexpr int64_t kElements = int64_t{1} << 35;
  write(root_ / "model" / "sparse.bin", 0);
  fs::resize_file(root_ / "model" / "sparse.bin", static_cast<std::uintmax_t>(kElements) * 4);
  try {
    import_with("sparse.bin", "0", kElements);
    FAIL() << "imported";
  } catch (const ResourceError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("tensor 'w'"), std::string::npos) << message;
    EXPECT_NE(message.find("needs 137 GB of memory"), std::string::npos) << message;
    EXPECT_NE(message.find(" left of "), std::string::npos) << message;
  }
}

TEST_F(ExternalDataTest, NotARegularFile) {
  expect_refused(import_with("weights"), "not a regular file");
  ASSERT_EQ(::mkfifo((root_ / "model" / "pipe").c_str(), 0600), 0);
  expect_refused(import_with("pipe"), "not a regular file");
}

TEST_F(ExternalDataTest, RangeBeyondTheFile) {
  expect_refused(import_with("weights/w.bin", "4"), "16 bytes at offset 4 go beyond the file's 16 bytes");
  expect_refused(import_with("weights/w.bin", "9223372036854775807"), "go beyond");
  expect_refused(import_with("weights/w.bin", "0", int64_t{1} << 33), "go beyond");
}

TEST_F(ExternalDataTest, NumbersThatAreNone) {
  expect_refused(import_with("weights/w.bin", "-4"), "offset is '-4'");
  expect_refused(import_with("weights/w.bin", "4x"), "offset is '4x'");
  expect_refused(import_with("weights/w.bin", "99999999999999999999"), "offset is");
  expect_refused(import_with("weights/w.bin", "0", 4, "15"), "length is 15 bytes, the tensor needs 16");
}

TEST(ExternalDataWithoutFolder, IsRefused) {
  ModelBuilder builder;
  builder.input("x", {int64_t{4}}).output("y");
  builder.external("w", 4, "w.bin");
  builder.node("Add", {"x", "w"}, {"y"});
  EXPECT_THROW(import_onnx_bytes(builder.bytes(), "", ops::all_ops(), {}), UserError);
}

}  // namespace
}  // namespace tw::frontend
