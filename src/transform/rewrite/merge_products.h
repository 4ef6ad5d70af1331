// Products of one activation as one, whatever their weights are: pass merge-products stacks constants, a training its
// parameters (train/stacked.h).
#pragma once
#include <string>
#include <vector>

#include "transform/editor.h"

namespace tw::transform {

/// x w + bias.
struct MergedProduct {
  int node = 0;
  ValueId weights = kAbsent;
  ValueId bias = kAbsent;  // or there is none
  ValueId result = kAbsent;
  int64_t columns = 0;
  Ints runs = {};  // columns that a reshape of the result leaves together: parts begin at multiples of them
};

/// How the operands of products that become one are put side by side.
class OperandStacks {
 public:
  virtual ~OperandStacks() = default;
  /// Whether `operand`, weights or a bias, may be part of a larger one.
  virtual bool takes(const Editor& editor, ValueId operand) const = 0;
  /// Whether the operands of both, which are taken, may be parts of one.
  virtual bool fit(const Editor& editor, const MergedProduct& a, const MergedProduct& b) const = 0;
  /// The weights of all products, column behind column, and the biases of those that have one.
  virtual ValueId weights(Editor& editor, const std::string& name, const std::vector<MergedProduct>& products) = 0;
  virtual ValueId biases(Editor& editor, const std::string& name, const std::vector<MergedProduct>& products) = 0;
};

struct MergeRules {
  enum class Readers : uint8_t {
    kByIndex,  // who reads a result reads it through index maps: no columns are copied, no epilogue is lost
    kAll,      // element-wise operators right behind a product, too
  };
  int64_t access_bytes = 1;  // columns of each product begin at multiples of these
  Readers readers = Readers::kByIndex;
};

graph::Graph merge_products_by(const graph::Graph& graph, const graph::OpTable& ops, const MergeRules& rules,
                               OperandStacks& stacks);

}  // namespace tw::transform
