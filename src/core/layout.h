// A layout is the sequence of primitives that turns a tensor's logical shape into its storage shape (ALT, mechanisms
// A1 and A2). The storage is row-major over the storage shape. The empty sequence is the logical row-major order.
// A primitive is a shape rule, an inverse and a text here, an access rule in te/index_map.cpp, runs in
// te/materialize.cpp.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/shape.h"

namespace tw {

enum class LayoutOp : uint8_t {
  kSplit,       // dim k of size prod(args) becomes dims args[0], .., args[m-1]
  kReorder,     // new dim i is old dim args[i]
  kFuse,        // dims k .. k+args[0]-1 become one
  kPad,         // dim k grows by args[0] before and args[1] after, filled with the te's neutral value
  kUnpad,       // inverse of kPad: drops args[0] elements before and args[1] after
  kUnfold,      // dim k becomes dims k, tiles, and k+1, args[0] elements each, from every args[1]; filled like kPad
  kFold,        // inverse of kUnfold: dims k and k+1, tiles from every args[1], become one of args[0] elements
  kStoreAt,     // dim k grows by one slice behind: `tensor`, which is stored nowhere else
  kDecoupleAt,  // inverse of kStoreAt: drops that slice
};

struct LayoutPrimitive {
  LayoutOp op;
  int dim = 0;
  std::vector<int64_t> args;
  std::string tensor = {};  // of kStoreAt and kDecoupleAt: the name of what is attached
  friend bool operator==(const LayoutPrimitive&, const LayoutPrimitive&) = default;
};

class Layout {
 public:
  Layout() = default;
  explicit Layout(std::vector<LayoutPrimitive> primitives) : primitives_(std::move(primitives)) {}

  const std::vector<LayoutPrimitive>& primitives() const { return primitives_; }
  bool is_identity() const { return primitives_.empty(); }

  /// Each returns this layout followed by one more primitive.
  Layout split(int dim, std::vector<int64_t> factors) const;
  Layout reorder(std::vector<int64_t> order) const;
  Layout fuse(int dim, int count) const;
  Layout pad(int dim, int64_t before, int64_t after) const;
  Layout unfold(int dim, int64_t tile, int64_t step) const;
  Layout store_at(int dim, std::string tensor) const;
  Layout then(const LayoutPrimitive& primitive) const;
  Layout then(const Layout& more) const;

  /// Whether the storage holds more than the tensor's elements, each once (mechanism A4: such a layout is that of one
  /// tensor alone).
  bool expands() const;

  /// Shape after the whole sequence. Throws InternalError when a primitive does not fit its input shape.
  Shape storage_shape(const Shape& logical) const;
  /// The sequence that undoes this one on a tensor of shape `logical`: inverse(l)(l(x)) = x.
  Layout inverse(const Shape& logical) const;

  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  std::vector<LayoutPrimitive> primitives_;
};

/// Shape after one primitive; throws InternalError when it does not fit.
Shape apply_primitive(const LayoutPrimitive& primitive, const Shape& shape);

/// The layout of what `store_at` attaches to a tensor of shape `before`, as seen in that tensor.
Layout slice_layout(const LayoutPrimitive& store_at, const Shape& before);

/// "split(1, 4, 16) reorder(0, 1, 3, 4, 2)", "unfold(2, 6, 4) store_at(0, bias)"; "" for the identity.
std::string to_string(const Layout& layout);
std::string to_string(const LayoutPrimitive& primitive);
/// Inverse of to_string; throws UserError naming the part that does not parse.
Layout parse_layout(std::string_view text);

/// NC<spatial> -> N<spatial>C.
Layout channels_last(int rank);

/// How the values of a graph are stored, by their names: what passes decide and plans keep.
struct ValueLayouts {
  /// Of each value that a node computes: as its node writes it; of each state: as it is kept.
  std::map<std::string, Layout> values;
  /// Reads of a value in another layout than it is written in, from a copy: by the first value that the reading node
  /// computes and the number of its input. All other reads take the value as it is written.
  std::map<std::pair<std::string, int64_t>, Layout> reads;
  friend bool operator==(const ValueLayouts&, const ValueLayouts&) = default;
};

}  // namespace tw
