// What fusion and layout assignment need to know about a node beyond its class.
#pragma once
#include "graph/op.h"
#include "transform/names.h"

namespace tw::transform {

enum class Role : uint8_t {
  kContraction,  // matmul, convolution
  kReduction,    // rows: softmax, normalizations, sums
  kWindow,       // pooling and the like: reads an input element more than once
  kElementwise,
  kIndexMap,  // transpose, slice, expand: an affine index map, no div, mod or guard
  kPad,       // pad with one number, space to depth, unfold: reads an element at one point, or at few, as if it were
              // element-wise, of another shape
  kJoin,      // concat: reads each element of one of its operands
  kLookup,    // gather: its index map reads a table
  kUpdate,    // update_slice: what goes into a state is read where it lies
  kAlone,     // everything else, reshapes too: they are views
};

Role role_of(const graph::OpTable& ops, const graph::Node& node);

/// Whether the node computes each element from the elements at the same place, its operands broadcast by numpy's rule:
/// any order of dims will do. (A batch norm is element-wise but knows its channel dim, a band its rows and columns,
/// dropout and noise the number of each element.)
bool is_pointwise(const graph::OpTable& ops, const graph::Node& node);

/// Whether the node is a transpose to the identical order: a copy between two layouts.
bool is_layout_copy(const graph::Node& node);

/// Whether the node is a convolution or a pooling: operators on N, C, spatial dims.
bool is_spatial(const graph::Node& node);

/// Whether the node reads of its data just what it makes: a slice, a gather.
bool reads_a_part(const graph::Node& node);

/// Whether the node treats all spatial points of N, C, spatial dims alike, so that it works in any order of dims:
/// element-wise operators, concat, pad, resize, per-channel normalizations, slices that are put into a value.
bool follows_layout(const graph::OpTable& ops, const graph::Node& node);

}  // namespace tw::transform
