// The folder that a defect leaves behind holds what is needed to see it again.
#include "tilewright/repro.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <vector>

namespace tw::cli {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

class Repro : public ::testing::Test {
 protected:
  Repro() : old_(fs::current_path()) {
    fs::create_directories(folder_);
    fs::current_path(folder_);
  }
  ~Repro() override {
    fs::current_path(old_);
    fs::remove_all(folder_);
  }

 private:
  fs::path old_;
  fs::path folder_ = fs::temp_directory_path() / ("tilewright-repro-" + std::to_string(std::random_device{}()));
};

TEST_F(Repro, HoldsTheCommandAndTheFilesItNames) {
  fs::create_directories("models");
  std::ofstream("models/m.onnx") << "model";
  std::ofstream("models/x y.npy") << "array";
  const std::vector<std::string> command = {"compile", "models/m.onnx", "--const", "x=@models/x y.npy",
                                            "-o",      "it's.tw"};
  const fs::path folder = write_repro(command, "a rule is broken");
  ASSERT_TRUE(fs::is_directory(folder));
  EXPECT_EQ(text_of(folder / "m.onnx"), "model");
  EXPECT_EQ(text_of(folder / "x y.npy"), "array");
  const std::string text = text_of(folder / "command.txt");
  EXPECT_NE(text.find("a rule is broken\n"), std::string::npos) << text;
  EXPECT_NE(text.find("tilewright compile m.onnx --const 'x=@x y.npy' -o 'it'\\''s.tw'\n"), std::string::npos) << text;
}

TEST_F(Repro, TheSameFailureHasTheSameFolder) {
  const std::vector<std::string> command = {"doctor"};
  EXPECT_EQ(write_repro(command, "one"), write_repro(command, "one"));
  EXPECT_NE(write_repro(command, "one"), write_repro(command, "two"));
}

TEST_F(Repro, APlaceThatCannotBeWrittenIsNoSecondFailure) {
  std::ofstream("repro") << "a file where the folder would be";
  EXPECT_EQ(write_repro(std::vector<std::string>{"doctor"}, "one"), "");
}

}  // namespace
}  // namespace tw::cli
