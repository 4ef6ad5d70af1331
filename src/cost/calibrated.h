// All constants of cost that were fitted: what no data sheet says and no machine model measures; what a device can do
// is TargetInfo's. scripts/check_costs.py refuses them elsewhere. A line says of what, the unit, how it was found as
// far as that was written down, and when it came; the head of a group for which machines. Without a unit it is a share
// or a factor. A cycle is an issue cycle of a core, the time of one FMA at peak, or a clock cycle of an SM.
#pragma once
#include <cstdint>

namespace tw::cost {

// ---- Caches of CPUs. x86-64, 2026-11-22; how: not recorded, but as noted.
inline constexpr double kNominalFlopPerNs = 50;   // flop a ns, of machines without parameters: a small server core
inline constexpr double kNominalBytesPerNs = 20;  // bytes a ns of it
inline constexpr double kExposedTraffic = .3;  // of contiguous traffic, not hidden by prefetching; on three x86 cores
inline constexpr double kCacheShare = .75;     // of a cache, for what is read again; stacks and tables have the rest
inline constexpr double kKeptShare = .5;       // of a cache, for what is still there after other values have passed

// ---- Register tiles of CPUs, cycles. x86-64 with two FMA units, 2026-11-21; how: not recorded.
inline constexpr double kLatencyCycles = 8;      // from an operand to a sum, comparison or FMA: 4 clock cycles, 2 units
inline constexpr double kStepLoopCycles = .7;    // loop control of a reduction step
inline constexpr double kWaitMargin = 1.1;       // of the latency, for a step's sums to cover: operands come late
inline constexpr double kConflictCycles = .35;   // for each row beyond the free ways of an L1 set
inline constexpr double kExtraLoadCycles = .1;   // of a load beside its issue cycle: queues, a busy hyperthread
inline constexpr double kVisitCycles = 40;       // entering and leaving a tile
inline constexpr double kIndistinct = .002;      // difference that the prediction cannot tell; 2026-11-22
inline constexpr double kWidenCycles = 1;        // an f32 of a 16-bit float: a shift or a conversion; 2026-11-22
inline constexpr double kAccumulateCycles = 10;  // entering a tile again, adding a vector of sums to memory; 2026-11-22
inline constexpr double kPositionLoopCycles = 80;  // the innermost loop anew, for another filter position; 2026-11-22
inline constexpr double kEnoughArithmetic = 4;     // times the loading time: a tile is large enough; 2026-11-22
inline constexpr double kMaxWaste = .03;           // of an axis, padding of its last part: Roller's epsilon; 2026-11-22
inline constexpr double kMaxStepWaste = 1.0 / 6;   // the same of the steps of a sum on a GPU, in k-blocks; 2026-11-22

// ---- Stages of CPUs without a register tile, cycles of a vector unless said. x86-64; how: not recorded, but counted
// where the instructions are named.
inline constexpr double kDivisionCycles = 10;       // division and root are not pipelined; 2026-11-22
inline constexpr double kFunctionCycles = 18;       // range reduction, polynomial, scaling; 2026-11-22
inline constexpr double kFunctionWaitCycles = 56;   // 14 dependent steps, two vectors of them in flight; 2026-11-22
inline constexpr double kRandomCycles = 120;        // 20 products of words, of both halves of the lanes; 2026-11-26
inline constexpr double kLaneCycles = 1.5;          // loading and inserting one lane; 2026-11-21
inline constexpr double kTransposedCycles = 4;      // a column of a block that is transposed in registers; 2026-11-21
inline constexpr double kEverySecondCycles = 6;     // two loads, two permutations, a blend, a mask; 2026-11-21
inline constexpr double kShortLoopCycles = 6;       // counters, addresses and the branch of a short loop; 2026-11-21
inline constexpr double kRowTileCycles = 8;         // counters and addresses of a tile of rows; 2026-11-22
inline constexpr double kRowCycles = 4;             // counters and addresses of a row of column sums; 2026-11-24
inline constexpr double kCombineCycles = 4;         // of a tile's rows, combined: read twice, stored; 2026-11-25
inline constexpr double kScatteredIndexCycles = 6;  // comparing an index with a block, some wrong guesses; 2026-11-26
inline constexpr double kCrossingWorthIt = .98;     // of the time without it: a second tiled axis; 2026-11-21
inline constexpr double kShortRegions = 8;          // parallel regions: what is shorter may be serial; 2026-11-27
inline constexpr double kSharedWorthIt = .7;        // of the serial time: what is short and yet shared; 2026-11-27
inline constexpr double kBlockLoss = .01;           // of a chain's arithmetic, by tiles cut from blocks; 2026-11-22

// ---- Winograd and the algorithms of convolutions on CPUs. x86-64 with AVX-512, 2026-11-22; how: not recorded. ADR
// 0007 has the shapes that were measured.
inline constexpr double kWinogradInputCycles = 7;   // a vector of an input point: 2 products, a load, 2 stores, waits
inline constexpr double kWinogradOutputCycles = 9;  // the same of an output point
inline constexpr double kExposedLoad = .2;          // of the latency of a line that is read by itself
inline constexpr double kExposedStore = .3;         // of a line that is written by itself: stores wait for each other
inline constexpr double kExposedLine = .5;          // of a line of the shared cache, in the model of whole convolutions
inline constexpr double kDirectLoss = 1.05;         // over the peak rate: edges, tails, entering tiles
inline constexpr double kProductsLoss = 1.15;       // the same of Winograd's products, whose blocks are smaller
inline constexpr double kStepsLost = 4;             // steps of a sum, when a tile of products is entered and left
inline constexpr double kTransformedShare = .7;     // of L2, for the transformed input of a tile
inline constexpr double kWeightsReached = .5;       // of a memory's read rate, by weights beside arithmetic
inline constexpr double kSerial = .2;               // of the shorter of two activities, not beside the longer one
inline constexpr double kAlgorithmWorthIt = .95;    // of the direct time: what the model cannot tell stays direct
inline constexpr double kTransformStepsNs = 15'000;  // ns: a dozen steps that transform computed weights; 2026-11-27

// ---- Layouts: conversions, and operators under each order. x86-64, some for GPUs too, 2026-11-22; how: not recorded.
inline constexpr double kConversionShare = .7;         // of a copy's bandwidth, by a transposing copy
inline constexpr double kShortLines = 3;               // times that, along rows shorter than a line
inline constexpr double kDenseShare = .9;              // of the FMA peak, vectors along output channels
inline constexpr double kPanelShare = .85;             // rows all one, the weights near while panels pass
inline constexpr double kRowShare = .7;                // vectors along image rows, whose operands are not in panels
inline constexpr double kStridedShare = .4;            // the same, rows read with a stride
inline constexpr double kPositionCycles = 2;           // a product of a depthwise window: both operands loaded
inline constexpr double kStridedPositionCycles = 3.5;  // every other element: two loads and their shuffle
inline constexpr double kEdgePositionCycles = .5;      // more, of a vector over one edge of the image: masked loads
inline constexpr double kStridedEdgeCycles = 3;        // the same with a stride: one load a lane
inline constexpr double kShortRow = 2;                 // times the cycles, rows shorter than a vector
inline constexpr double kWindowReads = .7;             // of a copy: windows along channels read planes in place
inline constexpr double kExposedRows = .5;             // of lines brought in again, not hidden by prefetching
inline constexpr double kShareOfMove = .5;             // of a copy that is made anyway: another order; 2026-11-23

// ---- Tiles of products on GPUs, cycles of an SM unless said. H100; how: not recorded, but as noted. ADR 0015 and 0016
// have the tiles that were measured.
inline constexpr double kUnoverlapped = .25;    // of the shorter times; 2026-11-22
inline constexpr double kTileCycles = 2000;     // prologue and epilogue of a tile; 2026-11-22
inline constexpr double kNextTileCycles = 500;  // to the next tile of a persistent block; 2026-11-23
inline constexpr double kCopyCycles = 450;      // least of a k-block by threads' copies; 2026-11-22
inline constexpr double kTmaCycles = 300;       // least of a k-block by TMA; 2026-11-22
inline constexpr double kClusterCycles = 150;   // clustered tiles wait, a k-block; measured; 2026-11-22
inline constexpr double kWalkingClusters = .2;  // of that wait, not hidden by walking, a tile at a time; 2026-11-26
inline constexpr double kScattered = 8;         // times: results stored alone, each to part of a sector; 2026-11-23
inline constexpr double kThreadsL2 = .5;        // of an SM's share of L2, by threads' accesses; 2026-11-23
inline constexpr double kPassedBytes = 20;      // bytes a cycle: stream-K sums to a block; measured; 2026-11-23
inline constexpr double kMinFilled = .6;        // of the rows of a tile, where they are combined; 2026-11-23
inline constexpr double kAccessCycles = .125;   // a thread's access of a copied operand, with address; 2026-11-22
inline constexpr double kShortAccess = 6;       // times: too short for the background, latency shows; 2026-11-23
inline constexpr double kMayPay = 3;            // times the predicted time: padding worth measuring; 2026-11-23

// ---- Chains of products, rows and scattered sums on GPUs, cycles of an SM unless said. H100; how: not recorded, but
// as noted.
inline constexpr double kChainTileCycles = 1500;            // launch of a tile; 2026-11-25
inline constexpr double kRowBarrierCycles = 1500;           // barriers of a block of rows; 2026-11-25
inline constexpr double kStreamedBlockCycles = 500;         // barrier and waits of a block of keys; 2026-11-25
inline constexpr double kWholeRowElementCycles = .08;       // an element between the products; 2026-11-23
inline constexpr double kStreamedElementCycles = .05;       // the same, block by block; 2026-11-25
inline constexpr double kWholeRowProducts = .5;             // of the rate of warps' matrix instructions; 2026-11-23
inline constexpr double kStreamedProducts = 1250.0 / 1024;  // of the same rate, operands apart; 2026-11-25
inline constexpr double kStreamedOperands = 1700.0 / 128;   // products for a byte from shared memory; 2026-11-25
inline constexpr double kWarpsAlone = 8;             // warps: with fewer a tile alone waits for itself; 2026-11-23
inline constexpr double kSplitL2 = 1.0 / 3;          // of an SM's share of L2, all tiles of split keys; 2026-11-26
inline constexpr double kCombiningCycles = 3000;     // launch of the kernel that combines split keys; 2026-11-26
inline constexpr double kTupleCycles = 40;           // of a tuple there, which waits for the last; 2026-11-26
inline constexpr double kNextProductCycles = 800;    // a product waits for the sums of the one before; 2026-11-25
inline constexpr double kApartUnoverlapped = .3;     // of the shorter time, products apart; fitted to pairs; 2026-11-25
inline constexpr double kTogetherUnoverlapped = .6;  // the same in one kernel; fitted to pairs; 2026-11-25
inline constexpr double kTogetherWorthIt = .875;     // of the time apart; 2026-11-25
inline constexpr double kBehindShare = .5;           // of a kernel's cycles, behind another one; 2026-11-25
inline constexpr double kGroupsReached = .75;        // of the rate of warp groups, by products apart; 2026-11-25
inline constexpr double kThreadTermCycles = 4;       // a term or element of a thread's row: loads are apart; 2026-11-25
inline constexpr int64_t kCombinedTerms = 8;         // terms' time: lanes that share a sum combine it; 2026-11-26
inline constexpr double kIndexIssueCycles = 2;       // a warp's instructions for an index, on a scheduler; 2026-11-29
inline constexpr double kIndexLatencyCycles = 24;    // their latency; 2026-11-29
inline constexpr double kHitCycles = 700;  // until a term is there, asked for when its index is found; 2026-11-29

}  // namespace tw::cost
