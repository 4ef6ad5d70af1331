// The compiler's options: each changes what its row prints, and with that the key of the cache, or the table says why
// not.
#include "driver/option_table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "driver/compile_cache.h"
#include "support/error.h"
#include "tests/driver/refit_models.h"

namespace tw::driver::test {
namespace {

namespace fs = std::filesystem;

void of_one_weight(tw::testing::ModelBuilder& model, int seed) {
  model.input("x", {int64_t{2}});
  weight(model, "w", {2}, seed);
  model.node("Add", {"x", "w"}, {"y"});
  model.output("y");
}

class OptionTable : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw-options-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::ofstream(folder_ / "model.onnx") << "what the model is";
  }
  void TearDown() override { fs::remove_all(folder_); }

  static CompileOptions initial() {
    CompileOptions options;
    options.read_array = [](const std::string& file) {
      return graph::RefTensor::zeros({DataType::f32(), {static_cast<int64_t>(file.size())}});
    };
    return options;
  }

  // A value that is not the one without the option. A plan and an artefact are read at once.
  std::string other_value(const Option<CompileOptions>& row) const {
    if (row.kind == OptionKind::kFlag) return "true";
    if (row.kind != OptionKind::kFile) return std::string(row.example);
    const fs::path file = folder_ / row.example;
    if (row.name == "plan") std::ofstream(file) << "tilewright plan";
    if (row.name == "like") write_artefact(compile(of_one_weight, 1), file.string());
    return file.string();
  }

  CompileOptions with(const Option<CompileOptions>& row) const {
    CompileOptions options = initial();
    const std::string value = other_value(row);
    row.set_in(options, {value, row.name});
    return options;
  }

  std::optional<std::string> key(const CompileOptions& options) const {
    CacheOptions cache;
    cache.folder = (folder_ / "cache").string();
    const auto key = CompileCache(cache).key((folder_ / "model.onnx").string(), options,
                                             machine::resolve_targets(options.target, {}));
    return key ? std::optional(key->name) : std::nullopt;
  }

  fs::path folder_;
};

TEST_F(OptionTable, EachOptionChangesTheKeyOrTheTableSaysWhyNot) {
  const std::optional<std::string> usual = key(initial());
  ASSERT_TRUE(usual.has_value());
  std::set<std::string> seen = {*usual};
  for (const Option<CompileOptions>& row : compile_options()) {
    SCOPED_TRACE(row.name);
    const CompileOptions changed = with(row);
    EXPECT_NE(row.print_of(changed), row.print_of(initial())) << "the row prints no other value: which field is bound?";
    const std::optional<std::string> name = key(changed);
    EXPECT_NE(row.key, OptionKey::kNone);
    EXPECT_EQ(row.why.empty(), row.key == OptionKey::kPart);
    EXPECT_EQ(name.has_value(), row.key != OptionKey::kNoEntry);
    if (row.key == OptionKey::kPart) {
      EXPECT_TRUE(seen.insert(name.value_or(*usual)).second) << "another entry's key";
    } else if (row.key == OptionKey::kIndifferent) {
      EXPECT_EQ(name, usual);
    }
  }
}

TEST_F(OptionTable, AnOptionChangesNoOther) {
  for (const Option<CompileOptions>& row : compile_options()) {
    const CompileOptions changed = with(row);
    for (const Option<CompileOptions>& other : compile_options()) {
      if (other.name == row.name) continue;
      EXPECT_EQ(other.print_of(changed), other.print_of(initial())) << row.name << " " << other.name;
    }
  }
}

TEST_F(OptionTable, RowsAreWhole) {
  std::set<std::string_view> names;
  for (const Option<CompileOptions>& row : compile_options()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.help.empty()) << row.name;
    EXPECT_TRUE(is_for(row, "compile")) << row.name;
    EXPECT_TRUE(row.kind == OptionKind::kFlag || !row.example.empty()) << row.name;
  }
}

TEST_F(OptionTable, OptionsAreSetByName) {
  CompileOptions options;
  set_option(options, "precision", {"fast", "--precision"});
  set_option(options, "disable-pass", {"fuse", "--disable-pass"});
  set_option(options, "disable-pass", {"dead-code", "--disable-pass"});
  set_option(options, "budget", {"2m", "--budget"});
  EXPECT_EQ(options.precision, Precision::kFast);
  EXPECT_EQ(options.disabled_passes, (std::vector<std::string>{"fuse", "dead-code"}));
  EXPECT_EQ(options.tuning.budget_seconds, 120);
  try {
    set_option(options, "precison", {"fast", "x"});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "there is no option 'precison'; did you mean 'precision'?");
  }
}

TEST_F(OptionTable, ListsOfShapesAreTakenTogether) {
  CompileOptions options;
  set_option(options, "dim", {"n=7", "--dim"});
  set_option(options, "shape", {"x:1x3,2x3", "--shape"});
  set_option(options, "shape", {"s:", "--shape"});
  set_option(options, "dim", {"m=5,6", "--dim"});
  ASSERT_EQ(options.imports.size(), 2u);
  for (const frontend::ImportOptions& import : options.imports) {
    EXPECT_EQ(import.dims.at("n"), 7);
    EXPECT_EQ(import.shapes.at("s"), Shape());
  }
  EXPECT_EQ(options.imports[0].shapes.at("x"), (Shape{1, 3}));
  EXPECT_EQ(options.imports[1].shapes.at("x"), (Shape{2, 3}));
  EXPECT_EQ(options.imports[1].dims.at("m"), 6);
  for (const char* text : {"k=1,2,3", "k=", "k", "=1", "k=-1", "k=1,,"})
    EXPECT_THROW(set_option(options, "dim", {text, "--dim"}), UsageError) << text;
  EXPECT_THROW(set_option(options, "const", {"c=@c.npy", "--const"}), UsageError) << "nothing reads arrays here";
}

TEST_F(OptionTable, MeasuringEverythingAndNothingContradict) {
  CompileOptions options;
  options.no_measure = true;
  options.tuning.worker = {"worker"};
  EXPECT_FALSE(is_measured(options));
  settle(options);
  EXPECT_TRUE(options.tuning.worker.empty());
  options.tuning.measure_all = true;
  EXPECT_THROW(settle(options), UsageError);
  options.no_measure = false;
  settle(options);
  EXPECT_EQ(options.tuning.light_us, 0);
}

}  // namespace
}  // namespace tw::driver::test
