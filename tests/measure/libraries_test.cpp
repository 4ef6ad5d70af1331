// Which libraries there are, and what they offer, against ones made for tests.
#ifdef TW_RUNTIME_CUDA
#include "measure/libraries.h"

#include <gtest/gtest.h>

#include "tests/runtime/fake_cublaslt.h"
#include "tests/runtime/fake_cuda_released.h"
#include "tests/runtime/fake_cudnn.h"

namespace tw::measure {
namespace {

using test::fake;
using test::fake_cudnn;

const char* const kConvolution =
    "convolution batch=1 n=4 k=2 groups=1 spatial=4,4 window=1,1 strides=1,1 dilations=1,1 pads=0,0 pads_end=0,0 "
    "a=x:f16 b=w:f16 out=y:f16";

class FindLibraries : public ::testing::Test {
 protected:
  void SetUp() override {
    fake = test::FakeGpu();
    fake_cudnn = {};
    driver_.open_cublaslt = test::fake_cublaslt;
    driver_.open_cudnn = test::open_fake_cudnn;
  }
  void TearDown() override {
    EXPECT_EQ(fake_cudnn.objects, 0);
    test::expect_all_released();
  }
  runtime::cuda::Driver driver_ = test::fake_driver();
};

TEST_F(FindLibraries, ThatAreInstalled) {
  const construct::Libraries both = find_libraries("sm_90a", driver_);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both.at("cublaslt").version, 130100);
  EXPECT_EQ(both.at("cudnn").version, 91900);
  driver_.open_cudnn = test::fake_driver().open_cudnn;
  EXPECT_EQ(find_libraries("sm_90a", driver_).count("cudnn"), 0U);
  driver_.open_cublaslt = test::fake_driver().open_cublaslt;
  EXPECT_TRUE(find_libraries("sm_90a", driver_).empty());
}

TEST_F(FindLibraries, OfferCalls) {
  const construct::Libraries both = find_libraries("sm_90a", driver_);
  const auto gemm = format::parse_problem("gemm batch=1 m=2 n=1 k=3 a=x:f16:3:0 b=w:f16:1:0 out=y:f16:1:0");
  const auto products = both.at("cublaslt").offers(gemm);
  ASSERT_TRUE(products.ok());
  ASSERT_EQ(products->size(), 5U);
  EXPECT_EQ(to_string((*products)[4]), "cublaslt 130100 4 " + to_string(gemm));
  const auto offers = [&] { return both.at("cudnn").offers(format::parse_problem(kConvolution)); };
  EXPECT_EQ(fake.contexts_retained, 0) << "no GPU before the first problem";
  for (const int64_t engine : {41, 3}) {
    fake_cudnn.engines = {{engine, {{2, 5}}, {0}}};
    ASSERT_TRUE(offers().ok()) << offers().reason();
    EXPECT_EQ(to_string(offers()->at(0)), fmt::format("cudnn 91900 {},2=5 {}", engine, kConvolution));
  }
  const auto attention = format::parse_problem(
      "attention batch=1 m=4 n=8 k=8 groups=2 keys=4 a=q:f16:16:0:8:0 b=k:f16:16:0:8:0 values=v:f16:16:0:8:0 "
      "out=y:f16:16:0:8:0 act=softmax:0.125");
  EXPECT_EQ(to_string(both.at("cudnn").offers(attention)->at(0)), "cudnn 91900 3,2=5 " + to_string(attention));
  EXPECT_EQ(fake.contexts_retained, 1);
  fake_cudnn.engines[0].notes = {4};
  EXPECT_EQ(offers().reason(), "it knows no engine that sums in f32, in one order");
}

TEST_F(FindLibraries, DeclineWithoutAGpu) {
  fake.devices = 0;
  const auto offers = find_libraries("sm_90a", driver_).at("cudnn").offers(format::parse_problem(kConvolution));
  EXPECT_NE(offers.reason().find("finds no GPU"), std::string::npos) << offers.reason();
}

}  // namespace
}  // namespace tw::measure
#endif
