// Stream-K (CUTLASS 3.x) that leaves its barriers at zero: the block that waits for a tile's last sums is the last one
// to look at its barrier, so it sets that back. One clearing serves all launches of a run. Takes the place of CUTLASS's
// scheduler for this tile and cluster.
#include "cutlass/gemm/kernel/gemm_universal.hpp"

namespace tw {

template <class TileShape, class ClusterShape>
struct ResettingScheduler : cutlass::gemm::kernel::detail::PersistentTileSchedulerSm90StreamK<TileShape, ClusterShape> {
  using Base = cutlass::gemm::kernel::detail::PersistentTileSchedulerSm90StreamK<TileShape, ClusterShape>;
  using typename Base::BarrierType;
  using typename Base::Params;
  using typename Base::WorkTileInfo;
  using Base::Base;

  struct Arguments : Base::Arguments {
    Arguments() { this->decomposition_mode = Base::DecompositionMode::StreamK; }
  };

  template <class Sums>
  CUTLASS_DEVICE static void fixup(const Params& params, const WorkTileInfo& tile, Sums& sums, uint32_t barriers,
                                   uint32_t barrier) {
    Base::fixup(params, tile, sums, barriers, barrier);
    const bool waited = Base::requires_fixup(params, tile) && Base::compute_epilogue(tile, params);
    if (!waited || threadIdx.x % cutlass::NumThreadsPerWarpGroup != 0) return;
    // Barriers lie behind the partial sums of tiles.
    const size_t partial = Params::get_reduction_workspace_size(
        params.sk_tiles_, cutlass::gemm::to_gemm_coord(TileShape{}), cutlass::sizeof_bits<float>::value);
    auto* const all = reinterpret_cast<BarrierType*>(static_cast<char*>(params.reduction_workspace_) + partial);
    all[Base::output_tile_index(params, tile) * barriers + barrier] = 0;
  }
};

}  // namespace tw

template <uint32_t kStages>
struct cutlass::gemm::kernel::detail::TileSchedulerSelector<
    cutlass::gemm::StreamKScheduler, cutlass::arch::Sm90,
    cute::Shape<cute::Int<TW_TILE_M>, cute::Int<TW_TILE_N>, cute::Int<TW_TILE_K>>,
    cute::Shape<cute::Int<TW_CLUSTER_M>, cute::Int<TW_CLUSTER_N>, cute::_1>, kStages> {
  using Scheduler = tw::ResettingScheduler<cute::Shape<cute::Int<TW_TILE_M>, cute::Int<TW_TILE_N>, cute::Int<TW_TILE_K>>,
                                           cute::Shape<cute::Int<TW_CLUSTER_M>, cute::Int<TW_CLUSTER_N>, cute::_1>>;
};
