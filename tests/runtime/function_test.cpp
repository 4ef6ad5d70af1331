// Artefacts of several functions: what callers learn of them, and that they share a state.
#include "tests/runtime/api_harness.h"

namespace tw {
namespace {

using test::api;
using test::Vector;

constexpr int64_t kElements = 5;

class Functions : public testing::Test {
 protected:
  TwFunctionInfo info(int32_t function) const {
    TwFunctionInfo info{};
    info.struct_size = sizeof(info);
    EXPECT_OK(api().function_info(model_.get(), function, &info));
    return info;
  }
  void step() { EXPECT_OK(api().run_function(context_.get(), 0, &in_, 1, &out_, 1)); }
  float seen() {
    EXPECT_OK(api().run_function(context_.get(), 1, nullptr, 0, &out_, 1));
    return y_.data[0];
  }

  const test::ModelPtr model_ = test::load(test::total_functions(kElements).file());
  const test::ContextPtr context_ = test::make_context(model_.get(), test::options_with(0));
  Vector<float> x_{kElements, 1}, y_{kElements};
  const DLTensor in_ = x_.view(), out_ = y_.view();
};

TEST_F(Functions, AreDescribed) {
  ASSERT_EQ(api().function_count(model_.get()), 2);
  EXPECT_STREQ(info(0).name, "step");
  EXPECT_EQ(info(0).input_count, 1);
  EXPECT_STREQ(info(1).name, "look");
  EXPECT_EQ(info(1).first_entry, 1);
  EXPECT_EQ(info(1).entry_count, 1);
  EXPECT_EQ(info(1).input_count, 0);
  EXPECT_EQ(info(1).output_count, 1);
  EXPECT_NE(info(0).changes_state, 0);
  EXPECT_EQ(info(1).changes_state, 0);
  EXPECT_EQ(api().input_count(model_.get()), 1) << "of the first";
  int32_t found = -1;
  EXPECT_OK(api().find_function(model_.get(), "look", &found));
  EXPECT_EQ(found, 1);
  EXPECT_FAILS(api().find_function(model_.get(), "loop", &found), TW_ERROR_INVALID_ARGUMENT, "step, look");
  TwFunctionInfo none{};
  none.struct_size = sizeof(none);
  EXPECT_FAILS(api().function_info(model_.get(), 2, &none), TW_ERROR_INVALID_ARGUMENT, "function 2");
}

TEST_F(Functions, ShareAState) {
  step();
  step();
  EXPECT_EQ(seen(), 4);
  EXPECT_EQ(seen(), 4) << "looking changes nothing";
  step();
  EXPECT_EQ(seen(), 6);
}

TEST_F(Functions, EntriesAreFoundWithinTheirFunction) {
  int32_t entry = -1;
  EXPECT_OK(api().find_entry_of(model_.get(), 1, nullptr, 0, &entry));
  EXPECT_EQ(entry, 1);
  EXPECT_OK(api().run_entry(context_.get(), entry, nullptr, &out_));
  EXPECT_OK(api().find_entry(model_.get(), &in_, 1, &entry));
  EXPECT_EQ(entry, 0);
  EXPECT_FAILS(api().find_entry_of(model_.get(), 1, &in_, 1, &entry), TW_ERROR_INVALID_ARGUMENT, "none");
  EXPECT_FAILS(api().run_function(context_.get(), 1, nullptr, 0, &out_, 0), TW_ERROR_INVALID_ARGUMENT, "seen");
  EXPECT_FAILS(api().run_function(context_.get(), 2, nullptr, 0, nullptr, 0), TW_ERROR_INVALID_ARGUMENT, "function 2");
}

TEST(FunctionsOfOtherModels, AreOneWithoutAName) {
  const auto model = test::load(test::sum_model({1, 3}).file());
  ASSERT_EQ(api().function_count(model.get()), 1);
  TwFunctionInfo info{};
  info.struct_size = sizeof(info);
  EXPECT_OK(api().function_info(model.get(), 0, &info));
  EXPECT_STREQ(info.name, "");
  EXPECT_EQ(info.entry_count, 2);
  int32_t found = -1;
  EXPECT_FAILS(api().find_function(model.get(), "step", &found), TW_ERROR_INVALID_ARGUMENT, "has but one");
}

}  // namespace
}  // namespace tw
