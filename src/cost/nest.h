// A loop nest over axes with the tensors that it touches, and the closed-form model of its time (mechanism R7): bytes
// that cross each memory level, and the arithmetic; that of stages without a register tile in issue cycles of their
// bodies. No instruction is simulated.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/target_info.h"
#include "te/te.h"

namespace tw::cost {

/// One dimension of what is read: index = sum of coefficient * axis.
struct AccessDim {
  int64_t extent = 1;
  std::vector<std::pair<size_t, int64_t>> terms;  // axis number, coefficient
};

struct Access {
  std::string tensor;
  int64_t element_bytes = 4;
  std::vector<AccessDim> dims;  // as stored: the last one is contiguous
};

/// A loop: `trips` iterations, each covers `step` neighbouring points of the axis.
struct NestLoop {
  size_t axis = 0;
  int64_t trips = 1;
  int64_t step = 1;
};

struct Nest {
  std::vector<te::Axis> axes;
  std::vector<Access> accesses;
  std::vector<NestLoop> loops;  // outermost first
};

/// A read of `tensor` as an access over `axes`; an index that is not linear counts as the whole dimension.
Access make_access(const te::Tensor& tensor, const Expr& read, std::span<const te::Axis> axes);

/// Bytes of the lines that `access` touches while axis a runs over tile[a] neighbouring points.
int64_t footprint_bytes(const Access& access, std::span<const int64_t> tile, int64_t line_bytes);

/// Bytes of all accesses together: F(T) of the data-reuse score.
int64_t footprint_bytes(const Nest& nest, std::span<const int64_t> tile, int64_t line_bytes);

/// Points of each axis that the loops from number `first` inwards cover.
std::vector<int64_t> covered(const Nest& nest, size_t first);

/// Bytes that the nest moves into a memory of `capacity` bytes: the outermost sub-nest that fits (with as many
/// iterations of the loop around it as fit) is loaded once for each iteration of the loops around it, except where such
/// a loop repeats what is there already. Q(T).
double traffic_bytes(const Nest& nest, int64_t capacity, int64_t line_bytes);

/// Time in ns of the nest on one compute unit: arithmetic_ns or the first level's traffic, whichever is longer, plus
/// the share of the traffic of deeper levels that prefetching does not hide. Shared levels are divided by `units` at
/// work. Source: Roller's rule (maximum over levels and compute), with the exposed share as measured on three x86
/// cores.
double nest_ns(const Nest& nest, double arithmetic_ns, const TargetInfo& target, int units);

/// Issue cycles of `compute` for one vector of points: loads, operations and elementary functions of its body, the
/// combination of a reduction, and a store. An issue cycle is the time of one FMA at peak.
double body_cycles(const te::Compute& compute);

/// Time in ns of `nest` whose arithmetic takes `arithmetic_ns` on one core and that falls into `tiles` equal tiles: on
/// all cores, or on one where starting the others takes longer.
double run_ns(const Nest& nest, double arithmetic_ns, int64_t tiles, const TargetInfo& target);

/// False where it takes hardly less on all cores. Neighbours of which one core computes each need no barrier between
/// them.
bool threads_pay(const Nest& nest, double arithmetic_ns, int64_t tiles, const TargetInfo& target);

/// What `program` reads and writes while the axes of `output` and `reduced` run, in this order: inputs of all its
/// stages where they are read along these axes, and the output.
Nest streaming_nest(const te::Program& program, const te::Compute& output, const std::vector<te::Axis>& reduced);

}  // namespace tw::cost
