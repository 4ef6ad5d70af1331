// Artefacts made by hand for the runtime's tests: a few kernels in x86-64 machine code and the manifests that use them.
#pragma once
#include <string>
#include <vector>

#include "runtime/format/container.h"
#include "runtime/format/kernel_use.h"

namespace tw::test {

/// The machine code of all test kernels, and where each begins.
struct Code {
  format::Bytes bytes;
  int64_t add;      // args a, b, out (f32): out[i] = a[i] + b[i]
  int64_t reverse;  // args in, out (f32), n (i64): out[i] = in[n - 1 - i], passing through scratch
  int64_t gather;   // args data (f32), index (i64), out (f32), error, n (i64): out[i] = data[index[i]], 0 <= index < n
};
Code test_code();

/// A manifest with the sections it needs; `file` serializes them.
struct TestArtefact {
  format::Manifest manifest;
  std::vector<uint8_t> code;
  std::vector<uint8_t> weights;
  std::vector<uint8_t> plan;
  std::vector<uint8_t> states = {};
  mutable std::vector<uint8_t> uses = {};  // made of the manifest by sections()
  std::vector<format::Section> sections() const;
  std::vector<uint8_t> file() const;
};

/// y = reverse(a + b) over f32[n], with one entry "nN" for each n of `sizes`. Steps "sum" (tiles n, to the arena) and
/// "flip" (tiles n, needs a barrier).
TestArtefact sum_model(const std::vector<int64_t>& sizes);

/// That of 7 and 13 elements, which serve 3 and more and 8 and more.
TestArtefact ranged_sums();

/// y = x + total over f32[n], then total becomes x + total: a state, between two others of f32[1]. Steps "show" and
/// "add", tiles n.
TestArtefact total_model(int64_t n);

/// The same as function "step", and beside it "look" without inputs: seen = total + total, which changes nothing.
TestArtefact total_functions(int64_t n);

/// For each of `batch` rows of x (f32[batch, turns, n]): y[t] = y[t - 1] + x[t], where y[-1] is h (f32[batch, n]), and
/// z[t] = s[t] + x[t], where s[t] = s[t + 1] + x[t] and s[turns] is h. Steps "forth", in two repeats of it alone, and
/// "back" and "out", in two others; s has two rows in the arena. Tiles n.
TestArtefact scan_model(int64_t batch, int64_t turns, int64_t n);

/// y[m] = data[n] at index[m]; steps "pick".
TestArtefact gather_model(int64_t n, int64_t m);

}  // namespace tw::test
