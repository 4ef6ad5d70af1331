// Loops whose buffers are filled ahead: by the threads that use them, or by the copy engine.
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/cuda/bulk.h"
#include "codegen/cuda/kernel_emitter.h"
#include "core/model_units.h"
#include "support/error.h"

namespace tw::codegen {
namespace {

constexpr int64_t kBarrierBytes = 8;

}  // namespace

void KernelEmitter::pipelined(const Stmt& s, Then then) {
  const loop::PipelineParts parts = loop::pipeline_parts(*s);
  const std::set<std::string> sums = sums_of_groups(parts.use);
  const int64_t before = shared_;
  Ring ring{s, parts.buffers, {}, fresh(), ""};
  for (const loop::Buffer& b : parts.buffers) ring.memory.push_back(share(b, std::min(s->stages, s->extent)));
  bulk_nests(parts.fill).empty() ? filled_by_threads(ring, parts, sums) : filled_by_engine(ring, parts, sums);
  end_groups(sums);
  if (then == Then::kMore) line("__syncthreads();");
  shared_ = before;
}

void KernelEmitter::name_copies(const Ring& ring) {
  const Stmt& s = ring.loop;
  names_.variables[s->var] = ring.turn;
  names_.ranges.bind(s->var, 0, s->extent);
  for (size_t b = 0; b < ring.buffers.size(); ++b) {
    const loop::Buffer& buffer = ring.buffers[b];
    const std::string name = fresh(), type = cuda_type(buffer.type);
    line("{}* const {} = {} + {} * {};", type, name, ring.memory[b], ring.slot, stride_of(buffer));
    names_.buffers[buffer.name] = {name, buffer.shape, {}, false, swizzled_bytes(buffer)};
  }
}

void KernelEmitter::filled_by_threads(Ring ring, const loop::PipelineParts& parts, const std::set<std::string>& sums) {
  const Stmt s = ring.loop;
  ring.slot = fmt::format("{} % {}", ring.turn, s->stages);
  // Instructions of one iteration run on while the next one begins: its buffers are still in use.
  const int64_t ahead = s->stages - (sums.empty() ? 1 : 2);
  TW_CHECK(sums.empty() || ahead > 0, "kernel {}: loop {} needs 3 stages", kernel_.name, s->var);
  const std::string turn = fresh();
  line("for (int {0} = -{1}; {0} < {2}; ++{0}) {{", turn, ahead, s->extent);
  ++depth_;
  line("if ({} >= 0) {{", turn);
  line("  tw_copies_done<{}>();", std::max<int64_t>(0, ahead - 1));
  line("  __syncthreads();");
  line("}}");
  const auto iteration = [&](const std::string& condition, const std::string& number, const auto& body) {
    line("if ({}) {{", condition);
    ++depth_;
    line("const int {} = {};", ring.turn, number);
    name_copies(ring);
    body();
    --depth_;
    line("}}");
  };
  iteration(fmt::format("{} < {}", turn, s->extent - ahead), fmt::format("{} + {}", turn, ahead), [&] {
    fills_ahead_ = true;
    for (const Stmt& part : parts.fill) statement(part, Then::kEnd);
    fills_ahead_ = false;
  });
  line("tw_copies_begun();");
  iteration(turn + " >= 0", turn, [&] {
    use(parts);
    if (!sums.empty()) line("tw_matrix_done<1>();");
  });
  if (ahead == 0) line("__syncthreads();");
  --depth_;
  line("}}");
}

void KernelEmitter::use(const loop::PipelineParts& parts) {
  in_pipeline_ = true;
  statements(parts.use, Then::kEnd);
  in_pipeline_ = false;
}

// One thread behind the others tells the copy engine what to fetch; barriers say which copy of the buffers is full and
// which is empty again (PTX ISA, "mbarrier"). Tiles of a cluster fetch for each other, so that a copy is empty when all
// of them have used theirs.
void KernelEmitter::filled_by_engine(Ring ring, const loop::PipelineParts& parts, const std::set<std::string>& sums) {
  const Stmt s = ring.loop;
  TW_CHECK(!sums.empty() && s->stages >= std::min<int64_t>(2, s->extent),
           "kernel {}: loop {} fills by bulk copies, for no warp groups or one stage", kernel_.name, s->var);
  TW_CHECK(loops_ == 0 && !fetched_, "kernel {}: loop {} fills by bulk copies again", kernel_.name, s->var);
  const int64_t users = out_.threads - kWarpThreads, cluster = kernel_.cluster;
  const std::string full = fresh(), empty = fresh(), phase = fresh(), last = fresh();
  ring.slot = fresh();
  line("unsigned long long* const {} = (unsigned long long*)(tw_shared + {});", full,
       reserve(2 * kBarrierBytes * s->stages));
  line("unsigned long long* const {} = {} + {};", empty, full, s->stages);
  shared_ += 2 * kBarrierBytes * s->stages;
  line("if (threadIdx.x == {}) tw_barriers<{}>({}, {}, {});", users, s->stages, full, empty,
       users / kGroupThreads * cluster);
  line("{}", cluster > 1 ? "tw_cluster_arrive(), tw_cluster_wait();" : "__syncthreads();");
  const auto turns = [&](const auto& body) {
    line("  int {} = 0, {} = 0;", ring.slot, phase);
    line("  for (int {0} = 0; {0} < {1}; ++{0}) {{", ring.turn, s->extent);
    depth_ += 2;
    name_copies(ring);
    body();
    line("if (++{0} == {1}) {0} = 0, {2} ^= 1;", ring.slot, s->stages, phase);
    depth_ -= 2;
    line("  }}");
  };
  line("if (threadIdx.x < {}) {{", users);
  turns([&] {
    line("tw_barrier_wait({} + {}, {});", full, ring.slot, phase);
    use(parts);
    // The instructions of the turn before are done, and with them its copy of the buffers.
    line("tw_matrix_done<1>();");
    line("const int {0} = {1} == 0 ? {2} : {1} - 1;", last, ring.slot, s->stages - 1);
    line("if (threadIdx.x % {0} < {1} && {2} > 0) tw_barrier_arrive<{1}>({3} + {4}, threadIdx.x % {0});", kGroupThreads,
         cluster, ring.turn, empty, last);
  });
  line("}} else if (threadIdx.x == {}) {{", users);
  turns([&] {
    // The first round finds all copies empty.
    line("tw_barrier_wait({} + {}, {} ^ 1);", empty, ring.slot, phase);
    fetch(parts, fmt::format("{} + {}", full, ring.slot));
  });
  line("}}");
  fetched_ = true;
}

bool KernelEmitter::is_alike(const std::vector<Expr>& indices) const {
  const Expr first = var(kernel_.tile_var) * int_imm(kernel_.cluster);
  Analyzer ranges;
  ranges.bind(kernel_.tile_var, 0, kernel_.tiles / kernel_.cluster);
  const auto at = [&](const Expr& index, int64_t tile) {
    return ranges.simplify(substitute(substitute(index, lets_), {{kernel_.tile_var, first + int_imm(tile)}}));
  };
  return std::ranges::all_of(indices, [&](const Expr& index) {
    const Expr one = at(index, 0);
    for (int64_t tile = 1; tile < kernel_.cluster; ++tile) {
      if (!equal(one, at(index, tile))) return false;
    }
    return true;
  });
}

void KernelEmitter::fetch(const loop::PipelineParts& parts, const std::string& barrier) {
  std::vector<BulkCopy> copies;
  int64_t bytes = 0;
  for (const Stmt& nest : bulk_nests(parts.fill)) {
    copies.push_back(bulk_copy(nest, kernel_.params, names_.ranges));
    const DataType type = std::ranges::find(parts.buffers, copies.back().buffer, &loop::Buffer::name)->type;
    bytes += num_elements(copies.back().box) * type.bytes();
  }
  line("tw_barrier_expect({}, {});", barrier, bytes);
  names_.variables["cluster.rank"] = "tw_cluster_rank()";
  for (BulkCopy& copy : copies) {
    const bool shared = kernel_.cluster > 1 && is_alike(copy.start);
    if (shared) take_part(copy, kernel_.cluster, var("cluster.rank"));
    const auto param = std::ranges::find(kernel_.params, copy.tensor, &loop::Buffer::name);
    std::vector<std::string> start;
    for (size_t d = copy.start.size(); d-- > 0;) start.push_back(cuda_index(copy.start[d], names_));
    if (copy.pixels) {
      const std::vector<Expr>& offsets = copy.pixels->offsets;
      for (size_t d = offsets.size(); d-- > 0;) start.push_back(cuda_index(offsets[d], names_));
    }
    line("tw_fetch{}<{}>(&m{}, &{}, {}, {});", copy.pixels ? "_window" : "", shared ? kernel_.cluster : 1,
         out_.maps.size(), cuda_element(copy.buffer, copy.to, names_), barrier, fmt::join(start, ", "));
    out_.maps.push_back({static_cast<size_t>(param - kernel_.params.begin()), copy.shape, copy.box,
                         copy.pixels ? copy.pixels->windows : CudaWindows()});
  }
}

}  // namespace tw::codegen
