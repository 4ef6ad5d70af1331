// Limits of the importer: what a model may ask for before it is refused, so that no input exhausts memory or the stack.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tw::frontend {

constexpr int64_t kMaxElements = int64_t{64} << 30;   // of one tensor, elements
constexpr int64_t kMaxFileBytes = 0x7fffffff;         // protobuf's own limit for one message, bytes
constexpr size_t kMaxRank = 32;                       // dimensions of one tensor
constexpr int64_t kMaxNodes = 200'000;                // nodes converted, after inlining functions and unrolling loops
constexpr int64_t kMaxOperators = 400'000;            // operators of the graph that these become
constexpr int kMaxDepth = 32;                         // nested subgraphs and function calls
constexpr int kMaxMessageDepth = 400;                 // nested protobuf messages; a subgraph takes three
constexpr int64_t kMaxTrips = 10'000;                 // iterations of one unrolled Loop or Scan
constexpr int64_t kMaxTurns = 100'000;                // of one loop that stays one
constexpr int64_t kMaxFoldedElements = 64 << 10;      // result of a node evaluated at import, elements
constexpr int64_t kMaxFoldInputElements = 1 << 20;    // each operand of such a node, elements
constexpr int64_t kMaxFoldWork = int64_t{256} << 20;  // elements read and written by all such nodes of a model
constexpr int64_t kMaxAttribute = int64_t{1} << 31;   // magnitude of a pad, stride, dilation or kernel extent
constexpr size_t kMaxListedNodes = 5;                 // node names printed for each unsupported operator

}  // namespace tw::frontend
