// Small te programs of every kind that schedules are made for; shared by the tests of schedule, lower and tune.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "te/te.h"

namespace tw::testing {

/// z = max(x[m,k] w[k,n] + bias[n], 0): stages "y" (the sum) and "z".
te::Program matmul_relu(int64_t m, int64_t n, int64_t k);

struct ConvShape {
  int64_t size = 1;  // height and width
  int64_t channels = 1;
  int64_t out_channels = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
};
/// Channels-last convolution of x[h,h,c] with w[oc,c,k,k], padded by kernel / 2: stages "pad" and "conv".
te::Program conv_2d(const ConvShape& shape);
/// y[h-2,h-2,c] = x[h,h,c] * w[c,3,3], each channel by itself: stage "conv".
te::Program depthwise(int64_t size, int64_t channels);
/// Element-wise chain over x[a,b,c] with s[b,1] broadcast: stages "shifted" and "y".
te::Program broadcast_chain(int64_t a, int64_t b, int64_t c);
/// Stages "max", "exp", "sum" and "y" over the last axis of x[rows,n].
te::Program softmax(int64_t rows, int64_t n);
/// y[rows,columns] = x[columns,rows], transposed: stage "y".
te::Program transpose(int64_t rows, int64_t columns, DataType type = DataType::f32());
/// Index of the largest element in each row, a reduction over pairs: stage "value" (with "index").
te::Program arg_max(int64_t rows, int64_t n);
/// Two outputs of one program: the row sums of x * x and x transposed.
te::Program sums_and_transpose(int64_t rows, int64_t n);
/// Whole numbers: y[i] = max over r of (x[i,r] - 2 i), and z = y floor-divided by 3.
te::Program integer_max(int64_t rows, int64_t n);
/// y[i] = sum over r < times of x[i]: a term that does not move with the reduction.
te::Program repeated_sum(int64_t rows, int64_t times);

// One value as several operands.
/// y[n,n] = x x.
te::Program square(int64_t n);
/// y[m,m] = x[m,k] x^T: stages "turned" and "y".
te::Program gram(int64_t m, int64_t k);
/// y[n,n,c] = x[n,n,c] with zeros around it, convolved with x itself as c filters of one channel that move alike:
/// stages "pad" and "conv".
te::Program conv_with_itself(int64_t n, int64_t c);
/// softmax(x x^T) x of x[n,k]: stages "scores" to "y".
te::Program attention_of_itself(int64_t n, int64_t k);
/// y[n,n] = x + x^T.
te::Program plus_transposed(int64_t n);

struct NamedProgram {
  std::string name;  // of the program and its shape
  te::Program program;
};
/// Those of one value as several operands, at odd shapes.
std::vector<NamedProgram> one_value_programs();
/// All of the above at shapes of 1, primes and other odd numbers.
std::vector<NamedProgram> odd_programs();

struct Attention {
  int64_t batch, heads, queries, keys, depth, values;
  bool mask;
  DataType type = DataType::f32();  // of operands, and of what multiplies the values
  bool shared = false;              // queries, by the whole batch
  bool causal = false;              // query i sees the keys up to i
  bool statistics = false;          // of each row leave the program, too
  bool drops = false;               // weights where a number of i32 for each key and query is negative
};

// softmax(scale * Q K^T + mask) V; Q, K and V are stored [batch, position, head, depth] as projections leave them.
te::Program attention(const Attention& a);

}  // namespace tw::testing
