// Masks as functions of their indices: causal ones, windows of neighbours, however a model computes them.
#pragma once
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "te/row_mask.h"
#include "transform/editor.h"
#include "transform/pass.h"

namespace tw::transform {

/// The elements of a matrix where lower <= column - row <= upper.
struct Band {
  int64_t lower = 0, upper = 0;
  friend bool operator==(const Band&, const Band&) = default;
};

/// A matrix that has one number in a band and one number elsewhere; the same number where the band is all of it.
struct Mask {
  Band band;
  double inside = 0, outside = 0;
  bool is_splat() const { return inside == outside || (std::isnan(inside) && std::isnan(outside)); }
};

/// What a node keeps of x: the elements in a band, where `mask` is true (`keeps_true`), or false, or adds 0.
struct Masked {
  ValueId x, mask;
  Band band;
  double fill;  // in place of the others
  bool keeps_true = true;
};

/// What the values of a graph are as masks. What was found of a value holds as long as the value is not changed.
class Masks {
 public:
  explicit Masks(const Editor& editor) : editor_(editor) {}
  /// Of a value that is broadcast to matrices of `rows` x `columns`: a constant, or made of constants and indices by
  /// element-wise operators, comparisons of positions, triangles of matrices. Nothing where it is no such mask, or is
  /// not looked through.
  std::optional<Mask> find(ValueId id, int64_t rows, int64_t columns);
  /// A select between x and one number, or the sum of x with zeros and a number so low that nothing else counts: not
  /// strictly, since what is infinite or no number stays that under a sum.
  std::optional<Masked> masked(const Node& node, Precision precision);

 private:
  struct Matrix {
    int64_t rows = 0, columns = 0;
  };
  template <typename IsKept>
  std::optional<Mask> kept(ValueId id, const Matrix& matrix, const IsKept& is_kept);
  std::optional<Mask> look(ValueId id, int64_t rows, int64_t columns);
  std::optional<Mask> computed(const Node& node, int64_t rows, int64_t columns);

  const Editor& editor_;
  std::map<std::tuple<ValueId, int64_t, int64_t>, std::optional<Mask>> found_;
};

/// The same mask with its numbers exchanged; nothing where what lies outside of the band is no band.
std::optional<Mask> turned(const Mask& mask, int64_t rows, int64_t columns);

}  // namespace tw::transform
