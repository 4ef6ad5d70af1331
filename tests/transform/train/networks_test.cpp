// Whole small networks against finite differences: gradients for inputs and all parameters.
#include "tests/transform/train/networks.h"

#include <gtest/gtest.h>

#include "tests/transform/train/gradient_check.h"

namespace tw::testing {
namespace {

void check(const Network& network) { check_gradients(network.graph, network.values); }

TEST(NetworkGradients, Perceptron) { check(perceptron(DataType::f64())); }
TEST(NetworkGradients, ConvolutionsAndPools) { check(convolutions(DataType::f64())); }
TEST(NetworkGradients, Attention) { check(attention(DataType::f64())); }

}  // namespace
}  // namespace tw::testing
